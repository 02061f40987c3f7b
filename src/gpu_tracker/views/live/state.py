"""What is to be shown of a recording: read from its tail, folded into figures, processes and open regions."""

from __future__ import annotations

import heapq
import json
from typing import TYPE_CHECKING

from gpu_tracker.recording.reading.model import or_unknown
from gpu_tracker.recording.schema import ABANDONED
from gpu_tracker.system.terminal_text import printable
from gpu_tracker.views.live.model import LiveFigure, ProcessState, RegionState, State
from gpu_tracker.views.live.quantities import BYTES, BYTES_PER_SECOND, PERCENT, WATTS
from gpu_tracker.views.live.series import Rate, Series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.recording.reading.model import Gpu, Meta, ProcessSample
    from gpu_tracker.recording.reading.tail import OpenRegion, Tail

_PERCENT = 100.0
_MOST_PROCESSES = 50


class Source:
    """The state of a recording, which each :meth:`read` brings up to date.

    :param tail: The recording.
    """

    def __init__(self, tail: Tail) -> None:
        self._tail = tail
        known = {column.name for column in tail.columns}
        self._gauges = {name: Series() for name in ('combined_total_rss', _SM_ACTIVITY) if name in known}
        self._counters = {name: (Rate(), Series()) for name in _COUNTERS if name in known}
        self._gpus: dict[int, _GpuSeries] = {}
        self._has_gpu_peaks = False
        self._processes = _Processes()
        self._seconds: float | None = None

    def read(self) -> State:
        """Read what is new, and return the state.

        :raises RecordingError: where the recording cannot be read.
        """
        is_written = self._tail.is_written()  # first: what is read when it is not written any more is all there is
        meta = self._tail.read_meta()
        self._read_samples()
        self._read_gpus()
        for sample in self._tail.process_samples():
            self._processes.add(sample)
        ending = _ending(meta, is_written=is_written)
        goes_on = ending is None
        regions = self._of_running(self._tail.open_regions()) if goes_on else ()
        return State(
            title=printable(meta.title.replace('\n', ' ')),
            place=printable(f'pid {or_unknown(meta.root_pid)} on {or_unknown(meta.host)}'),
            seconds=self._seconds,
            figures=[*self._run_figures(meta), *self._activity_figures(), *self._rate_figures()],
            gpus=self._gpu_figures(are_used=True),
            other_gpus=self._gpu_figures(are_used=False),
            processes=self._largest() if goes_on else None,
            process_count=self._processes.count,
            regions=_region_states(regions, self._seconds or 0.0),
            ending=ending,
        )

    def _read_samples(self) -> None:
        names = [*self._gauges, *self._counters]
        for times, *columns in self._tail.samples(names):
            values = dict(zip(names, columns, strict=True))
            for name, series in self._gauges.items():
                for t, value in zip(times, values[name], strict=True):
                    series.add(t or 0.0, value)
            for name, (rate, series) in self._counters.items():
                factor = _PERCENT if name == 'combined_cpu' else 1.0
                for t, total in zip(times, values[name], strict=True):
                    value = rate.at(t or 0.0, total)
                    series.add(t or 0.0, None if value is None else value * factor)
            self._seconds = times[-1]

    def _read_gpus(self) -> None:
        if self._seconds is None:
            return
        if not self._has_gpu_peaks:
            self._has_gpu_peaks = True
            for gpu, (ram, own_ram, utilization) in self._tail.gpu_peaks().items():
                series = self._gpus.setdefault(gpu, _GpuSeries())
                series.ram.peak, series.own_ram.peak, series.utilization.peak = ram, own_ram, utilization
        for sample in self._tail.gpu_samples():
            series = self._gpus.setdefault(sample.gpu, _GpuSeries())
            series.own_ram.add(sample.t, sample.combined_ram)
            series.ram.add(sample.t, sample.ram)
            series.utilization.add(sample.t, sample.utilization)

    def _run_figures(self, meta: Meta) -> list[LiveFigure]:
        found = []
        if 'combined_total_rss' in self._gauges:
            series = self._gauges['combined_total_rss']
            peak = _largest(series.peak, _reported(meta, 'ram', 0))
            found.append(_figure('RAM', BYTES, series, meta.ram_capacity)._replace(peak=peak))
        if 'combined_cpu' in self._counters:
            whole = None if meta.cores is None else meta.cores * _PERCENT
            figure = _figure('CPU', PERCENT, self._counters['combined_cpu'][1], whole)
            rate = _reported(meta, 'cpu', 1)  # over half a second at least, so that no start of a program makes a peak
            found.append(figure if rate is None else figure._replace(peak=rate * _PERCENT))
        return found

    def _activity_figures(self) -> list[LiveFigure]:
        series = self._gauges.get(_SM_ACTIVITY)
        return [] if series is None or not self._gpus else [_figure('GPU SM', PERCENT, series, _PERCENT)]

    def _rate_figures(self) -> list[LiveFigure]:
        return [
            _figure(name, unit, self._counters[column][1])
            for column, (name, unit) in _RATES.items()
            if column in self._counters and (column != _GPU_ENERGY or self._gpus)
        ]

    def _gpu_figures(self, *, are_used: bool) -> list[list[LiveFigure]]:
        """Return the figures of the GPUs that the run has used, fullest first, or of the others."""
        gpus = enumerate(self._tail.gpus() if self._gpus else ())
        found = [(place, gpu, self._gpus[gpu.id]) for place, gpu in gpus if gpu.id in self._gpus]
        chosen = [one for one in found if one[2].is_used == are_used]
        if are_used:
            chosen.sort(key=lambda one: -(one[2].own_ram.peak or 0))
        return [series.figures(gpu, place) for place, gpu, series in chosen]

    def _largest(self) -> list[ProcessState] | None:
        if not self._processes.is_recorded:
            return None
        states = []
        for sample, cpu in self._processes.largest(_MOST_PROCESSES):
            process = self._tail.process(sample.process)
            if process is not None:
                name, command = printable(process.name), process.command and printable(process.command)
                states.append(ProcessState(process.pid, name, _percent(cpu), sample.rss, sample.gpu_ram, command))
        return states

    def _of_running(self, regions: Sequence[OpenRegion]) -> Sequence[OpenRegion]:
        """Return those of processes that still run, where that is known: a killed one leaves its regions open."""
        if not regions or not self._processes.is_recorded:
            return regions
        pids = {process.pid for number in self._processes.numbers() if (process := self._tail.process(number))}
        return [region for region in regions if region.process_id in pids]


class _GpuSeries:
    """The figures of one GPU."""

    def __init__(self) -> None:
        self.own_ram = Series()
        """Of the tracked processes."""
        self.ram = Series()
        self.utilization = Series()

    @property
    def is_used(self) -> bool:
        """Whether the tracked processes have used it, or may have."""
        return self.own_ram.peak is None or self.own_ram.peak > 0

    def figures(self, gpu: Gpu, place: int) -> list[LiveFigure]:
        ram = self.own_ram if self.is_used else self.ram
        return [
            _figure(f'GPU {place} RAM', BYTES, ram, gpu.total_ram),
            _figure(f'GPU {place}', PERCENT, self.utilization, _PERCENT),
        ]


class _Processes:
    """The processes at the last sample, with the rates of their CPU time."""

    def __init__(self) -> None:
        self.is_recorded = False
        self._t: float | None = None
        self._now: dict[int, tuple[ProcessSample, float | None]] = {}
        self._rates: dict[int, Rate] = {}

    @property
    def count(self) -> int:
        return len(self._now)

    def numbers(self) -> list[int]:
        return list(self._now)

    def add(self, sample: ProcessSample) -> None:
        """Take in one process at one sample; those of a sample come one after the other."""
        self.is_recorded = True
        if sample.t != self._t:
            self._rates = {number: rate for number, rate in self._rates.items() if number in self._now}
            self._t, self._now = sample.t, {}
        rate = self._rates.get(sample.process)
        if rate is None:
            rate = self._rates[sample.process] = Rate()
        self._now[sample.process] = sample, rate.at(sample.t, sample.cpu)

    def largest(self, most: int) -> list[tuple[ProcessSample, float | None]]:
        """Return those with the most RSS, the largest first.

        Sizes that look the same are in the order of start, so that rows do not change places all the time.
        """
        return heapq.nsmallest(most, self._now.values(), key=lambda one: (-_rounded(one[0].rss), one[0].process))


_SM_ACTIVITY = 'gpu_sm_activity'
_GPU_ENERGY = 'gpu_energy'
_RATES = {
    'combined_io_read': ('Disk read', BYTES_PER_SECOND),
    'combined_io_written': ('Disk write', BYTES_PER_SECOND),
    _GPU_ENERGY: ('GPU power', WATTS),
    'cpu_package_energy': ('CPU power', WATTS),
}
"""Counters of which the rate is shown, in their order."""
_COUNTERS = ('combined_cpu', *_RATES)


def _figure(name: str, unit: str, series: Series, whole: float | None = None) -> LiveFigure:
    return LiveFigure(name, unit, series.last, series.last_known, series.peak, whole, series.points())


def _ending(meta: Meta, *, is_written: bool) -> str | None:
    if meta.is_complete:
        return 'The run has ended.' if meta.exit_code is None else f'The run has ended {meta.exit_in_words}.'
    if meta.ended == ABANDONED:
        return 'The recording has ended before the run: its tracker was gone.'
    return None if is_written else 'The recording has ended before the run: its sampler was killed.'


def _reported(meta: Meta, section: str, place: int) -> float | None:
    """Return a maximum of all processes that the run reports: of RAM the kernel's own marks are in it."""
    try:
        value = (meta.totals or {})[section]['combined'][place]
    except (IndexError, KeyError, TypeError):
        return None
    return float(value) if isinstance(value, (int, float)) else None


def _region_states(regions: Sequence[OpenRegion], now: float) -> list[RegionState]:
    """Return the regions as a tree, those inside another below it."""
    known = {region.id for region in regions}
    inside: dict[int | None, list[OpenRegion]] = {}
    for region in regions:
        parent = region.parent_id if region.parent_id in known and region.parent_id != region.id else None
        inside.setdefault(parent, []).append(region)
    found = []
    waiting = [(region, 0) for region in reversed(inside.get(None, []))]
    while waiting:
        region, level = waiting.pop()
        found.append(RegionState(_region_name(region), level, max(0.0, now - region.start)))
        waiting += [(below, level + 1) for below in reversed(inside.get(region.id, []))]
    return found


def _region_name(region: OpenRegion) -> str:
    try:
        given = json.loads(region.attributes or '{}')
        attributes = [f'{name}={value}' for name, value in given.items()]
    except (AttributeError, RecursionError, ValueError):
        attributes = []  # what is shown here is a courtesy; show says what is wrong
    return printable(' '.join([region.name, *attributes]))


def _rounded(size: int | None) -> float:
    """Return a size with the three digits that are shown of it."""
    return float(f'{size or 0:.2e}')


def _percent(cores: float | None) -> float | None:
    return None if cores is None else cores * _PERCENT


def _largest(*values: float | None) -> float | None:
    return max((value for value in values if value is not None), default=None)
