"""Where the control groups of a process stand: their paths, and their folders as far as they are visible from here.

Both versions, also side by side, nested, seen from inside of a container, and bind-mounted: cgroups(7),
cgroup_namespaces(7), proc_pid_mountinfo(5).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_DELETED = ' (deleted)'
_ROOT_AND_POINT = 2
_OCTAL = frozenset('01234567')
_OCTAL_DIGITS = 3
_MOST_AT_ONCE = 1 << 16


class Group:
    """A control group that a process is in.

    :ivar controllers: Those of version 1, by name; empty: version 2.
    :ivar path: From the root of the hierarchy as the reading process sees it: ``/..`` lies outside of its namespace.
    :ivar is_removed: It is gone: its last process is a zombie (version 2 only).
    """

    __slots__ = ('controllers', 'is_removed', 'path')

    def __init__(self, controllers: tuple[str, ...], path: str, *, is_removed: bool = False) -> None:
        self.controllers = controllers
        self.path = path
        self.is_removed = is_removed

    @property
    def is_root(self) -> bool:
        """Whether it is the hierarchy's root, as far as can be seen from here."""
        return self.path == '/'


class Mount:
    """A mount of a hierarchy of control groups.

    :ivar kind: ``cgroup``, which is version 1, or ``cgroup2``.
    :ivar options: Those of the hierarchy, the names of its controllers among them.
    :ivar root: The path of the group that stands at the mount point.
    :ivar point: The mount point.
    """

    __slots__ = ('kind', 'options', 'point', 'root')

    def __init__(self, kind: str, options: tuple[str, ...], root: str, point: str) -> None:
        self.kind = kind
        self.options = options
        self.root = root
        self.point = point


def groups_of(pid: int | str, proc: str = '/proc') -> list[Group]:
    """Return the groups of a process.

    :param pid: Its pid, or ``self``.
    :raises OSError: It has ended, or cannot be read.
    """
    found = []
    for line in _lines(f'{proc}/{pid}/cgroup'):
        _, is_whole, rest = line.partition(':')
        controllers, colon, path = rest.partition(':')
        if not is_whole or not colon:
            continue  # what stands in for a kernel may write anything
        names = tuple(controllers.split(',')) if controllers else ()
        found.append(Group(names, path.removesuffix(_DELETED), is_removed=path.endswith(_DELETED)))
    return found


def mounts(proc: str = '/proc') -> list[Mount]:
    """Return where this process sees control groups.

    :raises OSError: That cannot be read.
    """
    found = []
    for line in _lines(f'{proc}/self/mountinfo'):
        before, _, after = line.partition(' - ')
        kind, _, options = after.partition(' ')
        places = before.split(' ')[3:5]
        if kind in {'cgroup', 'cgroup2'} and len(places) == _ROOT_AND_POINT:
            root, point = map(plain, places)
            found.append(Mount(kind, tuple(options.rpartition(' ')[2].split(',')), root, point))
    return found


def unified_group(groups: Iterable[Group]) -> Group | None:
    """Return the group of version 2; None where there is none."""
    return next((group for group in groups if not group.controllers), None)


def group_with(groups: Iterable[Group], controller: str) -> Group | None:
    """Return the group of version 1 that a controller limits; None where no hierarchy of version 1 has it."""
    return next((group for group in groups if controller in group.controllers), None)


def folder_of(group: Group, mounted: Iterable[Mount]) -> str | None:
    """Return the folder of a group; None where it is not visible from here.

    It need not be there any more: the group may have been removed.
    """
    return next(iter(folders_up(group, mounted)), None)


def folders_up(group: Group, mounted: Iterable[Mount]) -> list[str]:
    """Return the folders of a group and of those around it, the innermost first, as far as they are visible from here.

    In a container these end at the container's own group; empty where the group itself is not visible.
    """
    for mount in mounted:
        is_meant = set(group.controllers) <= set(mount.options) if group.controllers else mount.kind == 'cgroup2'
        names = _names_below(group.path, mount.root) if is_meant else None
        if names is not None:
            found = [mount.point.rstrip('/') or '/']
            for name in names:
                found.insert(0, os.path.join(found[0], name))
            return found
    return []


def _names_below(path: str, root: str) -> list[str] | None:
    """Return the names that lead from one group down to another; None where this does not lie below it."""
    names, above = _names(path), _names(root)
    below = names[len(above) :]
    # Below /.. lies /../a, but where the root of the namespace is from there nobody knows.
    return None if names[: len(above)] != above or '..' in below else below


def _names(path: str) -> list[str]:
    return [name for name in path.split('/') if name]


def read_text(path: str) -> str:
    """Return the text of a small file of the kernel; a text file of Python's costs ten times as much to open first."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(handle, _MOST_AT_ONCE):
            parts.append(part)
    finally:
        os.close(handle)
    return b''.join(parts).decode('utf-8', 'surrogateescape')


def text_in(folder: str, name: str) -> str | None:
    """Return the text of a file of a group; None where it is not there, or cannot be read."""
    try:
        return read_text(f'{folder}/{name}')
    except OSError:
        return None


def _lines(path: str) -> list[str]:
    """Return the lines of a file: not with splitlines, since names of groups may hold what that takes for an end."""
    return [line for line in read_text(path).split('\n') if line]


def plain(text: str) -> str:
    """Undo the octal escapes of blanks and backslashes, each three digits after a backslash."""
    first, *escaped = text.split('\\')
    for part in escaped:
        digits = part[:_OCTAL_DIGITS]
        is_escape = len(digits) == _OCTAL_DIGITS and set(digits) <= _OCTAL
        first += chr(int(digits, 8)) + part[_OCTAL_DIGITS:] if is_escape else f'\\{part}'
    return first
