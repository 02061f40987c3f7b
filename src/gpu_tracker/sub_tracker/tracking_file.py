"""Reads tracking files: CSV and SQLite in the layout of gpu-tracker 5, and recordings of this one."""

from __future__ import annotations

import csv
import math
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from typing import TYPE_CHECKING, Any

from gpu_tracker.errors import SubTrackingError
from gpu_tracker.sub_tracker import file_kinds
from gpu_tracker.sub_tracker.sub_tracking_file import unix_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Range = tuple[int, int]
    Statistics = dict[str, float | None]
    """``min``, ``max``, ``mean`` and ``std``, the standard deviation of all values; None where none is known."""

TIMESTAMP = 'timestamp'
UNITS = ('ram_unit', 'gpu_ram_unit', 'time_unit')
STATISTICS = ('min', 'max', 'mean', 'std')


class Timepoints:
    """What was measured at each point of time, by columns; unknown values are NaN.

    :ivar static: What does not change: units, capacities, counts.
    :ivar timestamps: Unix times in their order.
    :ivar columns: The values of each measurement, as many as timestamps.
    """

    def __init__(
        self, path: str, names: Sequence[str], rows: Iterable[Sequence[object]], static: Mapping[str, Any]
    ) -> None:
        if TIMESTAMP not in names:
            raise SubTrackingError(f'{path} is no tracking file: it has no column {TIMESTAMP!r}')
        found = [array('d') for _ in names]
        place = names.index(TIMESTAMP)
        for row in rows:
            values = [_number(value) for value in row]
            if len(values) == len(names) and math.isfinite(values[place]):  # others are damaged: the last one may be
                for column, value in zip(found, values, strict=True):
                    column.append(value)
        times = found[place]
        if any(second < first for first, second in zip(times, islice(times, 1, None), strict=False)):
            order = sorted(range(len(times)), key=times.__getitem__)  # the clock was set while the run went on
            found = [array('d', (column[index] for index in order)) for column in found]
        self.static = dict(static)
        self.columns = dict(zip(names, found, strict=True))
        self.timestamps = self.columns.pop(TIMESTAMP)

    def ranges(self, intervals: Iterable[tuple[float, float]]) -> list[Range]:
        """Return which points of time lie in any of ``intervals``, both ends included: their places, in order."""
        merged: list[Range] = []
        for start, stop in sorted(intervals):
            first, after = bisect_left(self.timestamps, start), bisect_right(self.timestamps, stop)
            if merged and first < merged[-1][1]:
                merged[-1] = merged[-1][0], max(after, merged[-1][1])
            elif first < after:
                merged.append((first, after))
        return merged

    def count(self, start: float, stop: float) -> int:
        """Return how many points of time lie between two times."""
        return max(0, bisect_right(self.timestamps, stop) - bisect_left(self.timestamps, start))

    def statistics(self, ranges: Sequence[Range] | None = None) -> dict[str, Statistics]:
        """Return the statistics of each measurement, over some ranges or over all points of time."""
        return {name: _statistics(_selected(values, ranges)) for name, values in self.columns.items()}

    def rows(self, ranges: Sequence[Range]) -> dict[str, array[float]]:
        """Return the values of each measurement in ``ranges``, the times last."""
        columns = {**self.columns, TIMESTAMP: self.timestamps}
        return {name: _selected(values, ranges) for name, values in columns.items()}


def read_timepoints(path: str) -> Timepoints:
    """Return what was measured, from the file ``path``.

    :raises SubTrackingError: where it is no tracking file; OSError and RecordingError: where it cannot be read.
    """
    kind = file_kinds.kind_of(path)
    if kind == file_kinds.CSV:
        return _from_csv(path)
    return _from_recording(path) if kind == file_kinds.RECORDING else _from_sqlite(path)


def _from_csv(path: str) -> Timepoints:
    try:
        with open(path, encoding='utf-8', errors='replace', newline='') as file:
            lines = csv.reader(file)
            names, values, columns = (next(lines, []) for _ in range(3))
            if names[: len(UNITS)] != list(UNITS) or len(values) != len(names):
                raise SubTrackingError(f'{path} is no tracking file: it does not begin with {", ".join(UNITS)}')
            return Timepoints(path, columns, lines, _static(names, values))
    except csv.Error as error:
        raise SubTrackingError(f'cannot read {path}: {error}') from error


def _from_sqlite(path: str) -> Timepoints:
    with file_kinds.old_database(path, 'data', 'static_data') as connection:
        names = file_kinds.column_names(connection, 'static_data')
        values = connection.execute('SELECT * FROM static_data LIMIT 1').fetchone()
        if values is None:
            raise SubTrackingError(f'{path} is no tracking file: its table static_data is empty')
        columns = file_kinds.column_names(connection, 'data')
        return Timepoints(
            path, columns, connection.execute('SELECT * FROM data ORDER BY rowid'), _static(names, values)
        )


def _from_recording(path: str) -> Timepoints:
    # Other files do without all this.
    from gpu_tracker.recording.reading.recording import load  # noqa: PLC0415
    from gpu_tracker.recording.writing import timepoints  # noqa: PLC0415

    with load(path) as recording:
        meta = recording.meta
        units = meta.units or ('gigabytes', 'gigabytes', 'hours', None)
        try:
            totals: Any = meta.totals
            static = [*units[:3], *[None] * 6] if totals is None else timepoints.static_values(totals, units)
        except (KeyError, TypeError) as error:
            raise SubTrackingError(f'{path} cannot be read: its totals are not those of a run') from error
        convert = unix_time(recording.clock, (meta.start_unix_us or 0) / 1e6)

        def rows() -> Iterator[Sequence[object]]:
            maker = timepoints.TimepointRows(units)
            names = recording.samples.names
            for sample in recording.samples:
                yield maker.row(convert(sample.t), dict(zip(names, sample, strict=True)), static)

        return Timepoints(path, timepoints.TIMEPOINT, rows(), dict(zip(timepoints.STATIC, static, strict=True)))


def _static(names: Sequence[str], values: Sequence[object]) -> dict[str, str | float | int | None]:
    """Return the values by their names: units as texts, counts as whole numbers, capacities as numbers."""
    found: dict[str, str | float | int | None] = {}
    for name, value in zip(names, values, strict=True):
        if name in UNITS:
            found[name] = str(value)
            continue
        number = _number(value)
        is_count = name.endswith(('_count', '_cores', '_gpus')) and number.is_integer()
        found[name] = None if math.isnan(number) else int(number) if is_count else number
    return found


def _number(value: object) -> float:
    """Return a number, NaN where it is unknown or none."""
    if isinstance(value, float | int):
        return float(value)
    try:
        return float(str(value))
    except ValueError:
        return math.nan


def _selected(values: array[float], ranges: Sequence[Range] | None) -> array[float]:
    if ranges is None:
        return values
    selected = array('d')
    for first, after in ranges:
        selected += values[first:after]
    return selected


def _statistics(values: array[float]) -> Statistics:
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return dict.fromkeys(STATISTICS)
    mean = math.fsum(known) / len(known)
    variance = math.fsum((value - mean) ** 2 for value in known) / len(known)
    return {'min': min(known), 'max': max(known), 'mean': mean, 'std': math.sqrt(variance)}
