"""Opens a recording for reading, whatever the file turns out to be: it may come from a stranger, or be half written.

A file is never changed by reading it. Nothing that is stored in it is run: views, triggers and virtual tables are not
touched, and only the tables of the format can be read through the connection at all.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from typing import TYPE_CHECKING
from urllib.parse import quote

from gpu_tracker.errors import RecordingError
from gpu_tracker.recording import schema
from gpu_tracker.recording.reading import recovery

if TYPE_CHECKING:
    from collections.abc import Callable

OLDEST_SQLITE = (3, 28, 0)
"""The first version that reads what the recorder of any Python may have written."""
TABLES = (
    'meta', 'columns', 'samples', 'gpus', 'gpu_samples', 'processes', 'process_samples', 'regions', 'clock', 'messages',
)  # fmt: skip
"""All tables of the format, and all that is read of a file."""

_LOCK_TIMEOUT = 10.0
"""Seconds: a recorder has its file locked for milliseconds while it writes."""
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 64 * 2**20,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 200_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 1_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 200_000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_FUNCTIONS = {'avg', 'coalesce', 'count', 'max', 'min'}
_HEADER = 100
"""Bytes, see https://www.sqlite.org/fileformat.html."""
_MAGIC = b'SQLite format 3\0'
_WAL = b'\x02\x02'
_SNIFFED = 65536
"""Bytes at the beginning of a file in which what it is can be seen: the largest page that there is."""
_OLD_CSV = (b'main_ram', b'ram_unit', b'process_id,code_block_name')
"""How the CSV files of gpu-tracker 5 begin."""
_SUB_TRACK = "it is in the format of gpu-tracker 5, which 'gpu-tracker sub-track' reads"


def open_database(path: str | os.PathLike[str], *, salvage: bool = False) -> sqlite3.Connection:
    """Return a connection that can only read the tables of a recording, see :data:`TABLES`.

    :param path: The recording. Its run may still be going on, and the run or the machine may have been killed.
    :param salvage: Read a file that was cut off or damaged as far as it goes.
    :raises RecordingError: where it is no recording, is of a newer version, or cannot be read.
    """
    check_library(sqlite3.sqlite_version_info)
    name = os.fsdecode(path)
    try:
        _check_header(name)
        return _open(name, salvage=salvage)
    except OSError as error:
        raise RecordingError(f'cannot read {name}: {error.strerror or error}') from error
    except sqlite3.Error as error:
        raise explanation(name, error, salvage=salvage) from error


def check_library(version: tuple[int, int, int]) -> None:
    """Raise RecordingError where SQLite, which Python was built with, is too old."""
    if version < OLDEST_SQLITE:
        needed, found = ('.'.join(map(str, numbers)) for numbers in (OLDEST_SQLITE, version))
        raise RecordingError(f'recordings need SQLite {needed} or newer; this Python has {found}')


def explanation(path: str, error: Exception, *, salvage: bool = False) -> RecordingError:
    """Return what is to be said where SQLite could not read ``path``."""
    text = str(error)
    if recovery.is_damage(error):
        advice = '' if salvage else ': --salvage (or salvage=True) reads it as far as it goes'
        return RecordingError(f'{path} is damaged ({text}){advice}')
    if getattr(error, 'sqlite_errorname', '').startswith(('SQLITE_BUSY', 'SQLITE_LOCKED')):
        return RecordingError(f'cannot read {path}: another program has kept it locked for {_LOCK_TIMEOUT:g} s')
    return RecordingError(f'cannot read {path}: {text}')


def _check_header(path: str) -> None:
    """Raise RecordingError where the beginning of a file says that it is no recording that can be read."""
    begin = _beginning(path)
    _check_kind(path, begin)
    version = int.from_bytes(begin[60:64], signed=True)
    if version > schema.VERSION:
        raise RecordingError(
            f'{path} was written in version {version} of the format; this gpu-tracker reads up to {schema.VERSION}'
        )
    if version < 1:
        raise RecordingError(f'{path} is in version {version} of the format; there is none before 1')
    if begin[18:20] == _WAL:
        raise RecordingError(f'{path} was changed to the WAL mode of SQLite, in which recordings never are')


def _beginning(path: str) -> bytes:
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        what = 'a folder' if stat.S_ISDIR(mode) else 'no regular file'
        raise RecordingError(f'{path} is {what}; a recording is one file')
    with open(path, 'rb') as file:
        begin = file.read(_SNIFFED)
    if not begin:
        raise RecordingError(f'{path} is empty; a recording has at least its tables, written before its run starts')
    return begin


def _check_kind(path: str, begin: bytes) -> None:
    if not begin.startswith(_MAGIC):
        if begin.startswith(_OLD_CSV):
            raise RecordingError(f'{path} is no recording but a CSV file; {_SUB_TRACK}')
        raise RecordingError(f'{path} is no recording: a recording is an SQLite database, and this file is none')
    if len(begin) < _HEADER:
        raise RecordingError(f'{path} is cut off after {len(begin)} bytes: nothing of a recording is left in it')
    application = int.from_bytes(begin[68:72])
    if application != schema.APPLICATION_ID:
        if b'static_data' in begin and application == 0:
            raise RecordingError(f'{path} is no recording of this version; {_SUB_TRACK}')
        raise RecordingError(
            f'{path} is an SQLite database, but no recording of gpu-tracker: its application id is {application:#010x},'
            f' that of recordings {schema.APPLICATION_ID:#010x}'
        )


def _open(path: str, *, salvage: bool) -> sqlite3.Connection:
    try:
        return recovery.when_settled(lambda: _checked_connection(path, 'mode=ro'))
    except sqlite3.Error as error:
        problem = error
    if recovery.needs_rollback(path, problem):
        return recovery.on_copy(path, recovery.roll_back, lambda copy: _open_copy(copy, salvage=salvage))
    if recovery.has_no_locks(problem):
        return _connect(path, 'mode=ro&nolock=1')
    if not recovery.is_damage(problem):
        raise problem
    if not salvage:
        raise recovery.cut_off(path) or problem
    return recovery.on_copy(path, recovery.fit_page_count, _connect_copy)


def _open_copy(copy: str, *, salvage: bool) -> sqlite3.Connection:
    _check_header(copy)
    try:
        return _connect_copy(copy)
    except sqlite3.Error as error:
        if not (salvage and recovery.is_damage(error)):
            raise
    recovery.fit_page_count(copy)
    return _connect_copy(copy)


def _connect_copy(copy: str) -> sqlite3.Connection:
    return _connect(copy, 'immutable=1')


def _connect(path: str, mode: str) -> sqlite3.Connection:
    return recovery.named(lambda: _checked_connection(path, mode))


def _checked_connection(path: str, mode: str) -> sqlite3.Connection:
    uri = f'file:{quote(os.fsencode(os.path.abspath(path)))}?{mode}'
    connection = sqlite3.connect(
        uri, uri=True, timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False, cached_statements=32
    )
    try:
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        for setting in ('trusted_schema=OFF', 'query_only=ON', 'mmap_size=0', 'cell_size_check=ON', 'cache_size=-8192'):
            connection.execute(f'PRAGMA {setting}')
        connection.text_factory = _text
        _check_tables(connection, path)
        connection.set_authorizer(_authorize)
    except BaseException:
        connection.close()
        raise
    return connection


def _text(data: bytes) -> str:
    return data.decode(errors='replace')


def _check_tables(connection: sqlite3.Connection, path: str) -> None:
    """Raise RecordingError where a table is missing, or is one in name only."""
    found = connection.execute(
        f'SELECT name, type, sql FROM sqlite_master WHERE name IN ({", ".join("?" * len(TABLES))})',  # noqa: S608
        TABLES,
    )
    kinds = {name: (kind, sql) for name, kind, sql in found.fetchmany(2 * len(TABLES))}
    for table in TABLES:
        kind, sql = kinds.get(table, (None, None))
        if kind is None:
            raise RecordingError(f'{path} is no whole recording: it has no table {table!r}')
        if kind != 'table' or not isinstance(sql, str) or not sql.upper().startswith('CREATE TABLE'):
            raise RecordingError(f'{path} is no recording: {table!r} is no table of its own in it')
        if any(column[6] for column in connection.execute(f'PRAGMA table_xinfo({table})')):
            raise RecordingError(f'{path} is no recording: its table {table!r} has computed columns')


def _authorize(action: int, first: str | None, second: str | None, _database: str | None, inner: str | None) -> int:
    """Let nothing be done but to read the tables of the format, for what no view and no trigger has asked."""
    if inner is not None:
        return sqlite3.SQLITE_DENY
    if action in _ALLOWED and _ALLOWED[action](first, second):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


_ALLOWED: dict[int, Callable[[str | None, str | None], bool]] = {
    sqlite3.SQLITE_SELECT: lambda _first, _second: True,
    sqlite3.SQLITE_TRANSACTION: lambda _first, _second: True,
    sqlite3.SQLITE_READ: lambda table, _column: table in TABLES,
    sqlite3.SQLITE_FUNCTION: lambda _, function: function in _FUNCTIONS,
}
