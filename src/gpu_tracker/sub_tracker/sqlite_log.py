"""Code blocks in an SQLite file, a transaction a row."""

from __future__ import annotations

import os
import sqlite3

from gpu_tracker.sub_tracker.earlier_runs import is_of_this_run, writes_still
from gpu_tracker.sub_tracker.log_files import CALL_COLUMN, COLUMNS, BusyError, ForeignFileError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from gpu_tracker.sub_tracker.log_files import Row

_CREATE = f"""CREATE TABLE data (
    process_id INTEGER, code_block_name VARCHAR, position INTEGER, timestamp FLOAT, {CALL_COLUMN} INTEGER
)"""

_PRIMARY = 0xFF
"""The part of SQLite's extended result codes that names the error."""

_abandoned: list[sqlite3.Connection] = []
"""Connections that a fork has copied: SQLite forbids to use or close them in the child."""


class SqliteLog:
    """A connection to an SQLite file with a table ``data``; made again in a process that is forked."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._columns: tuple[str, ...] = ()

    @classmethod
    def open(cls, path: str, *, overwrite: bool) -> tuple[Self, bool]:
        """Open the file at ``path``, with its table; return it and whether it has rows of an earlier run.

        Raises BusyError where somebody else is writing, OSError where it cannot be opened, ForeignFileError where it is
        something else.
        """
        file = cls(path)
        return file, file._connect(overwrite=overwrite)

    def append(self, row: Row) -> None:
        """Write a row."""
        if self._connection is None or self._identity != _identity(self._path):
            self.close()
            self._connect(overwrite=False)
        process_id, name, position, timestamp, call = row
        values = (process_id, _storable(name), position, timestamp, call)[: len(self._columns)]
        marks = ', '.join('?' * len(values))
        self._execute(f'INSERT INTO data ({", ".join(self._columns)}) VALUES ({marks})', values)  # noqa: S608 - constants

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def forked(self) -> None:
        """Forget the connection, which is the parent's."""
        if self._connection is not None:
            _abandoned.append(self._connection)
            self._connection = None

    def _connect(self, *, overwrite: bool) -> bool:
        """Connect, make the table where it is missing, and return whether there are rows of an earlier run."""
        try:
            # timeout: who waits is log_files, without its lock
            self._connection = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise OSError(str(error)) from error
        try:
            self._execute('PRAGMA synchronous=OFF')  # a power cut may cost rows; a killed program costs none
            self._execute('BEGIN IMMEDIATE')
            has_old_rows = self._prepare(overwrite=overwrite)
            self._execute('COMMIT')
        except BaseException:
            self.close()  # rolls back
            raise
        self._identity = _identity(self._path)
        return has_old_rows

    def _prepare(self, *, overwrite: bool) -> bool:
        self._columns = tuple(name for (name,) in self._execute("SELECT name FROM pragma_table_info('data')"))
        if not self._columns:
            self._execute(_CREATE)
            self._columns = (*COLUMNS, CALL_COLUMN)
            return False
        if self._columns not in {COLUMNS, (*COLUMNS, CALL_COLUMN)}:
            raise ForeignFileError('its table data has other columns than a sub-tracking file')
        has_old_rows = self._has_rows_of_earlier_run()
        if has_old_rows and overwrite:
            self._execute('DELETE FROM data')
            return False
        return has_old_rows

    def _has_rows_of_earlier_run(self) -> bool:
        writers = self._execute('SELECT process_id, max(timestamp) FROM data GROUP BY process_id')
        if not writers or is_of_this_run(max(last for _, last in writers)):
            return False
        return not any(writes_still(process_id, last) for process_id, last in writers)

    def _execute(self, statement: str, values: tuple[object, ...] = ()) -> list[Any]:
        """Run a statement and return its rows."""
        assert self._connection is not None  # noqa: S101 - for mypy
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & _PRIMARY in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                raise BusyError from error
            raise OSError(str(error)) from error
        except sqlite3.Error as error:
            raise OSError(str(error)) from error


def _identity(path: str) -> tuple[int, int] | None:
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_dev, state.st_ino


def _storable(name: str) -> str:
    """Return ``name`` without what UTF-8 cannot hold."""
    return name.encode(errors='replace').decode()
