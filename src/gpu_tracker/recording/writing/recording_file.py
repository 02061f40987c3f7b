"""The SQLite file of a recording while it is written, by the sampler alone.

One transaction a commit, with a rollback journal that is kept between commits: after a kill at any moment the file has
every commit but perhaps the last one. It is never synchronised with the disk, so nothing is claimed for a power cut.
"""

from __future__ import annotations

import _sqlite3
import os

from gpu_tracker.recording.schema import APPLICATION_ID, TABLES, VERSION, readings_view, samples_table
from gpu_tracker.recording.writing.timepoints import views

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from gpu_tracker.resources import Column

    Statement = tuple[str, Sequence[Sequence[Any]]]
    """SQL, and the values of each row for which it is to be executed."""

Failure = _sqlite3.Error
"""What the methods raise where nothing was written."""

_TIMEOUT = 0.005
"""Seconds for which a commit waits for a reader to finish; it is tried again at the next one."""
_LONGEST_TIMEOUT = 1.0
"""The same at the end of the run, and while the tables are made."""
_LOCK_FAILURES = {15, 2314, 2058, 3594, 3850}
"""SQLITE_PROTOCOL, and SQLITE_IOERR with RDLOCK, UNLOCK, CHECKRESERVEDLOCK and LOCK, see sqlite3.h."""
_BUSY = 5
_PRIMARY = 0xFF
"""The bits of a code that say what kind of failure it is."""


class RecordingFile:
    """A new recording in an existing, empty file, which nobody else writes.

    :param path: The absolute path of the file.
    :ivar has_locks: Whether SQLite locks the file. False if the file system does not support file locks.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.has_locks = True
        self._connection = self._open()

    def create(self, columns: Sequence[Column], units: Sequence[Any], rows: Iterable[Statement]) -> None:
        """Make all tables and views, and write the first rows into them.

        :param columns: Those of ``samples``.
        :param units: Of RAM, GPU RAM and time, and the cores expected, for the views.
        """
        statements = [
            *TABLES.split(';')[:-1],
            samples_table(columns),
            readings_view(columns),
            *views([column.name for column in columns], units),
        ]
        first = list(rows)
        try:
            self._create(statements, first)
        except Failure as error:
            if not _is_of_locks(error):
                raise
            self._connection.close()
            self.has_locks = False
            self._connection = self._open()
            self._create(statements, first)

    def _create(self, statements: Sequence[str], rows: Iterable[Statement]) -> None:
        execute = self._connection.execute
        execute(f'PRAGMA busy_timeout = {round(1000 * _LONGEST_TIMEOUT)}')
        execute('PRAGMA journal_mode = PERSIST').fetchone()
        execute('PRAGMA synchronous = OFF')
        execute('PRAGMA cache_size = -256')
        execute('BEGIN IMMEDIATE')  # one transaction: the file is empty, or a whole recording
        execute(f'PRAGMA application_id = {APPLICATION_ID}')
        execute(f'PRAGMA user_version = {VERSION}')
        for statement in statements:
            execute(statement)
        for sql, values in rows:
            self._connection.executemany(sql, values)
        execute('COMMIT')
        execute(f'PRAGMA busy_timeout = {round(1000 * _TIMEOUT)}')

    def write(self, rows: Iterable[Statement]) -> None:
        """Commit ``rows``: all of them, or none where it raises :data:`Failure`."""
        connection = self._connection
        connection.execute('BEGIN IMMEDIATE')
        try:
            for sql, values in rows:
                connection.executemany(sql, values)
            connection.execute('COMMIT')
        except BaseException:
            if connection.in_transaction:  # a full disk has ended it already
                connection.execute('ROLLBACK')
            raise

    def be_patient(self) -> None:
        """Wait longer for readers from now on: the run has ended."""
        self._connection.execute(f'PRAGMA busy_timeout = {round(1000 * _LONGEST_TIMEOUT)}')

    def close(self) -> None:
        """Remove the journal and close the file."""
        try:
            self._connection.execute('PRAGMA journal_mode = DELETE').fetchone()
        except Failure:
            pass  # a reader is in the way: an empty journal beside the file does no harm
        self._connection.close()

    def _open(self) -> _sqlite3.Connection:
        if self.has_locks:
            return _sqlite3.connect(self._path, isolation_level=None, timeout=_LONGEST_TIMEOUT)
        return _sqlite3.connect(f'{_uri(self._path)}?vfs=unix-none', isolation_level=None, uri=True)


def _uri(path: str) -> str:
    """Return the name of a file as SQLite takes it with options."""
    plain = b'/-_.~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'
    return 'file:' + ''.join(chr(byte) if byte in plain else f'%{byte:02X}' for byte in os.fsencode(path))


def _is_of_locks(error: Failure) -> bool:
    """Return whether locks are what has failed: nobody else can have locked a file that was made just now."""
    code = getattr(error, 'sqlite_errorcode', None)
    return code in _LOCK_FAILURES or (code is not None and code & _PRIMARY == _BUSY)


def is_busy(error: Failure) -> bool:
    """Return whether a reader was in the way: that passes."""
    code = getattr(error, 'sqlite_errorcode', None)
    return code is not None and code & _PRIMARY == _BUSY


def is_failure_of_data(error: Exception) -> bool:
    """Return whether a value is one that cannot be stored, so that writing it again would fail again."""
    return not isinstance(error, _sqlite3.OperationalError)
