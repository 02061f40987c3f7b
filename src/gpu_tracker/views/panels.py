"""What there is to draw of a recording: panels with lines.

All pictures are made from these, so that they agree: which figures belong together, what they are called, in which unit
they are, and which are left out because nothing is known of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_tracker.recording.reading.buckets import Buckets, Series
    from gpu_tracker.recording.reading.recording import Recording
    from gpu_tracker.recording.reading.samples import Samples

MOST_POINTS = 1000
"""Points of a line, unless a picture asks for others: more than it has room for."""
_SHORTEST_INTERVAL = 0.05
"""Seconds over which a rate is taken at least."""
_PERCENT = 100.0
_LIMIT_SHOWN_FROM = 0.3
"""A limit of which less than this part was used would leave the lines no room."""
MAIN, COMBINED, DESCENDANTS, SYSTEM, OTHER, LESSER = 'main', 'combined', 'descendants', 'system', 'other', 'lesser'
"""What a line is of, which decides on its colour. ``other`` and ``lesser`` are two figures of one kind."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a panel.

    :ivar name: The column, with the number of its GPU before it where it is of one.
    :ivar title: What it is called in the panel.
    :ivar role: What it is of: ``main``, ``descendants``, ``combined``, ``system``, ``other`` or ``lesser``.
    :ivar series: Its values, in the unit of the panel.
    :ivar dash: The lengths of its dashes and gaps; none where it is not dashed.
    """

    name: str
    title: str
    role: str
    series: Series
    dash: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines on one axis.

    :ivar key: ``ram``, ``cpu``, ``gpu_ram``, ``gpu``, ``io`` or ``power``.
    :ivar title: What it shows.
    :ivar unit: ``bytes``, ``percent``, ``bytes/s`` or ``watts``.
    :ivar is_rate: Each value is the mean since the time before, and not a value of its moment.
    :ivar begin: When the first value begins, in seconds.
    :ivar times: When values end, in seconds.
    :ivar lines: At least one.
    :ivar limit: What values can be at most, where that is known; it is drawn only where ``shows_limit``.
    :ivar limit_title: What the limit is.
    :ivar peak: The peak that was reported for all processes, where the whole run is shown. It may have been between two
        samples, so that no line reaches it; when that was is not known.
    """

    key: str
    title: str
    unit: str
    is_rate: bool
    begin: float
    times: list[float]
    lines: tuple[Line, ...]
    limit: float | None = None
    limit_title: str = ''
    peak: float | None = None

    @property
    def largest(self) -> float:
        """The largest value of all lines, and the peak."""
        return max(self.peak or 0.0, *(line.series.largest or 0.0 for line in self.lines))

    @property
    def shows_limit(self) -> bool:
        """Whether the limit is near enough to the lines to be drawn with them."""
        return self.limit is not None and self.largest >= _LIMIT_SHOWN_FROM * self.limit


_GPU_ROLES = (COMBINED, OTHER, DESCENDANTS, LESSER, MAIN)
_TURNS: tuple[tuple[float, ...], ...] = ((), (8, 3), (2, 2), (8, 3, 2, 3))
"""Roles and dashes by which up to twenty GPUs are told apart."""
_OF_ALL_USERS = (1, 3)
_DASHES: dict[str, tuple[float, ...]] = {SYSTEM: (5, 4), LESSER: (2, 3)}


class _Wanted(NamedTuple):
    column: str
    title: str
    role: str


_WHOSE = {COMBINED: 'all processes', MAIN: 'main process', DESCENDANTS: 'descendants'}
_RAM = [_Wanted(f'{group}_total_rss', title, group) for group, title in _WHOSE.items()]
_CPU = [
    *(_Wanted(f'{group}_cpu', title, group) for group, title in _WHOSE.items()),
    _Wanted('system_cpu', 'whole machine', SYSTEM),
]
_GPU_RAM = [
    *(_Wanted(f'{group}_gpu_ram', title, group) for group, title in _WHOSE.items()),
    _Wanted('system_gpu_ram', 'all users', SYSTEM),
]
_GPU = [_Wanted('gpu_utilization', 'all GPUs, added up', COMBINED)]
_IO = [
    _Wanted('combined_io_read', 'read from storage', COMBINED),
    _Wanted('combined_io_written', 'written to storage', OTHER),
    _Wanted('combined_io_read_by_calls', 'read by calls', DESCENDANTS),
    _Wanted('combined_io_written_by_calls', 'written by calls', LESSER),
]
_POWER = [_Wanted('gpu_energy', 'GPUs in use', COMBINED), _Wanted('cpu_package_energy', 'CPU packages', OTHER)]
KEYS = ('ram', 'cpu', 'gpu_ram', 'gpu', 'io', 'power')
"""The keys of all panels there can be, in their order."""


def panels_of(
    recording: Recording,
    most: int = MOST_POINTS,
    start: float | None = None,
    stop: float | None = None,
    only: Iterable[str] = KEYS,
) -> list[Panel]:
    """Return the panels of which something is known.

    :param most: Points of a line at most.
    :param start: From when on, in seconds; None: from the first sample.
    :param stop: Up to when.
    :param only: The keys of the panels that are wanted.
    """
    is_whole = start is None and stop is None
    reader = _Reader(recording, recording.samples.between(start, stop), most, is_whole=is_whole)
    found = [getattr(reader, key)() for key in KEYS if key in set(only)]
    return [panel for panel in found if panel is not None]


class _Reader:
    """Reads the panels of one recording."""

    def __init__(self, recording: Recording, samples: Samples, most: int, *, is_whole: bool) -> None:
        self._meta = recording.meta
        self._gpus = recording.gpus
        self._samples = samples
        self._most = most
        self._per_gpu: dict[int, Buckets] | None = None
        self._is_whole = is_whole
        totals = recording.meta.totals or {}
        record = totals.get('record')
        gpu = totals.get('gpu')
        self._is_alone = isinstance(record, dict) and record.get('has_descendants') is False
        self._has_gpus = bool(recording.gpus) or not isinstance(gpu, dict) or gpu.get('count') != 0

    def ram(self) -> Panel | None:
        """Return the resident memory, with the machine's as its limit."""
        found = self._gauges('ram', 'RAM', 'bytes', _RAM, self._meta.ram_capacity, 'RAM of the machine')
        return replace(found, peak=self._reported_peak()) if found and self._is_whole else found

    def _reported_peak(self) -> float | None:
        try:
            peak = (self._meta.totals or {})['ram']['combined'][0]
        except (IndexError, KeyError, TypeError):
            return None
        return float(peak) if isinstance(peak, (int, float)) and 0 < peak < float('inf') else None

    def cpu(self) -> Panel | None:
        """Return the utilization of the CPU, of which 100 percent are one core."""
        cores = self._meta.cores
        limit = None if cores is None else cores * _PERCENT
        return self._rates('cpu', 'CPU', 'percent', _CPU, _PERCENT, limit, f'{cores} cores')

    def gpu_ram(self) -> Panel | None:
        """Return the memory of each GPU, or of all together where they were not recorded apart."""
        if not self._has_gpus:
            return None
        if not self._gpus:
            return self._gauges('gpu_ram', 'GPU memory', 'bytes', _GPU_RAM)
        lines = [*self._of_gpus('combined_ram', 'tracked'), *self._of_gpus('ram', 'all users')]
        sizes = {gpu.total_ram for gpu in self._gpus}
        size = sizes.pop() if len(sizes) == 1 else None
        return self._of_each('gpu_ram', 'GPU memory', 'bytes', lines, size, 'memory of one GPU')

    def gpu(self) -> Panel | None:
        """Return the utilization of each GPU, whoever used it."""
        if not self._has_gpus:
            return None
        if not self._gpus:
            return self._gauges('gpu', 'GPU utilization', 'percent', _GPU)
        return self._of_each('gpu', 'GPU utilization', 'percent', self._of_gpus('utilization', ''), _PERCENT, 'one GPU')

    def io(self) -> Panel | None:
        """Return what was read and written a second."""
        return self._rates('io', 'I/O', 'bytes/s', _IO)

    def power(self) -> Panel | None:
        """Return the power of devices, from their counters of energy."""
        return self._rates('power', 'Power', 'watts', _POWER if self._has_gpus else _POWER[1:])

    def _gauges(
        self, key: str, title: str, unit: str, wanted: Sequence[_Wanted], limit: float | None = None, of_limit: str = ''
    ) -> Panel | None:
        wanted = self._there(wanted)
        if not wanted:
            return None
        buckets = self._samples.buckets([one.column for one in wanted], self._most)
        return _panel(key, title, unit, buckets, _lines(wanted, buckets), limit, of_limit, is_rate=False)

    def _rates(
        self,
        key: str,
        title: str,
        unit: str,
        wanted: Sequence[_Wanted],
        scale: float = 1.0,
        limit: float | None = None,
        of_limit: str = '',
    ) -> Panel | None:
        wanted = self._there(wanted)
        if not wanted:
            return None
        interval = max(_SHORTEST_INTERVAL, self._meta.interval or 0.0)
        buckets = self._samples.rates([one.column for one in wanted], self._most, interval)
        lines = [_limited(line, limit) for line in _lines(wanted, buckets, scale)]
        return _panel(key, title, unit, buckets, lines, limit, of_limit, is_rate=True)

    def _of_each(
        self, key: str, title: str, unit: str, lines: list[Line], limit: float | None, of_limit: str
    ) -> Panel | None:
        """Return a panel of lines of GPUs, all of which have the same times."""
        buckets = next(iter(self._all_gpus().values()))
        lines = [line for line in lines if len(line.series.mean) == len(buckets.times)]
        return _panel(key, title, unit, buckets, lines, limit, of_limit, is_rate=False)

    def _of_gpus(self, column: str, what: str) -> list[Line]:
        found = []
        numbers = {gpu.id: number for number, gpu in enumerate(self._gpus)}
        for place, (gpu, buckets) in enumerate(self._all_gpus().items()):
            title = ', '.join(part for part in (f'GPU {numbers[gpu]}', what) if part)
            turn, color = divmod(place, len(_GPU_ROLES))
            dash = _OF_ALL_USERS if what == 'all users' else _TURNS[turn % len(_TURNS)]
            found.append(Line(f'{gpu}.{column}', title, _GPU_ROLES[color], buckets.series[column], dash))
        return found

    def _all_gpus(self) -> dict[int, Buckets]:
        if self._per_gpu is None:
            self._per_gpu = self._samples.of_each_gpu([gpu.id for gpu in self._gpus], self._most)
        return self._per_gpu

    def _there(self, wanted: Sequence[_Wanted]) -> list[_Wanted]:
        """Return those of the lines that say something of their own."""
        shown = [one for one in wanted if one.column in self._samples.names]
        if self._is_alone:  # all processes are the main one
            shown = [one for one in shown if one.role not in {MAIN, DESCENDANTS} or one.title not in _WHOSE.values()]
        return shown


def _lines(wanted: Sequence[_Wanted], buckets: Buckets, scale: float = 1.0) -> list[Line]:
    return [
        Line(one.column, one.title, one.role, _scaled(buckets.series[one.column], scale), _DASHES.get(one.role, ()))
        for one in wanted
    ]


def _limited(line: Line, limit: float | None) -> Line:
    """Return the line of a whole machine not above its limit: its counters come in ticks of 10 ms."""
    if limit is None or line.role != SYSTEM:
        return line
    parts = ([None if value is None else min(value, limit) for value in part] for part in line.series)
    return replace(line, series=type(line.series)(*parts))


def _scaled(series: Series, scale: float) -> Series:
    if scale == 1:
        return series
    return type(series)(*([None if value is None else value * scale for value in part] for part in series))


def _panel(
    key: str,
    title: str,
    unit: str,
    buckets: Buckets,
    lines: Sequence[Line],
    limit: float | None,
    of_limit: str,
    *,
    is_rate: bool,
) -> Panel | None:
    known = tuple(line for line in lines if line.series.is_known)
    if not known:
        return None
    return Panel(key, title, unit, is_rate, buckets.begin, buckets.times, known, limit, of_limit)
