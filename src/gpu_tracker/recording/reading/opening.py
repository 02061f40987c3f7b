"""Opens a recording for reading, whatever the file turns out to be: it may come from a stranger, or be half written.

Reading never changes a file. The connection can read the tables of the format only, so that no view, trigger or virtual
table of a stranger is run.
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

TABLES = (
    'meta', 'columns', 'samples', 'gpus', 'gpu_samples', 'processes', 'process_samples', 'regions', 'clock', 'messages',
)  # fmt: skip
"""All tables of the format, and all that is read of a file."""

_LOCK_TIMEOUT = 10.0
"""Seconds: a recorder has its file locked for milliseconds while it writes."""
_LONGEST_VALUE = 64 * 2**20
"""Bytes of a value: a computed column of a stranger could have any."""
_FUNCTIONS = {'avg', 'coalesce', 'count', 'max', 'min'}
_MAGIC = b'SQLite format 3\0'
_SNIFFED = 65536
"""Bytes at the beginning of a file in which what it is can be seen: the largest page that there is."""
_OLD_CSV = (b'main_ram', b'ram_unit', b'process_id,code_block_name')
"""How the CSV files of gpu-tracker 5 begin."""


def open_database(path: str | os.PathLike[str], *, salvage: bool = False) -> sqlite3.Connection:
    """Return a connection that can only read the tables of a recording, see :data:`TABLES`.

    :param path: The recording. Its run may still be going on, and the run or the machine may have been killed.
    :param salvage: Read a file that was cut off or damaged as far as it goes.
    :raises RecordingError: where it is no recording, is of another version, or cannot be read.
    """
    name = os.fsdecode(path)
    try:
        _check_header(name)
        return _open(name, salvage=salvage)
    except OSError as error:
        raise RecordingError(f'cannot read {name}: {error.strerror or error}') from error
    except sqlite3.Error as error:
        raise explanation(name, error, salvage=salvage) from error


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
    """Raise RecordingError where the beginning of a file says that it is no recording of this version."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise RecordingError(f'{path} is not a regular file, so it cannot be a recording')
    with open(path, 'rb') as file:
        begin = file.read(_SNIFFED)
    if not begin:
        raise RecordingError(f'{path} is empty, so it is not a recording')
    application, version = int.from_bytes(begin[68:72]), int.from_bytes(begin[60:64], signed=True)
    if begin.startswith(_OLD_CSV) or (application == 0 and b'static_data' in begin):
        raise RecordingError(f"{path} is in the format of gpu-tracker 5: read the file with 'gpu-tracker sub-track'")
    if not begin.startswith(_MAGIC) or application != schema.APPLICATION_ID:
        raise RecordingError(f'{path} is not a gpu-tracker recording')
    if version != schema.VERSION:
        raise RecordingError(
            f'{path} has version {version} of the recording format; this gpu-tracker reads version {schema.VERSION}'
        )


def _open(path: str, *, salvage: bool) -> sqlite3.Connection:
    try:
        return recovery.when_settled(lambda: _checked_connection(path, 'mode=ro'))
    except sqlite3.Error as error:
        problem = error
    if recovery.has_no_locks(problem):
        return _connect(path, 'mode=ro&nolock=1')
    if recovery.needs_rollback(path, problem) or (salvage and recovery.is_damage(problem)):
        return recovery.on_copy(path, lambda copy: _open_copy(copy, salvage=salvage))
    raise problem


def _open_copy(copy: str, *, salvage: bool) -> sqlite3.Connection:
    recovery.roll_back(copy)
    try:
        return _connect(copy, 'immutable=1')
    except sqlite3.Error as error:
        if not (salvage and recovery.is_damage(error)):
            raise
    recovery.fit_page_count(copy)
    return _connect(copy, 'immutable=1')


def _connect(path: str, mode: str) -> sqlite3.Connection:
    return recovery.named(lambda: _checked_connection(path, mode))


def _checked_connection(path: str, mode: str) -> sqlite3.Connection:
    uri = f'file:{quote(os.fsencode(os.path.abspath(path)))}?{mode}'
    connection = sqlite3.connect(
        uri, uri=True, timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False, cached_statements=32
    )
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        for setting in ('trusted_schema=OFF', 'query_only=ON', 'mmap_size=0', 'cell_size_check=ON', 'cache_size=-8192'):
            connection.execute(f'PRAGMA {setting}')
        connection.text_factory = _text
        connection.execute('SELECT count(*) FROM sqlite_master')  # raises where it is damaged, or was left half written
        connection.set_authorizer(_authorize)
    except BaseException:
        connection.close()
        raise
    return connection


def _text(data: bytes) -> str:
    return data.decode(errors='replace')


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
