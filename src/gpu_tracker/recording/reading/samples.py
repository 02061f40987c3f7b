"""The samples of a recording in base units: rows one after the other in constant memory, or a whole table.

A column may be stored as what it has beyond the sum of others, see :mod:`gpu_tracker.recording.schema`.
"""

from __future__ import annotations

import math
from array import array
from collections import namedtuple
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_tracker.errors import RecordingError
from gpu_tracker.recording.reading.buckets import Buckets, StoredRows
from gpu_tracker.recording.reading.database import INTEGER, INTEGER_OR_NONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpu_tracker.recording.reading.database import Database

    Values = Sequence[float | None]
    """One column of some rows."""

_MICRO = 1e6
_MOST_MICROSECONDS = 2**62
_LONGEST_SUM = 10_000
"""Characters of SQL for one column."""
_FRAME_ROWS = 65536
"""How many rows at once become a part of another library's table."""


class StoredColumn(NamedTuple):
    """How a column lies in the file.

    :ivar small_unit: What 1 means in the base unit.
    :ivar sql: Its value in the small unit.
    """

    name: str
    small_unit: float
    sql: str


class Samples:
    """Samples of a recording. Iteration returns a named tuple for each sample. ``len()`` returns the number of samples.

    ``t`` is the time in seconds since the first sample. ``Recording.columns`` explains the other fields.

    :ivar names: Names of all fields of a sample.
    :raises RecordingError: if the package for ``to_pandas``, ``to_polars`` or ``to_arrow`` is missing.
    """

    def __init__(self, database: Database, columns: Sequence[StoredColumn], since: int | None, until: int) -> None:
        self.names = ('t', *(column.name for column in columns))
        self._database = database
        self._columns = {column.name: column for column in columns}
        self._since = since
        self._until = until
        self._length: int | None = None

    def __repr__(self) -> str:
        """Return of which file they are."""
        return f'<Samples of {self._database.path}>'

    def __len__(self) -> int:
        """Return the number of rows, which are counted when this is first asked for."""
        if self._length is None:
            batches = self._database.batches('samples', ['t'], since=self._after, until=self._until)
            self._length = sum(map(len, batches))
        return self._length

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows in the order of time."""
        make: Any = namedtuple('Sample', self.names)._make  # type: ignore[attr-defined] # noqa: PYI024 - as the file says
        for columns in self.batches(self.names[1:]):
            yield from map(make, zip(*columns, strict=True))

    def between(self, start: float | None = None, stop: float | None = None) -> Samples:
        """Return the samples with ``start <= t < stop``."""
        since, until = self._since, self._until
        if start is not None:
            after = _microseconds(start) - 1
            since = after if since is None else max(since, after)
        if stop is not None:
            until = min(until, _microseconds(stop) - 1)
        return Samples(self._database, list(self._columns.values()), since, until)

    def batches(self, names: Sequence[str]) -> Iterator[list[Values]]:
        """Yield some rows at a time as columns: first the times, then those of ``names``."""
        selected = ['t', *(self._columns[name].sql for name in names)]
        for rows in self._database.batches('samples', selected, since=self._after, until=self._until):
            times, *columns = zip(*rows, strict=True)
            self._check_types('t', times)
            for name, values in zip(names, columns, strict=True):
                self._check_types(name, values)
            yield [
                [t / _MICRO for t in times],
                *(self._in_base_unit(name, values) for name, values in zip(names, columns, strict=True)),
            ]

    def buckets(self, names: Sequence[str], most: int) -> Buckets:
        """Return the least, the mean and the most of the gauges ``names`` in ``most`` spans of equal length.

        Where there are no more rows than that, each is a span by itself.
        """
        return Buckets.of_gauges(self._rows_of(names), most)

    def rates(self, names: Sequence[str], most: int, interval: float) -> Buckets:
        """Return how much the counters ``names`` grew a second, in ``most`` spans of equal length.

        :param interval: The seconds over which a rate is taken at least: counters have noise, and maxima pick it.
        """
        return Buckets.of_counters(self._rows_of(names), most, interval)

    def of_each_gpu(self, gpus: Sequence[int], most: int) -> dict[int, Buckets]:
        """Return :meth:`buckets` of ``ram``, ``combined_ram`` and ``utilization`` of each of the numbers ``gpus``."""
        units = {'ram': 1024.0, 'combined_ram': 1024.0, 'utilization': 0.01}
        return {
            gpu: Buckets.of_gauges(
                StoredRows(
                    self._database,
                    f'gpu_samples WHERE gpu = {int(gpu)} AND',
                    {name: (name, unit) for name, unit in units.items()},
                    self._since,
                    self._until,
                ),
                most,
            )
            for gpu in gpus
        }

    def _rows_of(self, names: Sequence[str]) -> StoredRows:
        columns = {name: (self._columns[name].sql, self._columns[name].small_unit) for name in names}
        return StoredRows(self._database, 'samples WHERE', columns, self._since, self._until)

    def to_pandas(self) -> Any:  # noqa: ANN401 - the package need not be there
        """Return a ``pandas.DataFrame``, with NaN for unknown values."""
        pandas = _package('pandas', 'to_pandas')
        numpy = _package('numpy', 'to_pandas')
        found = [array('d') for _ in self.names]
        for columns in self.batches(self.names[1:]):
            for values, more in zip(found, columns, strict=True):
                values.extend(math.nan if value is None else value for value in more)
        return pandas.DataFrame(
            {name: numpy.frombuffer(values) for name, values in zip(self.names, found, strict=True)}
            if found[0]
            else {name: numpy.empty(0) for name in self.names}
        )

    def to_polars(self) -> Any:  # noqa: ANN401 - as above
        """Return a ``polars.DataFrame``, with null for unknown values."""
        polars = _package('polars', 'to_polars')
        schema = {name: polars.Int64 if self._is_whole(name) else polars.Float64 for name in self.names}
        parts = [polars.DataFrame(part, schema=schema) for part in self.parts()]
        return polars.concat(parts) if parts else polars.DataFrame(schema=schema)

    def to_arrow(self) -> Any:  # noqa: ANN401 - as above
        """Return a ``pyarrow.Table``, with null for unknown values."""
        arrow = _package('pyarrow', 'to_arrow')
        schema = self.arrow_schema(arrow)
        return arrow.Table.from_batches(
            [arrow.RecordBatch.from_pydict(part, schema=schema) for part in self.parts()], schema=schema
        )

    def arrow_schema(self, arrow: Any) -> Any:  # noqa: ANN401 - as above
        """Return the schema of :meth:`to_arrow`, made with the module ``pyarrow``."""
        types = ((name, arrow.int64() if self._is_whole(name) else arrow.float64()) for name in self.names)
        return arrow.schema(list(types))

    def parts(self, size: int | None = None) -> Iterator[dict[str, Values]]:
        """Yield the rows as columns by their names, ``size`` rows or a few more at a time."""
        size = _FRAME_ROWS if size is None else size
        waiting: list[list[Values]] = []
        rows = 0
        for columns in self.batches(self.names[1:]):
            waiting.append(columns)
            rows += len(columns[0])
            if rows >= size:
                yield self._joined(waiting)
                waiting, rows = [], 0
        if waiting:
            yield self._joined(waiting)

    def _joined(self, waiting: Sequence[Sequence[Values]]) -> dict[str, Values]:
        return {
            name: list(chain.from_iterable(columns[index] for columns in waiting))
            for index, name in enumerate(self.names)
        }

    @property
    def _after(self) -> tuple[int] | None:
        return None if self._since is None else (self._since,)

    def _is_whole(self, name: str) -> bool:
        return name != 't' and self._columns[name].small_unit.is_integer()

    def _check_types(self, name: str, values: Sequence[object]) -> None:
        allowed = INTEGER if name == 't' else INTEGER_OR_NONE
        if not allowed.issuperset(map(type, values)):
            wrong = next(value for value in values if type(value) not in allowed)
            raise self._database.wrong_type('samples', name, wrong, allowed)

    def _in_base_unit(self, name: str, values: Sequence[Any]) -> Values:
        unit = self._columns[name].small_unit
        if unit.is_integer():
            whole = int(unit)
            return [None if value is None else value * whole for value in values]
        # 1234567 / 1e6 is 1.234567, and 1234567 * 1e-6 is 1.2345669999999999.
        inverse = 1 / unit
        return [None if value is None else value / inverse for value in values]


def sums_in_sql(beyond: Mapping[str, Sequence[str]], path: str) -> dict[str, str]:
    """Return the SQL of each column in its small unit.

    :param beyond: The names of the columns beyond whose sum each column is stored.
    :param path: The file, for the message.
    :raises RecordingError: if a column is stored beyond the sum of itself or of a missing column.
    """
    found: dict[str, str] = {}
    while len(found) < len(beyond):
        ready = [name for name, others in beyond.items() if name not in found and found.keys() >= set(others)]
        if not ready or max(map(len, found.values()), default=0) > _LONGEST_SUM:
            raise RecordingError(
                f'{path} is not a gpu-tracker recording: the definitions of two columns refer to each other'
            )
        for name in ready:
            found[name] = f'({" + ".join([name, *(f"coalesce({found[other]}, 0)" for other in beyond[name])])})'
    return found


def _microseconds(seconds: float) -> int:
    if math.isnan(seconds):
        raise RecordingError('a time must be a number of seconds, not NaN')
    return math.ceil(max(-_MOST_MICROSECONDS, min(_MOST_MICROSECONDS, seconds * _MICRO)))


def _package(name: str, method: str) -> Any:  # noqa: ANN401 - a module
    try:
        return import_module(name)
    except ImportError as error:
        from gpu_tracker.installation import package_command  # noqa: PLC0415 - only where the package is missing

        raise RecordingError(f'samples.{method}() needs the package {name}: {package_command(name)}') from error
