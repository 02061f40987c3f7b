"""The rows of a recording's tables: checked, in the order of their keys, in constant memory.

Rows are read some at a time, and nothing is locked in between: a recorder that is still writing never waits. Keys have
to grow, so that a made-up file whose pages lead in circles comes to an end.
"""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING, Any, Self, TypeVar

from gpu_tracker.errors import RecordingError
from gpu_tracker.recording.reading import recovery
from gpu_tracker.recording.reading.opening import explanation, open_database
from gpu_tracker.recording.schema import ADDED, TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Types = frozenset[type]

Result = TypeVar('Result')

INTEGER: Types = frozenset({int})
INTEGER_OR_NONE: Types = frozenset({int, type(None)})
NUMBER: Types = frozenset({int, float})
NUMBER_OR_NONE: Types = frozenset({int, float, type(None)})
TEXT_OR_NONE: Types = frozenset({str, type(None)})

_DECLARED: dict[str, Types] = {'INTEGER': INTEGER, 'REAL': NUMBER, 'TEXT': frozenset({str})}
_TYPES: dict[str, dict[str, Types]] = {
    table: {
        name: _DECLARED[declared] | (frozenset() if is_needed else {type(None)})
        for name, declared, is_needed in re.findall(r'(\w+) (INTEGER|REAL|TEXT)( NOT NULL| PRIMARY KEY)?', columns)
    }
    for table, columns in re.findall(r'CREATE TABLE (\w+) \((.*?)\)', TABLES, re.DOTALL)
}
"""What may be in each column, by the name of its table."""

_AT_ONCE = 1000
"""Rows: a millisecond or two in which a recorder would have to wait."""
_NAMES = {int: 'a whole number', float: 'a number', str: 'a text', type(None): 'nothing', bytes: 'bytes'}


class Database:
    """The tables of one recording.

    :param salvage: Where the file is damaged, rows end there.
    """

    def __init__(self, path: str, *, salvage: bool = False) -> None:
        self.path = path
        self._salvages = salvage
        self._connection = open_database(path, salvage=salvage)
        self._lacks = {one for one in ADDED if not self._has(*one)}

    def __enter__(self) -> Self:
        """Read all that follows at one moment of a file that is being written."""
        self._execute('BEGIN')
        return self

    def __exit__(self, *_: object) -> None:
        """Let a recorder write again."""
        if self._connection.in_transaction:
            self._connection.execute('ROLLBACK')  # it has only read, and of a damaged file nothing can be committed

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def value(self, statement: str, *parameters: object) -> Any:  # noqa: ANN401 - whatever is stored there
        """Return the first value of the first row; None without one, or where it cannot be salvaged."""
        found = self._first(statement, parameters)
        return None if found is None else found[0]

    def row(self, statement: str, *parameters: object) -> tuple[Any, ...] | None:
        """Return the first row; None without one, or where it cannot be salvaged.

        All its values are numbers or None: whatever else a file of a stranger has counts as None.
        """
        found = self._first(statement, parameters)
        return None if found is None else tuple(value if type(value) in NUMBER else None for value in found)

    def _first(self, statement: str, parameters: Sequence[object]) -> tuple[Any, ...] | None:
        try:
            found: tuple[Any, ...] | None = self._settled(lambda: self._execute(statement, *parameters).fetchone())
        except sqlite3.Error as error:
            self._end(error)
            return None
        return found

    def rows(
        self,
        table: str,
        columns: Sequence[str],
        *,
        keys: int = 1,
        since: Sequence[object] | None = None,
        until: int | None = None,
        where: str = '',
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table in the order of its key.

        :param columns: What is read, the columns of the key first.
        :param keys: How many columns are the key.
        :param since: The key after which rows begin.
        :param until: What the first column of the key stays below or is.
        :param where: A condition, in SQL of our own.
        """
        types = [INTEGER if name == 'rowid' else _TYPES[table][name] for name in columns]
        for batch in self.batches(table, columns, keys=keys, since=since, until=until, where=where):
            for row in batch:
                for value, allowed, name in zip(row, types, columns, strict=True):
                    if type(value) not in allowed:
                        raise self.wrong_type(table, name, value, allowed)
            yield from batch

    def batches(
        self,
        table: str,
        columns: Sequence[str],
        *,
        keys: int = 1,
        since: Sequence[object] | None = None,
        until: int | None = None,
        where: str = '',
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the same in lists of rows; only that keys grow is checked of them."""
        key = ', '.join(columns[:keys])
        names = ['NULL' if (table, name) in self._lacks else name for name in columns]
        begin = f'SELECT {", ".join(names)} FROM {table}'  # noqa: S608 - all names are checked or our own
        end = f'ORDER BY {key} LIMIT {_AT_ONCE}'
        limits = [*([] if until is None else [f'{columns[0]} <= ?']), *([where] if where else [])]
        after = [f'({key}) > ({", ".join("?" * keys)})'] if keys > 1 else [f'{key} > ?']
        last = None if since is None else tuple(since)
        is_complete = False
        while not is_complete:
            conditions = ' AND '.join([*limits, *(after if last is not None else [])])
            limited = f'WHERE {conditions}' if conditions else ''
            bounds = [*([] if until is None else [until]), *(last or ())]
            batch, is_complete = self._batch(f'{begin} {limited} {end}', bounds)
            for row in batch:
                if last is not None and not _is_larger(row[:keys], last):
                    raise RecordingError(f'{self.path} is damaged: the rows of {table!r} are not in order')
                last = row[:keys]
            if batch:
                yield batch

    def wrong_type(self, table: str, name: str, value: object, allowed: Types) -> RecordingError:
        """Return what is to be said of a value that cannot be in a recording."""
        expected = ' or '.join(sorted(_NAMES[kind] for kind in allowed))
        found = _NAMES.get(type(value), type(value).__name__)
        return RecordingError(
            f'{self.path} is not a gpu-tracker recording: {table}.{name} has {found} instead of {expected}'
        )

    def _has(self, table: str, column: str) -> bool:
        """Return whether the table has the column; True also if it cannot be read: then its rows cannot either."""
        try:
            found = self._settled(lambda: self._execute(f'SELECT * FROM {table} LIMIT 0').description)  # noqa: S608
        except sqlite3.Error:
            return True
        return any(name == column for name, *_ in found)

    def _batch(self, statement: str, bounds: Sequence[object]) -> tuple[list[tuple[Any, ...]], bool]:
        """Return the rows of one statement, and whether no more are to be had."""
        found: list[tuple[Any, ...]] = []
        try:
            # Not fetchall: of a damaged file, those before the one that cannot be read are kept.
            self._settled(lambda: found.extend(self._execute(statement, *bounds)))
        except sqlite3.Error as error:
            self._end(error)
            return found, True
        return found, len(found) < _AT_ONCE

    def _settled(self, read: Callable[[], Result]) -> Result:
        """Return what ``read`` returns; where the recorder has been killed since, that of what it had committed."""
        try:
            return recovery.when_settled(read)
        except sqlite3.Error as error:
            if not recovery.asks_for_rollback(error):
                raise
        self._connection.close()
        self._connection = open_database(self.path, salvage=self._salvages)
        return recovery.named(read)

    def _execute(self, statement: str, *parameters: object) -> sqlite3.Cursor:
        try:
            return self._connection.execute(statement, parameters)
        except sqlite3.ProgrammingError as error:
            raise RecordingError(f'{self.path} was closed: load the recording again') from error
        except OverflowError as error:
            raise RecordingError(f'cannot read {self.path}: {error}') from error

    def _end(self, error: sqlite3.Error) -> None:
        """Raise what is to be said of an error that is not salvaged."""
        if not self._salvages or isinstance(error, sqlite3.OperationalError):
            raise explanation(self.path, error, salvage=self._salvages) from error


def _is_larger(key: tuple[Any, ...], last: tuple[Any, ...]) -> bool:
    try:
        return key > last
    except TypeError:
        return False
