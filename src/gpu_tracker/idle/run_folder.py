"""Where the running monitor has its socket: found by the monitor and by who asks it, each on its own."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.system.users import user_name

if TYPE_CHECKING:
    from collections.abc import Mapping

_FOLDER = 'gpu-tracker'
_FILE = 'idle.sock'
_OF_ROOT = f'/run/{_FOLDER}'
_ROOT = 0
_TEMPORARY = '/tmp'  # noqa: S108 - the owner of the folder in it is checked
_LONGEST_PATH = 107
"""Bytes of a socket's path: sun_path of unix(7) without the zero at its end."""
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def socket_path(environment: Mapping[str, str], user_id: int) -> str:
    """Return where the monitor of a user listens.

    This is ``idle.sock`` in the first of these folders: the first of RUNTIME_DIRECTORY, which systemd sets for a
    service; for root /run/gpu-tracker; ``gpu-tracker`` in XDG_RUNTIME_DIR, if that is a folder of this user's;
    ``gpu-tracker-UID`` in TMPDIR or else /tmp.

    :raises GpuTrackerError: if the folder in /tmp is not this user's alone, or the path too long.
    """
    path = os.path.join(_run_folder(environment, user_id), _FILE)
    check_length(path)
    return path


def own_socket_path() -> str:
    """Return where the monitor of this user listens.

    :raises GpuTrackerError: as :func:`socket_path` does.
    """
    return socket_path(os.environ, os.getuid())


def _run_folder(environment: Mapping[str, str], user_id: int) -> str:
    of_service = environment.get('RUNTIME_DIRECTORY', '').partition(':')[0]
    if os.path.isabs(of_service):
        return of_service
    if user_id == _ROOT:
        return _OF_ROOT
    of_user = environment.get('XDG_RUNTIME_DIR', '')
    if os.path.isabs(of_user) and _is_folder_of(of_user, user_id):
        return os.path.join(of_user, _FOLDER)
    temporary = environment.get('TMPDIR', '')
    if not (os.path.isabs(temporary) and os.path.isdir(temporary)):
        temporary = _TEMPORARY
    folder = os.path.join(temporary, f'{_FOLDER}-{user_id}')
    if os.path.lexists(folder):
        check_folder(folder, user_id)
    return folder


def _is_folder_of(path: str, user_id: int) -> bool:
    """Return whether it is; the variable may be left from another user, as ``su`` does."""
    try:
        found = os.stat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == user_id


def check_length(path: str) -> None:
    """Raise GpuTrackerError where the path is longer than a socket's may be."""
    length = len(os.fsencode(path))
    if length > _LONGEST_PATH:
        raise GpuTrackerError(
            f'the path of the status socket has {length} bytes, but the system allows only {_LONGEST_PATH}: {path}. '
            'Set XDG_RUNTIME_DIR to a shorter folder (for a service, RUNTIME_DIRECTORY).'
        )


def make_folder(path: str, user_id: int) -> None:
    """Make the folder for this user alone, unless it is there.

    A sticky folder such as /tmp will do: of those who may write to it, only its owner can replace what is another's.

    :raises GpuTrackerError: if that is not possible, or others could put something else in the socket's place.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass  # checked below
    except OSError as error:
        raise GpuTrackerError(f'the folder {path} for the status socket cannot be made: {reason_of(error)}') from None
    if not _is_sticky(path, user_id):
        check_folder(path, user_id)


def _is_sticky(path: str, user_id: int) -> bool:
    """Return whether others cannot replace this user's files in a folder: what its sticky bit means, inode(7)."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and bool(found.st_mode & stat.S_ISVTX) and found.st_uid in {user_id, _ROOT}


def check_folder(path: str, user_id: int) -> None:
    """Raise GpuTrackerError where the folder is not this user's, or others may write to it."""
    try:
        found = os.lstat(path)
    except OSError as error:
        raise GpuTrackerError(f'the folder {path} for the status socket cannot be used: {reason_of(error)}') from None
    problem = _problem(found, user_id)
    if problem is not None:
        raise GpuTrackerError(f'the folder {path} for the status socket cannot be trusted: {problem}')


def _problem(found: os.stat_result, user_id: int) -> str | None:
    if stat.S_ISLNK(found.st_mode):
        return 'it is a symbolic link'
    if not stat.S_ISDIR(found.st_mode):
        return 'it is no folder'
    if found.st_uid != user_id:
        return f"it is {user_name(found.st_uid)}'s, not {user_name(user_id)}'s"
    if found.st_mode & _WRITABLE_BY_OTHERS:
        return f'others may write to it (mode {stat.S_IMODE(found.st_mode):04o})'
    return None


def reason_of(error: OSError) -> str:
    """Return why a call failed, in words that follow a colon."""
    return (error.strerror or str(error)).lower()
