"""The files that code blocks are written to: opened once a process, shared with others, and safe where it forks.

A row that cannot be written is lost, with one warning a file: the program that is measured never fails for it.
"""

from __future__ import annotations

import os
import threading
import time

from gpu_tracker.errors import ParameterError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    Row = tuple[int, str, int, float, int]
    """Process id, name of the block, 0 for a start and 1 for a stop, Unix time, number of the call."""

    class LogFile(Protocol):
        """A file that takes rows."""

        def append(self, row: Row) -> None:
            """Write a row; raise BusyError where somebody else is writing, and OSError where it cannot be written."""
            ...

        def close(self) -> None:
            """Close the file."""
            ...

        def forked(self) -> None:
            """Prepare for use in a process that was forked just now."""
            ...


COLUMNS = ('process_id', 'code_block_name', 'position', 'timestamp')
"""The columns of gpu-tracker 5."""
CALL_COLUMN = 'call_id'
"""Which call of the block a row is of, the same at its start and stop; gpu-tracker 5 reads files that have it."""
ENDINGS = ('.csv', '.sqlite')

_PAUSE = 0.0003
"""Seconds between two tries. SQLite's own waiting makes pauses that grow, and starves one of several writers."""
_TIMEOUT = 10.0

_lock = threading.RLock()  # held while a row is written: a fork waits for its end
_files: dict[str, LogFile] = {}
_warned: set[str] = set()
_waiting: list[tuple[str, Row]] = []
_is_writing = False


class ForeignFileError(Exception):
    """A file has other content than code blocks; the text says which."""


class BusyError(Exception):
    """Somebody else writes to the file; it has to be tried again."""


def checked(path: str | os.PathLike[str]) -> str:
    """Return ``path`` as text; raise ParameterError where its ending names no format."""
    text = os.fsdecode(path)
    if not text.endswith(ENDINGS):
        raise ParameterError('sub_tracking_file', text, 'a path that ends in .csv or .sqlite')
    return text


def absolute(path: str) -> str:
    """Return the absolute path, as it is where the working folder was removed."""
    try:
        return os.path.abspath(path)
    except OSError:
        return path


def write(path: str, row: Row, *, overwrite: bool = False, is_default: bool = False) -> None:
    """Write a row to the file at ``path``, and never raise what concerns the file.

    ``overwrite`` and ``is_default`` count where this process has not written to the file before: the first removes what
    an earlier run has left, and the second says that the user has not chosen the name.
    """
    deadline = None
    while not _write_now(path, row, overwrite=overwrite, is_default=is_default):
        now = time.monotonic()
        deadline = now + _TIMEOUT if deadline is None else deadline
        if now > deadline:
            _warn(path, f'others kept it locked for {_TIMEOUT:.0f} seconds')
            return
        time.sleep(_PAUSE)  # without the lock, so that another thread may fork meanwhile


def _write_now(path: str, row: Row, *, overwrite: bool, is_default: bool) -> bool:
    """Write a row; return False where it has to be tried again."""
    global _is_writing  # noqa: PLW0603 - guarded by the lock
    with _lock:
        if _is_writing:
            _waiting.append((path, row))  # a signal handler has interrupted this very function
            return True
        _is_writing = True
        try:
            done = _try(path, row, overwrite=overwrite, is_default=is_default)
        finally:
            _is_writing = False
        interrupted = _waiting[:]
        del _waiting[: len(interrupted)]
    for other_path, other_row in interrupted:
        write(other_path, other_row)
    return done


def _try(path: str, row: Row, *, overwrite: bool, is_default: bool) -> bool:
    try:
        file = _files.get(path)
        if file is None:
            file = _files[path] = _opened(path, overwrite=overwrite, is_default=is_default)
        file.append(row)
    except BusyError:
        return False
    except ForeignFileError as error:
        _warn(path, str(error))
    except (OSError, ValueError) as error:  # ValueError: a path that holds a NUL
        file = _files.pop(path, None)  # the next row opens it again
        if file is not None:
            file.close()
        _warn(path, getattr(error, 'strerror', None) or str(error))
    return True


def _opened(path: str, *, overwrite: bool, is_default: bool) -> LogFile:
    if path.endswith('.csv'):
        from gpu_tracker.sub_tracker.csv_log import CsvLog  # noqa: PLC0415 - what is needed only

        file: LogFile
        file, has_old_rows = CsvLog.open(path, overwrite=overwrite)
    else:
        from gpu_tracker.sub_tracker.sqlite_log import SqliteLog  # noqa: PLC0415 - as above

        file, has_old_rows = SqliteLog.open(path, overwrite=overwrite)
    if has_old_rows:
        whose = 'a process that had the same id' if is_default else 'an earlier run'
        advice = 'remove it, or use overwrite=True, to start anew'
        _log(f'{path} has code blocks of {whose}; those of this run follow them ({advice}).')
    return file


def _warn(path: str, reason: str) -> None:
    if path not in _warned:
        _warned.add(path)
        _log(f'Code blocks are not written to {path}: {reason}.')


def _log(text: str) -> None:
    import logging  # noqa: PLC0415 - costs 15 ms

    try:
        logging.getLogger('gpu_tracker').warning('%s', text)
    except Exception:  # noqa: BLE001, S110 - a handler of the program's own; the block must not fail for it
        pass


def _before_fork() -> None:
    _lock.acquire()


def _after_fork_in_parent() -> None:
    _lock.release()


def _after_fork_in_child() -> None:
    try:
        for file in list(_files.values()):
            file.forked()
    finally:
        _lock.release()


if hasattr(os, 'register_at_fork'):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
