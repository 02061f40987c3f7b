"""Code blocks in a CSV file: one ``write`` a row, so that rows of several processes never mix."""

from __future__ import annotations

import os
import stat
import sys

from gpu_tracker.sub_tracker.earlier_runs import is_of_this_run
from gpu_tracker.sub_tracker.log_files import CALL_COLUMN, COLUMNS, ForeignFileError

if sys.platform != 'win32':
    import fcntl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from gpu_tracker.sub_tracker.log_files import Row

_HEADER = ','.join((*COLUMNS, CALL_COLUMN))
_LONGEST_HEADER = 4096
_SPECIAL = frozenset(',"\r\n')
_OPENING = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, 'O_CLOEXEC', 0) | getattr(os, 'O_BINARY', 0)
"""Without the last of them Windows changes the ends of lines."""


class CsvLog:
    """An open CSV file; who has it open holds a shared lock, by which others see that it is in use."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = os.open(path, _OPENING, 0o666)
        self._identity = _identity(os.fstat(self._descriptor))
        self._has_calls = True
        self._is_cut = False

    @classmethod
    def open(cls, path: str, *, overwrite: bool) -> tuple[Self, bool]:
        """Open the file at ``path``, with a header; return it and whether it has rows of an earlier run."""
        file = cls(path)
        try:
            return file, file._prepare(overwrite=overwrite)
        except BaseException:
            file.close()
            raise

    def append(self, row: Row) -> None:
        """Write a row; the kernel lets one writer after the other in."""
        self._reopen_if_gone()
        process_id, name, position, timestamp, call = row
        line = f'{process_id},{_quoted(name)},{position},{timestamp!r}'
        self._write(f'{line},{call}' if self._has_calls else line)

    def close(self) -> None:
        """Close the descriptor, unless the program has given its number to another file."""
        try:
            if _identity(os.fstat(self._descriptor)) == self._identity:
                os.close(self._descriptor)
        except OSError:
            pass  # the program has closed it

    def forked(self) -> None:
        """Go on with the same descriptor: appending needs no position of its own."""

    def _reopen_if_gone(self) -> None:
        """Open the file again where it was removed, or where the program has closed the descriptor."""
        try:
            state = os.fstat(self._descriptor)
        except OSError:
            self._open_again()
            return
        if _identity(state) != self._identity:
            self._open_again()  # without closing: the number belongs to another file of the program's now
        elif not state.st_nlink:
            os.close(self._descriptor)
            self._open_again()

    def _open_again(self) -> None:
        fresh, _ = type(self).open(self._path, overwrite=False)
        self.__dict__ = fresh.__dict__

    def _prepare(self, *, overwrite: bool) -> bool:
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            raise ForeignFileError('it is no regular file')
        is_alone = self._lock_alone()
        try:
            state = os.fstat(self._descriptor)
            is_earlier = is_alone and not is_of_this_run(state.st_mtime)
            if overwrite and is_earlier:
                os.ftruncate(self._descriptor, 0)
            size = os.fstat(self._descriptor).st_size
            if not size:
                self._write(_HEADER)
                return False
            self._read_header()
            self._is_cut = _read_at(self._descriptor, 1, size - 1) != b'\n'
            return is_earlier
        finally:
            if is_alone:
                self._share()

    def _lock_alone(self) -> bool:
        """Lock the file for this process alone; return False where others write to it, and share it with them."""
        if sys.platform != 'win32':
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._share()  # waits for who writes the header
                return False
            except OSError:
                pass  # a file system without such locks: as if nobody else were there
        return True

    def _share(self) -> None:
        if sys.platform != 'win32':
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_SH)
            except OSError:
                pass  # as above

    def _read_header(self) -> None:
        """Find out which columns the file has; raise ForeignFileError where they are not those of code blocks."""
        first = _read_at(self._descriptor, _LONGEST_HEADER, 0).partition(b'\n')[0].rstrip(b'\r')
        names = tuple(first.decode(errors='replace').split(','))
        if names not in {COLUMNS, (*COLUMNS, CALL_COLUMN)}:
            raise ForeignFileError('it has other columns than a sub-tracking file')
        self._has_calls = len(names) > len(COLUMNS)

    def _write(self, line: str) -> None:
        """Write a line whole; after a full disk has cut one, the next begins on a line of its own."""
        data = f'{line}\n'.encode(errors='surrogateescape')
        if self._is_cut:
            data = b'\n' + data
        written = os.write(self._descriptor, data)
        self._is_cut = written < len(data)


def _read_at(descriptor: int, length: int, offset: int) -> bytes:
    if sys.platform != 'win32':
        return os.pread(descriptor, length, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)  # what is written goes to the end of the file all the same
    return os.read(descriptor, length)


def _identity(state: os.stat_result) -> tuple[int, int]:
    return state.st_dev, state.st_ino


def _quoted(text: str) -> str:
    """Return a field of a CSV file, quoted where that is needed."""
    if _SPECIAL.isdisjoint(text):
        return text
    return '"' + text.replace('"', '""') + '"'
