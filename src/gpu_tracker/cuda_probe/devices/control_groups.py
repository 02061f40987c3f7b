"""The control groups of a process, and their folders: cgroups(7), proc_pid_mountinfo(5)."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

DEVICES = 'devices'
"""The controller of version 1 that lets a group open device files."""

_OCTAL = re.compile(r'\\([0-7]{3})')
_DELETED = ' (deleted)'


class Group(NamedTuple):
    """A control group that a process is in."""

    controllers: tuple[str, ...]
    """Empty: version 2."""
    path: str
    """From the root of the hierarchy as this process sees it."""

    @property
    def is_root(self) -> bool:
        """Whether it is the hierarchy's root."""
        return self.path == '/'


class Mount(NamedTuple):
    """A place where a hierarchy of control groups is mounted."""

    kind: str
    """``cgroup``, which is version 1, or ``cgroup2``."""
    options: tuple[str, ...]
    """Those of the hierarchy, the names of its controllers among them."""
    root: str
    """Which group stands at the mount point."""
    point: str


def groups_of(pid: int, proc: str = '/proc') -> list[Group]:
    """Return the groups of a process.

    :raises OSError: It has ended, or cannot be read.
    """
    with open(f'{proc}/{pid}/cgroup', encoding='utf-8', errors='surrogateescape') as file:
        lines = file.read().splitlines()
    found = []
    for line in lines:
        _, controllers, path = line.split(':', 2)
        found.append(Group(tuple(controllers.split(',')) if controllers else (), path.removesuffix(_DELETED)))
    return found


def mounts(proc: str = '/proc') -> list[Mount]:
    """Return where this process sees control groups.

    :raises OSError: That cannot be read.
    """
    with open(f'{proc}/self/mountinfo', encoding='utf-8', errors='surrogateescape') as file:
        lines = file.read().splitlines()
    found = []
    for line in lines:
        before, _, after = line.partition(' - ')
        kind, _, options = after.split(' ', 2)
        if kind in {'cgroup', 'cgroup2'}:
            root, point = before.split(' ')[3:5]
            found.append(Mount(kind, tuple(options.split(',')), _plain(root), _plain(point)))
    return found


def devices_group(groups: Iterable[Group]) -> Group | None:
    """Return the group of version 1 that limits devices; None where there is none."""
    return next((group for group in groups if DEVICES in group.controllers), None)


def unified_group(groups: Iterable[Group]) -> Group | None:
    """Return the group of version 2; None where there is none."""
    return next((group for group in groups if not group.controllers), None)


def folder_of(group: Group, mounted: Iterable[Mount]) -> str | None:
    """Return the folder of a group; None where it is not to be seen from here."""
    if group.path.startswith('/..'):  # it lies outside of what this process' cgroup namespace shows
        return None
    for mount in mounted:
        is_meant = set(group.controllers) <= set(mount.options) if group.controllers else mount.kind == 'cgroup2'
        is_inside = mount.root in {'/', group.path} or group.path.startswith(f'{mount.root}/')
        if is_meant and is_inside:
            inner = group.path if mount.root == '/' else group.path.removeprefix(mount.root)
            return os.path.join(mount.point, inner.strip('/')).rstrip('/')
    return None


def _plain(text: str) -> str:
    """Undo the octal escapes of blanks and backslashes."""
    return _OCTAL.sub(lambda found: chr(int(found.group(1), 8)), text)
