"""Whether a user may use files: this process's by asking the kernel, others by the modes on the way to a file."""

from __future__ import annotations

import os
import pwd
import stat
from typing import NamedTuple

from gpu_tracker.idle.config.way import way_to

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
    """Tell whether a user may do with a file what ``bits`` say (as for ``os.access``), and reach it.

    True as well where that cannot be told of another user: access lists (acl(5)) grant something on the way, root may
    not look there, as on some file servers, or what is there is another thing for each process, as ``/dev/stderr``.
    """
    if user is None:
        return os.access(path, bits)
    try:
        way = way_to(path)
        if '/proc' in way.folders:
            return True
        return all(_is_granted(user, folder, os.X_OK) for folder in way.folders) and _is_granted(user, way.end, bits)
    except OSError:
        return True


def is_hidden(user: User | None, path: str) -> bool:
    """Tell whether root may not look at what another user may see: some file servers do not let it."""
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
