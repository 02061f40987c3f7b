"""Users and their rights to files: who runs the monitor, what another user may do, and who else may change a file."""

from __future__ import annotations

import errno
import os
import pwd
import stat
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.system.users import user_name

if TYPE_CHECKING:
    from collections.abc import Callable

_ROOT = 0


class User(NamedTuple):
    """Another user than this process's."""

    name: str
    id: int
    groups: frozenset[int]


def user_named(name: str | None) -> User | None:
    """Return a user; None for this process's (``name`` is None), root, and where there is no such user."""
    if name is None:
        return None
    try:
        entry = pwd.getpwnam(name)
    except (KeyError, ValueError):
        return None
    if entry.pw_uid == _ROOT:
        return None
    return User(name, entry.pw_uid, frozenset(os.getgrouplist(name, entry.pw_gid)))


def may(user: User | None, path: str, bits: int) -> bool:
    """Return whether a user may do with a file what ``bits`` say (as for ``os.access``), and reach it.

    True as well where that is not known of another user: access lists (acl(5)) grant something in the path, root may
    not read there, as on some file servers, or what is there is another thing for each process, as ``/dev/stderr``.
    """
    if user is None:
        return os.access(path, bits)
    try:
        parts = resolved(path)
        if '/proc' in parts.folders:
            return True
        return all(_is_granted(user, folder, os.X_OK) for folder in parts.folders) and _is_granted(
            user, parts.end, bits
        )
    except OSError:
        return True


def is_hidden(user: User | None, path: str) -> bool:
    """Return whether root may not read what another user may see: some file servers do not let it."""
    if user is None:
        return False
    try:
        os.stat(path)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return False


def _is_granted(user: User, path: str, bits: int) -> bool:
    found = os.stat(path)
    if bits & os.W_OK and not stat.S_ISCHR(found.st_mode) and os.statvfs(path).f_flag & os.ST_RDONLY:
        return False
    if _has_access_list(path):
        return True
    shift = 6 if found.st_uid == user.id else 3 if found.st_gid in user.groups else 0
    return (found.st_mode >> shift) & bits == bits


def _has_access_list(path: str) -> bool:
    try:
        return any('acl' in name for name in os.listxattr(path))
    except OSError:
        return False  # this file system has no such things


_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def writable_by_others(path: str) -> str | None:
    """Return the file, or a folder in its resolved path, that others than root may write; None: there is none.

    Whoever may write a folder can put another file in the place of one that is there, unless only owners may delete
    there, as in ``/tmp``. Access lists (acl(5)) show as rights of the group.

    :raises OSError: if something of it is gone.
    """
    parts = resolved(os.path.abspath(path))
    if _others_may_write(parts.end, is_folder=False):
        return parts.end
    return next((folder for folder in reversed(parts.folders) if _others_may_write(folder, is_folder=True)), None)


def _others_may_write(path: str, *, is_folder: bool) -> bool:
    found = os.stat(path)
    is_shared = bool(found.st_mode & _BY_OTHERS) and not (is_folder and found.st_mode & stat.S_ISVTX)
    return found.st_uid != _ROOT or is_shared


_MOST_LINKS = 40
"""As in the kernel: MAXSYMLINKS of its include/linux/namei.h."""


class ResolvedPath(NamedTuple):
    """The folders and symbolic links through which the kernel reaches a file."""

    folders: tuple[str, ...]
    """Those in which something is looked up, each once, in their order and without links."""
    end: str
    """The file itself, without links; it need not be there."""


def resolved(path: str) -> ResolvedPath:
    """Return how the kernel reaches a file, whose path has to be absolute.

    :raises OSError: if there are more than 40 symbolic links in it.
    """
    folders: dict[str, None] = {}
    here, links = '/', 0
    ahead = _reversed_names(path)
    while ahead:
        name = ahead.pop()
        folders[here] = None
        if name == '..':
            here = os.path.dirname(here)
            continue
        entry = os.path.join(here, name)
        try:
            target = os.readlink(entry)
        except OSError:
            here = entry  # no link, or nothing at all
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if target.startswith('/'):
            here = '/'
        ahead += _reversed_names(target)
    return ResolvedPath(tuple(folders), here)


def _reversed_names(path: str) -> list[str]:
    return [name for name in reversed(path.split('/')) if name not in {'', '.'}]


class Caller(NamedTuple):
    """A user who runs the monitor."""

    user: str
    """The name; the number as text where there is none."""
    is_root: bool
    """Whether programs may be run as other users."""
    folder: str | None
    """The working folder; None where it is gone."""
    home_of: Callable[[str], str | None]
    """Returns the home folder of a user; None where there is no such user."""


def this_caller() -> Caller:
    """Return the user of this process."""
    user_id = os.geteuid()
    user = user_name(user_id)
    return Caller(user, user_id == 0, _working_folder(), lambda name: _home(name, user))


def _working_folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None  # deleted, or not to be read


def _home(name: str, own: str) -> str | None:
    if name == own:
        return os.path.expanduser('~')  # HOME goes first, as in a shell
    try:
        return pwd.getpwnam(name).pw_dir
    except (KeyError, ValueError):
        return None  # no such user; ValueError: its name has characters that this locale cannot encode
