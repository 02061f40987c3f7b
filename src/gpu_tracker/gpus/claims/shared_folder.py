"""The folder that claims stand in: where it is, how it is made, and whether it can be trusted.

It is like /tmp: everybody may add files, and only the owner of a file may remove it (or the owner of the folder, or
root). So it has to be a real folder, and sticky where others may write to it, inode(7).
"""

from __future__ import annotations

import errno
import os
import stat

from gpu_tracker.errors import ClaimsError, ParameterError
from gpu_tracker.system.users import user_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VARIABLE = 'GPU_TRACKER_CLAIMS'
"""The environment variable that names another folder."""
_OTHER_CHOICE = f'{VARIABLE} chooses another folder.'
_SHARED_MODE = 0o1777
_WAS_THERE = {errno.EEXIST, errno.ENOTEMPTY}
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def default_path(environment: Mapping[str, str] = os.environ, lock_folder: str = '/run/lock') -> str:
    """Return where claims stand unless told otherwise, for all users the same.

    In a container nobody may write to the folder for locks, and yet the claims of the machine may be mounted there.
    /tmp comes second: a service with ``PrivateTmp`` has its own. In /dev/shm ``RemoveIPC`` of logind.conf(5) removes
    the files of users who log out.

    :raises ParameterError: The variable is no absolute path.
    """
    chosen = environment.get(VARIABLE)
    if chosen:
        if not os.path.isabs(chosen):
            raise ParameterError(VARIABLE, chosen, 'an absolute path')
        return chosen
    folder = f'{lock_folder}/gpu-tracker'
    if _is_for_all(os.stat, lock_folder) or _is_for_all(os.lstat, folder):
        return folder
    return '/tmp/gpu-tracker-claims'  # noqa: S108 - what may go wrong there is checked


def _is_for_all(look: Callable[[str], os.stat_result], path: str) -> bool:
    """Return whether everybody may add files to a folder, and remove only their own."""
    try:
        mode = look(path).st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) and bool(mode & stat.S_ISVTX and mode & stat.S_IWOTH)


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def open_folder(path: str) -> int | None:
    """Return a descriptor of the folder, None where there is none.

    :param path: Without a slash at its end, which would make the kernel follow a symbolic link after all.
    :raises ClaimsError: if what is there is no folder, or one in which others could remove this user's files.
    """
    try:
        descriptor = _open(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unusable(path, error) from error
    try:
        mode = os.fstat(descriptor).st_mode
    except BaseException:
        os.close(descriptor)
        raise
    if mode & _WRITABLE_BY_OTHERS and not mode & stat.S_ISVTX:
        os.close(descriptor)
        raise unusable(
            path,
            'other users may write to it, and without the sticky bit (chmod +t) they may remove the claims in it',
        )
    return descriptor


def make_folder(path: str) -> None:
    """Make the folder for all users, unless there is something at its path meanwhile.

    It is made beside its place and moved there, so that nobody sees it with the mode that the umask leaves. This may
    replace an empty folder that somebody else has just made: who was about to claim in it starts again.

    :raises ClaimsError: It cannot be made.
    """
    temporary = f'{path}.{os.getpid()}-{os.urandom(8).hex()}'
    try:
        try:
            os.mkdir(temporary, 0o700)
            descriptor = _open(temporary)
            try:
                os.fchmod(descriptor, _SHARED_MODE)
            finally:
                os.close(descriptor)
            os.rename(temporary, path)
        except BaseException:
            try:
                os.rmdir(temporary)
            except OSError:
                pass  # it was not made, or it was moved and Ctrl-C came then
            raise
    except OSError as error:
        # Where somebody's folder was there and has gone again by now, the caller tries once more.
        if error.errno not in _WAS_THERE and not os.path.lexists(path):
            raise ClaimsError(
                f'The folder {path} for GPU claims cannot be made: {_why(error)}. {_OTHER_CHOICE}'
            ) from error


def is_at(path: str, descriptor: int) -> bool:
    """Return whether the open folder is still the one that the path leads to."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor))
    except OSError:
        return False


def unusable(path: str, why: OSError | str) -> ClaimsError:
    """Return what to raise if claims cannot be listed, locked or written there."""
    text = _why(why) if isinstance(why, OSError) else why
    return ClaimsError(f'GPU claims cannot be stored in {_found(path)}: {text}. {_OTHER_CHOICE}')


def _found(path: str) -> str:
    """Describe what is at the path and whose it is."""
    try:
        found = os.lstat(path)
    except OSError:
        return path
    kinds = {stat.S_IFLNK: 'a symbolic link', stat.S_IFDIR: 'a folder', stat.S_IFREG: 'a file'}
    kind = kinds.get(stat.S_IFMT(found.st_mode), 'no folder')
    return f'{path} ({kind} of {user_name(found.st_uid)}, mode {stat.S_IMODE(found.st_mode):04o})'


def _why(error: OSError) -> str:
    if error.errno in {errno.ENOTDIR, errno.ELOOP}:
        return 'it is not a folder'
    return (error.strerror or str(error)).lower()
