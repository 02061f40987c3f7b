"""The locks of claims: one on their folder, under which they are read and written, and one on the file of each."""

from __future__ import annotations

import os
import struct
import sys
import time
from typing import TYPE_CHECKING, TypeVar

from gpu_tracker.errors import ClaimsLockedError
from gpu_tracker.gpus.claims import shared_folder

if sys.platform != 'win32':
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar('Result')

_PAUSE = 0.01
"""Seconds between two attempts to lock the folder. With 200 processes waiting, one attempt is made each 50 µs."""


def lock(path: str, timeout: float) -> int:
    """Return a descriptor of the folder, which is made if it is missing, with the lock on it.

    Wherever Ctrl-C comes, a program that goes on after it, as a notebook does, does not keep the lock.

    :param timeout: Seconds to wait at most; with 0 or less there is one attempt.
    :raises ClaimsLockedError: if others keep it locked for too long.
    :raises ClaimsError: if the folder cannot be used.
    """
    end = time.monotonic() + timeout
    while True:
        folder = shared_folder.open_folder(path)
        if folder is None:
            shared_folder.make_folder(path)
            folder = shared_folder.open_folder(path)
        if folder is not None:
            try:
                if _is_locked(folder, path):
                    return folder
            except BaseException:
                os.close(folder)
                raise
            os.close(folder)
        left = end - time.monotonic()
        if left <= 0:
            raise ClaimsLockedError(_complaint(path, timeout))
        time.sleep(min(_PAUSE, left))


def under_lock(path: str, timeout: float, work: Callable[[int], Result]) -> Result:
    """Return what ``work`` returns, which is given a descriptor of the locked folder.

    :raises ClaimsError: as :func:`lock` does.
    """
    folder = lock(path, timeout)
    try:
        return work(folder)
    finally:
        # Written out here, as Ctrl-C may come between the call of a Python function and its first line.
        try:  # not only closed: a process that another thread has just started has the folder open until its exec
            fcntl.flock(folder, fcntl.LOCK_UN)
        finally:
            os.close(folder)


def _is_locked(folder: int, path: str) -> bool:
    """Lock the folder, unless others do or it is no longer the one at the path."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return shared_folder.is_at(path, folder)
    except BlockingIOError:
        return False
    except OSError as error:
        raise shared_folder.unusable(path, error) from error


def _complaint(path: str, seconds: float) -> str:
    holder = holder_of(path) or 'another process'
    lasting = f'has been locked for {seconds:g} s' if seconds > 0 else 'is locked'
    return (
        f'No GPU can be claimed: {path} {lasting} by {holder}, and gpu-tracker itself locks it for milliseconds only. '
        f'{shared_folder.VARIABLE} chooses another folder.'
    )


def holder_of(path: str, proc: str = '/proc') -> str | None:
    """Return a process that holds a flock(2) on the file or folder: ``process 1234``.

    None if it is unknown, as in other PID namespaces and on Btrfs, which numbers files in another way.
    """
    try:
        info = os.stat(path, follow_symlinks=False)
        file = f'{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{info.st_ino}'
        # The list lacks lines if locks come and go while it is read.
        return next(filter(None, (_holder_in(f'{proc}/locks', file) for _ in range(_READINGS))), None)
    except OSError:
        return None


def _holder_in(path: str, file: str) -> str | None:
    with open(path, encoding='utf-8', errors='replace') as locks:
        lines = [line.split() for line in locks]
    for words in lines:
        # '1: FLOCK  ADVISORY  WRITE 1234 00:19:567 0 EOF', see proc_locks(5); those that wait have '->' before FLOCK.
        match words:
            case [_, 'FLOCK', _, _, pid, at, *_] if at == file and pid.isdecimal() and pid != '0':
                return f'process {pid}'
    return None


_READINGS = 3
_LOWEST = 20
"""Scripts use the descriptors from 3 to 9 and take them for free, and shells those from 10 on for themselves."""


def _whole_file(kind: int) -> bytes:
    """Return the struct flock of fcntl(2)."""
    return struct.pack('hhqqi', kind, os.SEEK_SET, 0, 0, 0)


class RecordLock:
    """The lock on the file of one claim, held by the process that claims and by its forks.

    It is a write lock of an open file description, fcntl(2): only the owner of the file can take it. Everybody could
    take a flock(2) or a read lock, and keep a dead claim valid.

    :param survives_exec: Whether programs that this process becomes or starts hold it as well.
    """

    def __init__(self, *, survives_exec: bool) -> None:
        self._survives_exec = survives_exec
        self._file: int | None = None

    def take(self, file: int) -> None:
        """Lock the file, and keep it open with a descriptor of its own.

        :raises OSError: if that fails.
        """
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_WRLCK))
        self._file = fcntl.fcntl(file, fcntl.F_DUPFD if self._survives_exec else fcntl.F_DUPFD_CLOEXEC, _LOWEST)

    def let_go(self) -> None:
        """Close the file, if it is open, and with it lift the lock as far as this process holds it."""
        # The number goes first: closed twice after Ctrl-C, it might be that of another file.
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def is_held(file: int) -> bool:
    """Return whether somebody holds the lock on an open file, also if that is unknown: no GPU may have two owners."""
    try:  # only a write lock is in the way of a reader; none is taken to find that out
        found = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_RDLCK))
    except OSError:
        return True
    return found[:2] != struct.pack('h', fcntl.F_UNLCK)
