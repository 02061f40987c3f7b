"""Writes the rows of code blocks, as CSV or SQLite; a file is open only while rows are written to it.

So forks, closed descriptors and removed files need no care.
"""

from __future__ import annotations

import errno
import os
import sys
import threading

from gpu_tracker.errors import ParameterError
from gpu_tracker.real import time

if sys.platform != 'win32':
    import fcntl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Row = tuple[int, str, int, float, int | None]
    """The values of :data:`COLUMNS`."""

COLUMNS = ('process_id', 'code_block_name', 'position', 'timestamp', 'call_id')
"""The columns. gpu-tracker 5 has no ``call_id``, the number that the start and the stop of a call share."""
START, STOP = POSITIONS = (0, 1)

_ENDINGS = ('.csv', '.sqlite')
_LONGEST_HEADER = 4096
_OPENING = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, 'O_CLOEXEC', 0) | getattr(os, 'O_BINARY', 0)
"""Windows changes the ends of lines without O_BINARY."""
_TYPES = ('INTEGER', 'VARCHAR', 'INTEGER', 'FLOAT', 'INTEGER')
_TABLE = ', '.join(f'{name} {kind}' for name, kind in zip(COLUMNS, _TYPES, strict=True))
_LOCK_TIMEOUT = 10.0
_SPECIAL = frozenset(',"\r\n')
_CLOCK_STEP = 0.01
"""Seconds by which the time of a file's last change may be too early."""
_loaded = time.time() - _CLOCK_STEP

lock = threading.RLock()
"""Held while rows are written, and while this process forks: SQLite's own locks must not be copied while held."""
_known: set[str] = set()
"""The files that this process has written to."""
_warned: set[str] = set()

if hasattr(os, 'register_at_fork'):
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def check_ending(path: str) -> None:
    """Raise ParameterError if the ending of ``path`` names no format."""
    if not path.endswith(_ENDINGS):
        raise ParameterError('sub_tracking_file', path, 'a path that ends in .csv or .sqlite')


def write(path: str, row: Row, *, overwrite: bool = False) -> bool:
    """Write a row, and return whether that was possible; if not, there is one warning."""
    try:
        append(path, [row], overwrite=overwrite)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path, or columns of something else
        if path not in _warned:
            _warned.add(path)
            _warn(f'Code blocks are not written to {path}: {getattr(error, "strerror", None) or error}.')
        return False
    return True


def append(path: str, rows: Sequence[Row], *, overwrite: bool = False) -> None:
    """Add rows to a file; ``overwrite`` removes the rows of an earlier run before the first rows of this process.

    :raises ValueError: if the file has other columns; OSError: if it cannot be written.
    """
    with lock:
        is_first = path not in _known
        old_rows_stay = is_first and not overwrite and os.path.exists(path) and _is_old(path)
        add = _append_csv if path.endswith('.csv') else _append_sqlite
        add(path, rows, is_first=is_first, overwrite=overwrite)
        _known.add(path)
    if old_rows_stay:  # not while locked: handlers have locks of their own
        _warn(
            f'{path} has code blocks from before this program was started; new ones follow them '
            '(remove it, or use overwrite=True, to start anew).'
        )


def _append_csv(path: str, rows: Sequence[Row], *, is_first: bool, overwrite: bool) -> None:
    descriptor = os.open(path, _OPENING, 0o666)
    try:
        if is_first or not os.fstat(descriptor).st_size:
            _prepare_csv(path, descriptor, overwrite=overwrite)
        _write_all(descriptor, ''.join(map(_line, rows)).encode(errors='replace'))  # one write: rows never mix
    finally:
        os.close(descriptor)


def _prepare_csv(path: str, descriptor: int, *, overwrite: bool) -> None:
    """Write or check the header, while no other process does so."""
    _lock_file(descriptor)  # until it is closed
    size = os.lseek(descriptor, 0, os.SEEK_END)
    os.lseek(descriptor, 0, os.SEEK_SET)
    header = os.read(descriptor, _LONGEST_HEADER).partition(b'\n')[0].rstrip(b'\r')
    if size and _must_go(path, tuple(header.decode(errors='replace').split(',')), overwrite=overwrite):
        os.ftruncate(descriptor, 0)
        size = 0
    if not size:
        _write_all(descriptor, f'{",".join(COLUMNS)}\n'.encode())


def _lock_file(descriptor: int) -> None:
    """Wait for a lock, for a second at most; on Windows there is none."""
    if sys.platform != 'win32':
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.001)
            except OSError:
                return  # a file system without locks
            else:
                return


def _write_all(descriptor: int, data: bytes) -> None:
    if os.write(descriptor, data) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _line(row: Row) -> str:
    process_id, name, position, timestamp, call = row
    if not _SPECIAL.isdisjoint(name):
        name = '"' + name.replace('"', '""') + '"'
    return f'{process_id},{name},{position},{timestamp!r},{"" if call is None else call}\n'


def _append_sqlite(path: str, rows: Sequence[Row], *, is_first: bool, overwrite: bool) -> None:
    import sqlite3  # noqa: PLC0415 - CSV files do without

    try:
        connection = sqlite3.connect(path, timeout=_LOCK_TIMEOUT, isolation_level=None)
        try:
            connection.execute('PRAGMA synchronous=OFF')  # a power cut may cost rows; a killed program costs none
            connection.execute('BEGIN IMMEDIATE')
            if is_first:
                names = tuple(name for (name,) in connection.execute("SELECT name FROM pragma_table_info('data')"))
                if names and _must_go(path, names, overwrite=overwrite):
                    connection.execute('DROP TABLE data')
            connection.execute(f'CREATE TABLE IF NOT EXISTS data ({_TABLE})')
            connection.executemany(
                'INSERT INTO data VALUES (?, ?, ?, ?, ?)',
                [(row[0], row[1].encode(errors='replace').decode(), *row[2:]) for row in rows],
            )
            connection.execute('COMMIT')
        finally:
            connection.close()  # rolls back
    except sqlite3.Error as error:
        raise OSError(str(error)) from error


def _must_go(path: str, names: tuple[str, ...], *, overwrite: bool) -> bool:
    """Return whether the rows in a file with these columns have to be removed.

    :raises ValueError: if it has other columns, so that it is left alone.
    """
    if overwrite and names in {COLUMNS, COLUMNS[:-1]} and _is_old(path):
        return True
    if names != COLUMNS:
        raise ValueError('it does not have the columns of a sub-tracking file')
    return False


def _is_old(path: str) -> bool:
    """Return whether a file was last changed before this run began, and has content."""
    state = os.stat(path)
    return bool(state.st_size) and state.st_mtime < _run_start()


def _run_start() -> float:
    """Return the Unix time at which this run began; a worker of multiprocessing belongs to its parent's run."""
    module = sys.modules.get('multiprocessing.process')
    parent = None if module is None else module.parent_process()
    if parent is None:
        return _loaded
    if sys.platform != 'linux':
        import psutil  # noqa: PLC0415 - Linux does without

        try:
            return float(psutil.Process(parent.pid).create_time())
        except psutil.Error:
            return 0.0
    try:
        with open(f'/proc/{parent.pid}/stat', 'rb') as file:
            ticks = int(file.read().rpartition(b')')[2].split()[19]) + 1  # proc_pid_stat(5): starttime, rounded down
    except FileNotFoundError:
        return 0.0  # unknown, so that no row is removed
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf('SC_CLK_TCK'))


def _warn(text: str) -> None:
    import logging  # noqa: PLC0415 - costs 15 ms

    try:
        logging.getLogger('gpu_tracker').warning('%s', text)
    except Exception:  # noqa: BLE001, S110 - a handler of the program's own; the block must not fail for it
        pass
