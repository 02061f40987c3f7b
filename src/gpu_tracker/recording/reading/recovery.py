"""What is done where a recording cannot be read as it lies there: its run was killed, or the file was cut off.

Only a copy is changed. It lies in a temporary folder, which is removed as soon as the copy is open.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from gpu_tracker.errors import RecordingError

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar('Result')

_JOURNAL = '-journal'
_JOURNAL_MAGIC = bytes.fromhex('d9d505f920a163d7')
"""How a rollback journal begins, and how one ends that names other files."""
_LARGEST_PAGE = 65536
_CORRUPT = 'SQLITE_CORRUPT'
_COPY = 'recording'
_ATTEMPTS = 10
_BETWEEN_ATTEMPTS = 0.02
"""Seconds."""


def is_damage(error: Exception) -> bool:
    """Return whether a file is not what a database has to be."""
    return getattr(error, 'sqlite_errorname', '').startswith((_CORRUPT, 'SQLITE_NOTADB'))


def has_no_locks(error: Exception) -> bool:
    """Return whether the file system does not lock files, as some that lie on a network."""
    name = getattr(error, 'sqlite_errorname', '')
    return name == 'SQLITE_PROTOCOL' or (name.startswith('SQLITE_IOERR') and 'LOCK' in name)


def asks_for_rollback(error: Exception) -> bool:
    """Return whether a journal seems to have what has to be put back before the file can be read."""
    return getattr(error, 'sqlite_errorname', '').startswith(('SQLITE_READONLY', 'SQLITE_CANTOPEN'))


def needs_rollback(path: str, error: Exception) -> bool:
    """Return whether a run was killed while it wrote, where the error stays after :func:`when_settled`."""
    return asks_for_rollback(error) and os.path.exists(path + _JOURNAL)


def when_settled(read: Callable[[], Result]) -> Result:
    """Return what ``read`` returns, which is tried some times where it asks for a rollback.

    SQLite first checks whether a writer is at work and then reads its journal. Where a commit begins in between, it
    takes the journal for one that was left behind.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return named(read)
        except sqlite3.Error as error:
            if not asks_for_rollback(error):
                raise
        time.sleep(_BETWEEN_ATTEMPTS)
    return named(read)


def named(read: Callable[[], Result]) -> Result:
    """Return what ``read`` returns.

    :raises sqlite3.DatabaseError: also where SQLite says so in a text of the file that is no UTF-8.
    """
    try:
        return read()
    except UnicodeDecodeError as error:
        damage = sqlite3.DatabaseError('malformed text')
        damage.sqlite_errorname = _CORRUPT
        raise damage from error


def on_copy(path: str, use: Callable[[str], Result]) -> Result:
    """Return what ``use`` makes of a copy of a recording, with its journal."""
    folder = tempfile.mkdtemp(prefix='gpu-tracker-')
    try:
        copy = os.path.join(folder, _COPY)
        shutil.copyfile(path, copy)
        if os.path.exists(path + _JOURNAL):
            shutil.copyfile(path + _JOURNAL, copy + _JOURNAL)
        return use(copy)
    except RecordingError as error:
        raise RecordingError(str(error).replace(os.path.join(folder, _COPY), path)) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # an open file stays readable without its name


def roll_back(copy: str) -> None:
    """Put back what the journal says, if there is one, as the next program that writes would do."""
    if not os.path.exists(copy + _JOURNAL):
        return
    with open(copy + _JOURNAL, 'rb') as journal:
        size = journal.seek(0, os.SEEK_END)
        journal.seek(max(0, size - len(_JOURNAL_MAGIC)))
        if journal.read() == _JOURNAL_MAGIC:
            # SQLite would remove the file that is named there, whatever it is.
            raise RecordingError(
                f'{copy}{_JOURNAL} is not the journal of this recording, because it refers to another file'
            )
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute('PRAGMA trusted_schema=OFF')
        try:
            connection.execute('SELECT count(*) FROM sqlite_master')
        except sqlite3.DatabaseError:
            pass  # it is cut off as well


def fit_page_count(copy: str) -> None:
    """Write into the header of a file that was cut off how many pages it has: nothing of it is read otherwise."""
    with open(copy, 'r+b') as file:
        header = bytearray(file.read(100))
        size = file.seek(0, os.SEEK_END)
        page = int.from_bytes(header[16:18])
        page = _LARGEST_PAGE if page == 1 else page
        if not 0 < page <= size:
            raise RecordingError(
                f'nothing can be read from {copy}, because even the first page of the database is incomplete'
            )
        header[28:32] = (size // page).to_bytes(4)
        header[32:40] = bytes(8)  # the list of free pages leads to some that are gone
        header[92:96] = header[24:28]  # the count is valid
        file.seek(0)
        file.write(header)
        file.truncate(size // page * page)
