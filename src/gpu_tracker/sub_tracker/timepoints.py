"""What was measured at each point of time, from CSV and SQLite files of gpu-tracker 5 and from recordings."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, Any

from gpu_tracker.errors import SubTrackingError
from gpu_tracker.sub_tracker import block_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpu_tracker.recording.reading.recording import Recording

    Range = tuple[int, int]
    Statistics = dict[str, float | None]
    """``min``, ``max``, ``mean`` and ``std``, the standard deviation of all values; None if no value is known."""

TIMESTAMP = 'timestamp'
UNITS = ('ram_unit', 'gpu_ram_unit', 'time_unit')
STATISTICS = ('min', 'max', 'mean', 'std')


class Timepoints:
    """What was measured at each point of time, by column; unknown values are NaN.

    :ivar static: Units, capacities and counts.
    :ivar timestamps: Unix times in their order.
    :ivar columns: The values of each measurement, as many as timestamps.
    """

    def __init__(self, names: Sequence[str], rows: Iterable[Sequence[float]], static: Mapping[str, Any]) -> None:
        columns = [array('d') for _ in names]
        for row in rows:
            for column, value in zip(columns, row, strict=True):
                column.append(value)
        times = columns[names.index(TIMESTAMP)]
        if any(second < first for first, second in pairwise(times)):
            order = sorted(range(len(times)), key=times.__getitem__)  # the clock was set during the run
            columns = [array('d', (column[index] for index in order)) for column in columns]
        self.static = static
        self.columns = dict(zip(names, columns, strict=True))
        self.timestamps = self.columns.pop(TIMESTAMP)

    def ranges(self, intervals: Iterable[tuple[float, float]]) -> list[Range]:
        """Return the places of the points of time in any of ``intervals``, both ends included."""
        merged: list[Range] = []
        for start, stop in sorted(intervals):
            first, after = bisect_left(self.timestamps, start), bisect_right(self.timestamps, stop)
            if merged and first < merged[-1][1]:
                merged[-1] = merged[-1][0], max(after, merged[-1][1])
            elif first < after:
                merged.append((first, after))
        return merged

    def count(self, start: float, stop: float) -> int:
        """Return the number of points of time from ``start`` to ``stop``."""
        return max(0, bisect_right(self.timestamps, stop) - bisect_left(self.timestamps, start))

    def statistics(self, ranges: Sequence[Range] | None = None) -> dict[str, Statistics]:
        """Return the statistics of each measurement in some ranges, or over all points of time."""
        return {name: _statistics(_selected(values, ranges)) for name, values in self.columns.items()}

    def rows(self, ranges: Sequence[Range]) -> dict[str, array[float]]:
        """Return the values of each measurement in ``ranges``, the times last."""
        columns = {**self.columns, TIMESTAMP: self.timestamps}
        return {name: _selected(values, ranges) for name, values in columns.items()}


def read_timepoints(path: str) -> Timepoints:
    """Return what was measured, from the file ``path``.

    :raises SubTrackingError: if the file is damaged or of another kind; OSError, RecordingError: if it is unreadable.
    """
    kind = block_file.kind_of(path)
    if kind == block_file.RECORDING:
        from gpu_tracker.recording.reading.recording import load  # noqa: PLC0415 - files of gpu-tracker 5 do without

        with load(path) as recording:
            return _of_recording(recording)
    lines = block_file.read_lines(path)
    if kind == block_file.SQLITE:
        lines = chain(islice(block_file.read_lines(path, 'static_data'), 2), lines)
    static_names, static, names = (list(map(_text, next(lines, ()))) for _ in range(3))
    if static_names[: len(UNITS)] != list(UNITS) or len(static) != len(static_names) or TIMESTAMP not in names:
        raise SubTrackingError(
            f'{path} is not a tracking file: it lacks the columns {", ".join(UNITS)} and {TIMESTAMP}'
        )
    place = names.index(TIMESTAMP)

    def row(line: Sequence[object]) -> list[float]:
        values = list(map(_number, line))
        if len(values) != len(names) or not math.isfinite(values[place]):
            raise ValueError
        return values

    known = {name: _static(name, value) for name, value in zip(static_names, static, strict=True)}
    return Timepoints(names, block_file.parsed(path, lines, row), known)


def _of_recording(recording: Recording) -> Timepoints:
    from gpu_tracker.recording.writing import timepoints  # noqa: PLC0415 - as above

    units = recording.meta.units or ('gigabytes', 'gigabytes', 'hours', None)
    totals: Any = recording.meta.totals
    try:
        static = [*units[:3], *[None] * 6] if totals is None else timepoints.static_values(totals, units)
    except (KeyError, TypeError) as error:
        raise SubTrackingError(f'{recording.path} cannot be read: its totals are invalid') from error
    convert = block_file.unix_time(recording)

    def rows() -> Iterator[list[float]]:
        maker = timepoints.TimepointRows(units)
        names = recording.samples.names
        for sample in recording.samples:
            row = maker.row(convert(sample.t), dict(zip(names, sample, strict=True)), static)
            yield [math.nan if value is None else value for value in row]

    return Timepoints(timepoints.TIMEPOINT, rows(), dict(zip(timepoints.STATIC, static, strict=True)))


def _static(name: str, value: str) -> str | float | int | None:
    """Return a unit as text, a count as a whole number, a capacity as a number."""
    if name in UNITS:
        return value
    number = _number(value)
    if math.isnan(number):
        return None
    return int(number) if name.endswith(('_count', '_cores', '_gpus')) and number.is_integer() else number


def _text(value: object) -> str:
    return '' if value is None else str(value)


def _number(value: object) -> float:
    """Return a number, NaN if it is unknown."""
    return math.nan if value in {None, ''} else float(str(value))


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
