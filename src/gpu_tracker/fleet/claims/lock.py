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
from gpu_tracker.fleet.claims import place

if sys.platform != 'win32':
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable

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
    from gpu_tracker.fleet.claims.lock_holder import holder_of  # noqa: PLC0415 - only where something is wrong

    holder = holder_of(path) or 'another process'
    lasting = f'has been locked for {seconds:g} s' if seconds else 'is locked'
    return (
        f'No GPU can be claimed: {path} {lasting} by {holder}, and gpu-tracker itself locks it for milliseconds only. '
        f'{place.VARIABLE} chooses another folder.'
    )
