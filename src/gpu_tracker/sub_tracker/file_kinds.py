"""What a file is, by its content, and the SQLite files of gpu-tracker 5, opened so that nothing in them is run."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import TYPE_CHECKING
from urllib.parse import quote

from gpu_tracker.errors import SubTrackingError
from gpu_tracker.recording.schema import APPLICATION_ID

if TYPE_CHECKING:
    from collections.abc import Iterator

CSV = 'csv'
SQLITE = 'sqlite'
RECORDING = 'recording'

_MAGIC = b'SQLite format 3\0'
_APPLICATION = slice(68, 72)  # https://www.sqlite.org/fileformat.html
_LOCK_TIMEOUT = 10.0
_LONGEST_VALUE = 1_000_000


def kind_of(path: str) -> str:
    """Return ``csv``, ``sqlite`` or, for a recording of this gpu-tracker, ``recording``.

    :raises OSError: where the file cannot be read.
    """
    with open(path, 'rb') as file:
        begin = file.read(_APPLICATION.stop)
    if not begin.startswith(_MAGIC):
        return CSV
    return RECORDING if int.from_bytes(begin[_APPLICATION]) == APPLICATION_ID else SQLITE


@contextlib.contextmanager
def old_database(path: str, *tables: str) -> Iterator[sqlite3.Connection]:
    """Open an SQLite file of gpu-tracker 5 for reading, for the length of a block.

    :param tables: The tables that are read. Views, virtual tables and computed columns are refused under these names.
    :raises SubTrackingError: where it is no such file, or cannot be read.
    """
    uri = f'file:{quote(os.fsencode(os.path.abspath(path)))}?mode=ro'
    connection = None
    try:
        connection = sqlite3.connect(uri, uri=True, timeout=_LOCK_TIMEOUT)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        connection.execute('PRAGMA trusted_schema=OFF')
        connection.execute('PRAGMA cell_size_check=ON')
        connection.text_factory = lambda data: data.decode(errors='replace')
        for table in tables:
            _check_table(connection, path, table)
        yield connection
    except sqlite3.Error as error:
        raise SubTrackingError(f'cannot read {path}: {error}') from error
    finally:
        if connection is not None:
            connection.close()


def column_names(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the names of the columns of a table."""
    return [name for (name,) in connection.execute('SELECT name FROM pragma_table_info(?)', (table,))]


def _check_table(connection: sqlite3.Connection, path: str, table: str) -> None:
    found = connection.execute('SELECT type, sql FROM sqlite_master WHERE name = ?', (table,)).fetchone()
    if found is None:
        raise SubTrackingError(f'{path} is no file of gpu-tracker: it has no table {table!r}')
    kind, sql = found
    if kind != 'table' or not isinstance(sql, str) or not sql.upper().startswith('CREATE TABLE'):
        raise SubTrackingError(f'{path} is no file of gpu-tracker: {table!r} is no table of its own in it')
    if any(hidden for (hidden,) in connection.execute('SELECT hidden FROM pragma_table_xinfo(?)', (table,))):
        raise SubTrackingError(f'{path} is no file of gpu-tracker: its table {table!r} has computed columns')
