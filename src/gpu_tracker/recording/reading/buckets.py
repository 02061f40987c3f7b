"""Samples summed up over spans of time, as pictures need them: the least, the mean and the most of each column.

SQLite adds them up, so that a million samples are read in a second or two, and nothing grows with their number. Each
span is a range of the key, so that nothing is sorted. Where a picture has room for all samples, each is a span by
itself.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tracker.recording.reading.database import Database

_MICRO = 1e6
_FINER = 4
"""Rates of a span are taken over so many parts of it."""
_INTERVALS = 0.9
"""Of a sampling interval: samples that come a little earlier than they should count as well."""


class Series(NamedTuple):
    """One column: the least, the mean and the most in each span; None where nothing is known there."""

    lowest: list[float | None]
    mean: list[float | None]
    highest: list[float | None]

    @property
    def is_known(self) -> bool:
        """Whether there is any value."""
        return any(value is not None for value in self.mean)

    @property
    def largest(self) -> float | None:
        """The most of all; None where nothing is known."""
        return max((value for value in self.highest if value is not None), default=None)


class StoredRows(NamedTuple):
    """Some columns of a table whose key is a time.

    :ivar table: The table with the condition that its rows have to meet, up to ``WHERE`` or ``AND``.
    :ivar columns: By their names the SQL of each, and what 1 of that means in the base unit.
    :ivar since: The microsecond after which rows begin, None for the first.
    :ivar until: That of the last row.
    """

    database: Database
    table: str
    columns: Mapping[str, tuple[str, float]]
    since: int | None
    until: int

    def ends(self, most: int) -> list[int]:
        """Return the microseconds at which the spans end, and first the one after which they begin; [] without rows."""
        counted = self._selected('count(*), min(t), max(t)', self._first, self.until)
        count, first, last = counted or (0, None, None)
        if not count or first is None or last is None:
            return []
        begin = int(first) - 1
        if count <= most:
            return [begin, *self._times()]
        length = (int(last) - begin) / most
        return [begin, *(begin + round(length * number) for number in range(1, most)), int(last)]

    def summed(self, after: int, until: int) -> tuple[float | None, list[tuple[Any, Any, Any]]]:
        """Return the time of the last row in a span, and of each column the least, the mean and the most."""
        parts = ', '.join(f'min({sql}), avg({sql}), max({sql})' for sql, _ in self.columns.values())
        last, *values = self._selected(f'max(t), {parts}', after, until) or (None, *(None,) * 3 * len(self.columns))
        units = [unit for _, unit in self.columns.values()]
        found = [
            tuple(None if value is None else value * unit for value in values[3 * place : 3 * place + 3])
            for place, unit in enumerate(units)
        ]
        return (None if last is None else last / _MICRO), found  # type: ignore[return-value] # of three each

    def last(self, after: int, until: int) -> tuple[float, list[float | None]] | None:
        """Return the time and the columns of the last row in a span."""
        parts = ', '.join(sql for sql, _ in self.columns.values())
        found = self._selected(f't, {parts}', after, until, 'ORDER BY t DESC LIMIT 1')
        if found is None or found[0] is None:
            return None
        units = [unit for _, unit in self.columns.values()]
        return found[0] / _MICRO, [
            None if value is None else value * unit for value, unit in zip(found[1:], units, strict=True)
        ]

    @property
    def _first(self) -> int:
        return -1 if self.since is None else self.since

    def _times(self) -> list[int]:
        found = []
        after = self._first
        while (row := self._selected('t', after, self.until, 'ORDER BY t LIMIT 1')) is not None and row[0] is not None:
            after = max(after + 1, int(row[0]))
            found.append(after)
        return found

    def _selected(self, what: str, after: int, until: int, end: str = '') -> tuple[Any, ...] | None:
        statement = f'SELECT {what} FROM {self.table} t > ? AND t <= ? {end}'  # noqa: S608 - names that were checked
        return self.database.row(statement, after, until)


class Buckets(NamedTuple):
    """Some columns over the same spans of time.

    :ivar begin: When the first span begins, in seconds.
    :ivar times: When the last sample of each span was made. A span begins where the one before it ends.
    :ivar series: The columns by their names.
    """

    begin: float
    times: list[float]
    series: dict[str, Series]

    @classmethod
    def of_gauges(cls, rows: StoredRows, most: int) -> Buckets:
        """Return what gauges showed; spans without a sample are left out."""
        ends = rows.ends(most)
        times: list[float] = []
        series = {name: Series([], [], []) for name in rows.columns}
        for after, until in pairwise(ends):
            time, found = rows.summed(after, until)
            if time is None:
                continue
            times.append(time)
            for one, values in zip(series.values(), found, strict=True):
                for part, value in zip(one, values, strict=True):
                    part.append(value)
        return cls(times[0] if times else 0.0, times, series)

    @classmethod
    def of_counters(cls, rows: StoredRows, most: int, interval: float) -> Buckets:
        """Return by how much counters grew a second; a span in which they are not known is longer."""
        ends = rows.ends(_FINER * most)
        if ends:
            ends.insert(1, ends[0] + 1)  # the first sample, from which all growth counts
        points: list[tuple[float, list[float | None]]] = []
        for after, until in pairwise(ends):
            point = rows.last(after, until)
            if point is None:
                continue
            if len(points) > 1 and points[-1][0] - points[-2][0] < _INTERVALS * interval:
                points[-1] = point
            else:
                points.append(point)
        if len(points) > 2 and points[-1][0] - points[-2][0] < _INTERVALS * interval:  # noqa: PLR2004 - the first stays
            del points[-2]
        if not points:
            return cls(0.0, [], {name: Series([], [], []) for name in rows.columns})
        times = [time for time, _ in points]
        groups = _groups(times, most)
        series = {}
        for place, name in enumerate(rows.columns):
            values = [found[place] for _, found in points]
            series[name] = _rates(times, values, groups)
        return cls(times[0], [times[last] for _, last in groups], series)


def _groups(times: Sequence[float], most: int) -> list[tuple[int, int]]:
    """Return where each span begins and ends, as places in ``times``."""
    last = len(times) - 1
    if last <= most:
        return list(pairwise(range(last + 1)))
    length = (times[-1] - times[0]) / most
    ends = sorted({bisect_right(times, times[0] + length * number) - 1 for number in range(1, most)} | {last})
    return list(pairwise([0, *(end for end in ends if end > 0)]))


def _rates(times: Sequence[float], values: Sequence[float | None], groups: Sequence[tuple[int, int]]) -> Series:
    series = Series([], [], [])
    for first, last in groups:
        parts = [
            rate
            for place in range(first, last)
            if (rate := _rate(times[place], times[place + 1], values[place], values[place + 1])) is not None
        ]
        mean = _rate(times[first], times[last], values[first], values[last])
        series.lowest.append(min(parts, default=mean))
        series.mean.append(mean)
        series.highest.append(max(parts, default=mean))
    return series


def _rate(begin: float, end: float, before: float | None, after: float | None) -> float | None:
    if before is None or after is None or end <= begin:
        return None
    return max(0.0, after - before) / (end - begin)
