"""The lock under which claims are read and written: flock(2) on their folder itself.

The kernel lifts it when its holder ends, however that happens, and there is no file that could be left behind. Whoever
can read the folder can lock it, a stranger too, so waiting for it has an end.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, TypeVar

from gpu_tracker.errors import ClaimsLockedError
from gpu_tracker.gpus.claims import place
from gpu_tracker.gpus.claims.record import bounded
from gpu_tracker.users import user_name

if TYPE_CHECKING:
    from collections.abc import Callable

if sys.platform != 'win32':
    import fcntl


Result = TypeVar('Result')

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.03


class Patience:
    """How long to wait for a lock, over all attempts.

    :param seconds: 0 or less: there is one attempt, without a wait.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = max(0.0, seconds)
        self._end = time.monotonic() + self.seconds
        self._pause = _FIRST_PAUSE

    def wait(self) -> bool:
        """Wait a little, longer each time; return False where there is no time left."""
        left = self._end - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(self._pause, left))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return True


def lock(path: str, patience: Patience) -> int:
    """Return a descriptor of the folder, which is made where it is missing, with the lock on it.

    Wherever Ctrl-C comes, a program that goes on after it, as a notebook does, does not keep the lock.

    :raises ClaimsLockedError: if others keep it locked for too long.
    :raises ClaimsError: if the folder cannot be used.
    """
    while True:
        folder = place.open_folder(path)
        if folder is None:
            place.make_folder(path)
            folder = place.open_folder(path)
        if folder is not None:
            try:
                if _is_locked(folder, path):
                    return folder
            except BaseException:
                os.close(folder)
                raise
            os.close(folder)
        if not patience.wait():
            raise ClaimsLockedError(_complaint(path, patience.seconds))


def under_lock(path: str, patience: Patience, work: Callable[[int], Result]) -> Result:
    """Return what ``work`` returns, which is given a descriptor of the locked folder.

    :raises ClaimsError: as :func:`lock` does.
    """
    folder = lock(path, patience)
    try:
        return work(folder)
    finally:
        # Written out here, as Ctrl-C may come between the call of a Python function and its first line.
        try:
            # Closing alone would not do where another thread has started a process meanwhile, which has the folder
            # open as well until it calls execve(2).
            fcntl.flock(folder, fcntl.LOCK_UN)
        finally:
            os.close(folder)


def _is_locked(folder: int, path: str) -> bool:
    """Lock the folder, unless others do or it is no longer the one at the path."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return place.is_at(path, folder)
    except BlockingIOError:
        return False
    except OSError as error:
        raise place.unusable(path, error) from error


def _complaint(path: str, seconds: float) -> str:
    from gpu_tracker.gpus.claims.lock import holder_of  # noqa: PLC0415 - only where something is wrong

    holder = holder_of(path) or 'another process'
    lasting = f'has been locked for {seconds:g} s' if seconds else 'is locked'
    return (
        f'No GPU can be claimed: {path} {lasting} by {holder}, and gpu-tracker itself locks it for milliseconds only. '
        f'{place.VARIABLE} chooses another folder.'
    )


def holder_of(path: str, proc: str = '/proc') -> str | None:
    """Describe a process that holds a flock(2) on the file or folder, None where none can be told.

    Not to be told are processes of other PID namespaces, and locks on file systems that number their files in another
    way than the kernel's table does (Btrfs).
    """
    try:
        info = os.stat(path, follow_symlinks=False)
        with open(f'{proc}/locks', encoding='utf-8', errors='replace') as locks:
            lines = [line.split() for line in locks]
    except OSError:
        return None
    file = f'{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{info.st_ino}'
    for words in lines:
        # '1: FLOCK  ADVISORY  WRITE 1234 00:19:567 0 EOF', see proc_locks(5); those that wait have '->' before FLOCK.
        match words:
            case [_, 'FLOCK', _, _, pid, at, *_] if at == file and pid.isdecimal() and pid != '0':
                return _describe(pid, proc)
    return None


def _describe(pid: str, proc: str) -> str:
    try:
        with open(f'{proc}/{pid}/status', encoding='utf-8', errors='replace') as status:
            # Not the owner of its folder in /proc, who is root for a process that has changed its user.
            user = next(int(line.split()[2]) for line in status if line.startswith('Uid:'))
        with open(f'{proc}/{pid}/cmdline', 'rb') as cmdline:
            words = cmdline.read().rstrip(b'\0').replace(b'\0', b' ').decode(errors='replace')
    except (OSError, StopIteration):
        return f'process {pid}'
    command = bounded(words)
    return f'process {pid} of {user_name(user)}' + (f' ({command})' if command else '')
