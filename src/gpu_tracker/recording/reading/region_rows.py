"""Reads the regions of a recording, and finds what was used in each."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_tracker.errors import RecordingError
from gpu_tracker.recording.reading import figures
from gpu_tracker.recording.reading.device_rows import in_bytes, read_process_samples, read_processes
from gpu_tracker.recording.reading.meta import plain
from gpu_tracker.recording.reading.model import Region
from gpu_tracker.recording.reading.tree import MOST_LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpu_tracker.recording.reading.database import Database
    from gpu_tracker.recording.reading.span_figures import SpanFigures

_MICRO = 1e6

_COLUMNS_OF_CALLS = 'id', 'parent', 'name', 'start', 'stop', 'calls', 'total'


class _Row(NamedTuple):
    """A row as it lies in the file."""

    id: int
    parent: int | None
    pid: int
    thread: int | None
    task: str | None
    name: str
    attributes: str | None
    start: int
    stop: int | None
    thread_cpu: int | None
    peak_before: int | None
    peak_after: int | None
    error: str | None
    calls: int
    total: int | None
    shortest: int | None
    longest: int | None
    squares: float | None
    errors: int


class RegionCall(NamedTuple):
    """A call of a region, or the sum of many, without what was used in it.

    :ivar path: The names from the outermost region to this one.
    :ivar start: When it began, in seconds since the first sample.
    :ivar seconds: How long it took, or all of them together.
    :ivar calls: How many it stands for.
    """

    path: tuple[str, ...]
    start: float
    seconds: float
    calls: int


def read_calls(database: Database) -> list[RegionCall]:
    """Return the calls that have ended, in the order of their start; those that lie too deep are left out."""
    rows = {row[0]: row for row in database.rows('regions', _COLUMNS_OF_CALLS)}
    parents = _without_circles({number: row[1] for number, row in rows.items()})
    paths: dict[int, tuple[str, ...]] = {}
    found = []
    for number, _, name, start, stop, calls, total in rows.values():
        names = [name]
        above = parents[number]
        while above is not None and above not in paths and len(names) <= MOST_LEVELS:
            names.append(rows[above][2])
            above = parents[above]
        path = (*(() if above is None else paths.get(above, ())), *reversed(names))
        if len(path) > MOST_LEVELS:
            continue
        paths[number] = path
        if total is not None or stop is not None:
            seconds = (total if total is not None else stop - start) / _MICRO
            found.append(RegionCall(path, start / _MICRO, seconds, calls))
    return sorted(found, key=lambda call: call.start)


def read_regions(
    database: Database, figures_of_spans: Callable[[], SpanFigures], root_pid: int | None
) -> tuple[Region, ...]:
    """Return the regions in the order of their start. A parent that is not there, or leads in a circle, is None.

    :param figures_of_spans: Reads the samples; called only where there are regions.
    :param root_pid: The pid of the process whose RAM is in the samples.
    """
    rows = [_Row._make(row) for row in database.rows('regions', _Row._fields)]
    if not rows:
        return ()
    parents = _without_circles({row.id: row.parent for row in rows})
    used = figures_of_spans()
    processes = _processes(database)
    alive = _alive_until(rows, processes)
    if root_pid is not None:
        alive[root_pid] = max(alive.get(root_pid, 0.0), used.main_alive_until)
    regions = []
    for row in rows:
        if row.calls < 1:
            raise RecordingError(
                f'{database.path} is not a gpu-tracker recording: a region has the invalid number of calls {row.calls}'
            )
        series = processes.get(row.pid, [])
        try:
            regions.append(_region(row, parents[row.id], alive[row.pid], used, series, is_main=row.pid == root_pid))
        except ValueError as error:
            shown = repr((row.attributes or '')[:40])
            raise RecordingError(
                f'{database.path} is not a gpu-tracker recording: '
                f'the attributes of a region are not a JSON object: {shown}'
            ) from error
    regions.sort(key=lambda region: (region.start, region.id))
    return tuple(regions)


def _region(
    row: _Row, parent: int | None, alive: float, used: SpanFigures, series: Sequence[_Series], *, is_main: bool
) -> Region:
    start = row.start / _MICRO
    stop = None if row.stop is None else max(row.stop, row.start) / _MICRO
    seen_until = max(start, alive) if stop is None else stop
    is_folded = row.calls > 1 or row.total is not None
    wall_time = _seconds(row.total) if row.total is not None else None if stop is None else stop - start
    squares = row.squares if is_folded or wall_time is None else wall_time * wall_time
    found = used.between(start, seen_until)
    if stop is None:
        found = found.changed(figures.of_unfinished)
    elif is_folded:
        share = (wall_time or 0.0) / (stop - start) if stop > start else 1.0
        found = found.changed(lambda bounded: figures.of_folded(bounded, share))
    sampled = [rss for one in series if (rss := one.largest(start, seen_until)) is not None]
    if is_main and found.main_ram is not None:
        sampled.append(found.main_ram)
    return Region(
        id=row.id,
        parent_id=parent,
        name=row.name,
        attributes=_attributes(row.attributes),
        process_id=row.pid,
        thread_id=row.thread,
        task=row.task,
        start=start,
        stop=stop,
        seen_until=seen_until,
        has_ended=stop is not None,
        error=row.error,
        calls=row.calls,
        errors=max(row.errors, int(row.error is not None)),
        is_folded=is_folded,
        wall_time=wall_time,
        shortest=_seconds(row.shortest) if is_folded else wall_time,
        longest=_seconds(row.longest) if is_folded else wall_time,
        squares=squares,
        thread_cpu=_seconds(row.thread_cpu),
        cpu=found.cpu,
        ram=figures.peak(
            in_bytes(row.peak_before),
            in_bytes(row.peak_after),
            # Of calls that were folded, a sample may have been made between two.
            max(sampled, default=None) if not is_folded else None,
        ),
        combined_ram=found.combined_ram,
        gpu_ram=found.gpu_ram,
        gpu_utilization=found.gpu.mean,
        gpu_coverage=found.gpu.coverage,
        gpu_samples=found.gpu.samples,
        io=found.io,
        energy=found.energy,
    )


class _Series:
    """The RSS of one process at its samples."""

    def __init__(self) -> None:
        self.times = array('d')
        self._sizes = array('d')
        self._maxima: figures.Maxima | None = None

    def add(self, t: float, rss: int | None) -> None:
        """Take in a sample; they come in the order of time."""
        self.times.append(t)
        self._sizes.append(math.nan if rss is None else rss)

    def largest(self, start: float, stop: float) -> float | None:
        """Return the largest of the samples from ``start`` to ``stop``."""
        if self._maxima is None:
            self._maxima = figures.Maxima(self._sizes)
        place = figures.edges(self.times, start, stop)
        return self._maxima.largest(place.first, place.last)


def _processes(database: Database) -> dict[int, list[_Series]]:
    """Return the series of the processes that were recorded, by pid."""
    pids = {process.id: process.pid for process in read_processes(database)}
    series: dict[int, _Series] = {number: _Series() for number in pids}
    for sample in read_process_samples(database) if pids else ():
        if sample.process in series:
            series[sample.process].add(sample.t, sample.rss)
    found: dict[int, list[_Series]] = {}
    for number, one in series.items():
        found.setdefault(pids[number], []).append(one)
    return found


def _alive_until(rows: Iterable[_Row], processes: Mapping[int, Sequence[_Series]]) -> dict[int, float]:
    """Return when each process gave its last sign of life: a line of a region, or a sample."""
    found: dict[int, float] = {}
    for row in rows:
        seen = (row.start if row.stop is None else max(row.start, row.stop)) / _MICRO
        found[row.pid] = max(found.get(row.pid, seen), seen)
    for pid, several in processes.items():
        ends = [one.times[-1] for one in several if one.times]
        if ends and pid in found:
            found[pid] = max(found[pid], *ends)
    return found


def _without_circles(parents: Mapping[int, int | None]) -> dict[int, int | None]:
    """Return the parent of each region: None for one that is not there, and for one in each circle."""
    found: dict[int, int | None] = {}
    for begin in parents:
        path: dict[int, None] = {}
        current: int | None = begin
        while current is not None and current not in found:
            path[current] = None
            following = parents[current]
            if following is None or following not in parents or following in path:
                found[current] = None
                break
            current = following
        for number in path:
            found.setdefault(number, parents[number])
    return found


def _attributes(text: str | None) -> Mapping[str, Any]:
    """Return what was given with a name; ValueError where that is no JSON object."""
    if text is None:
        return {}
    found = plain(text)
    if not isinstance(found, dict):
        raise ValueError('it is no object')  # noqa: TRY004 - what is wrong is the file
    return found


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / _MICRO
