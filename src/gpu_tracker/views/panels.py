"""What there is to draw of a recording: panels with lines.

All pictures are made from these, so that they agree: which figures belong together, what they are called, in which unit
they are, and which are left out because nothing is known of them.
"""

from __future__ import annotations

from dataclasses import dataclass
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

    :ivar key: ``ram``, ``cpu``, ``gpu_ram``, ``gpu``, ``gpu_activity``, ``io`` or ``power``.
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


class _Kind(NamedTuple):
    """What a panel shows where GPUs were not recorded one by one, in its unit: ``scale`` times the columns."""

    title: str
    unit: str
    columns: Sequence[_Wanted]
    is_rate: bool = False
    scale: float = 1.0


def _by_group(column: str, *others: _Wanted) -> Sequence[_Wanted]:
    return [*(_Wanted(f'{group}_{column}', title, group) for group, title in _WHOSE.items()), *others]


_KINDS = {
    'ram': _Kind('RAM', 'bytes', _by_group('total_rss')),
    'cpu': _Kind(
        'CPU',
        'percent',
        _by_group('cpu', _Wanted('system_cpu', 'whole machine', SYSTEM)),
        is_rate=True,
        scale=_PERCENT,
    ),
    'gpu_ram': _Kind('GPU memory', 'bytes', _by_group('gpu_ram', _Wanted('system_gpu_ram', 'all users', SYSTEM))),
    'gpu': _Kind('GPU utilization', 'percent', [_Wanted('gpu_utilization', 'all GPUs, added up', COMBINED)]),
    'gpu_activity': _Kind(
        'GPU activity',
        'percent',
        [
            _Wanted('gpu_sm_activity', 'SMs', COMBINED),
            _Wanted('gpu_sm_occupancy', 'occupancy', LESSER),
            _Wanted('gpu_tensor_activity', 'tensor cores', DESCENDANTS),
            _Wanted('gpu_dram_activity', 'memory bandwidth', OTHER),
        ],
    ),
    'io': _Kind(
        'I/O',
        'bytes/s',
        [
            _Wanted('combined_io_read', 'read from storage', COMBINED),
            _Wanted('combined_io_written', 'written to storage', OTHER),
            _Wanted('combined_io_read_by_calls', 'read by calls', DESCENDANTS),
            _Wanted('combined_io_written_by_calls', 'written by calls', LESSER),
        ],
        is_rate=True,
    ),
    'power': _Kind(
        'Power',
        'watts',
        [_Wanted('gpu_energy', 'GPUs in use', COMBINED), _Wanted('cpu_package_energy', 'CPU packages', OTHER)],
        is_rate=True,
    ),
}
KEYS = tuple(_KINDS)
"""The keys of all panels there can be, in their order."""
_OF_GPUS = {'gpu_ram': [('combined_ram', 'tracked'), ('ram', 'all users')], 'gpu': [('utilization', '')]}
"""The columns of each GPU, and whose they are."""


def panels_of(
    recording: Recording,
    most: int = MOST_POINTS,
    start: float | None = None,
    stop: float | None = None,
    only: Iterable[str] = KEYS,
) -> list[Panel]:
    """Return the panels of which something is known; those of GPUs come first if the run had memory on one.

    :param most: Points of a line at most.
    :param start: From when on, in seconds; None: from the first sample.
    :param stop: Up to when.
    :param only: The keys of the panels that are wanted.
    """
    is_whole = start is None and stop is None
    reader = _Reader(recording, recording.samples.between(start, stop), most, is_whole=is_whole)
    wanted = set(only)
    found = [panel for key in KEYS if key in wanted for panel in [reader.panel(key)] if panel is not None]
    uses_gpus = any(panel.key == 'gpu_ram' and panel.lines[0].series.largest for panel in found)
    return sorted(found, key=lambda panel: uses_gpus and not panel.key.startswith('gpu'))


def stacked(panel: Panel) -> dict[str, tuple[list[float | None], list[float | None]]]:
    """Return the areas of the main process and its descendants, from where to where, by the names of their lines.

    That of the descendants is what they add to the main process: pages that both have count once.
    """
    groups = {line.name.partition('_')[0]: line for line in panel.lines}
    if not {MAIN, DESCENDANTS, COMBINED} <= groups.keys():
        return {}
    main, descendants, combined = groups[MAIN], groups[DESCENDANTS], groups[COMBINED]
    edges = [
        (None, None) if low is None or high is None else (low, high)
        for low, high in zip(main.series.mean, combined.series.mean, strict=True)
    ]
    zeros = [None if value is None else 0.0 for value in main.series.mean]
    return {
        main.name: (zeros, main.series.mean),
        descendants.name: ([low for low, _ in edges], [high for _, high in edges]),
    }


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

    def panel(self, key: str) -> Panel | None:
        """Return a panel; None where nothing of it is known."""
        kind = _KINDS[key]
        limit, of_limit = self._limit(key)
        if self._gpus and key in _OF_GPUS:
            buckets, lines = self._of_gpus(_OF_GPUS[key])
        else:
            wanted = [one for one in kind.columns if self._is_there(one)]
            if not wanted:
                return None
            buckets = self._buckets([one.column for one in wanted], is_rate=kind.is_rate)
            lines = [_line(one, buckets.series[one.column], kind.scale, limit) for one in wanted]
        known = tuple(line for line in lines if line.series.is_known and (key != 'power' or line.series.largest))
        if not known:
            return None
        peak = self._reported_peak() if key == 'ram' and self._is_whole else None
        begin, times = buckets.begin, buckets.times
        return Panel(key, kind.title, kind.unit, kind.is_rate, begin, times, known, limit, of_limit, peak)

    def _limit(self, key: str) -> tuple[float | None, str]:
        """Return what the values of a panel can be at most, and what that is."""
        cores = self._meta.cores
        sizes = {gpu.total_ram for gpu in self._gpus}
        limits: dict[str, tuple[float | None, str]] = {
            'ram': (self._meta.ram_capacity, 'RAM of the machine'),
            'cpu': (None if cores is None else cores * _PERCENT, f'{cores} cores'),
        }
        if self._gpus:
            limits['gpu_ram'] = sizes.pop() if len(sizes) == 1 else None, 'memory of one GPU'
            limits['gpu'] = _PERCENT, 'one GPU'
        return limits.get(key, (None, ''))

    def _reported_peak(self) -> float | None:
        try:
            peak = (self._meta.totals or {})['ram']['combined'][0]
        except (IndexError, KeyError, TypeError):
            return None
        return float(peak) if isinstance(peak, (int, float)) and 0 < peak < float('inf') else None

    def _is_there(self, one: _Wanted) -> bool:
        """Return whether a line says something of its own."""
        if one.column not in self._samples.names or ('gpu' in one.column and not self._has_gpus):
            return False
        return not self._is_alone or one.title not in {_WHOSE[MAIN], _WHOSE[DESCENDANTS]}  # all are the main one

    def _buckets(self, columns: Sequence[str], *, is_rate: bool) -> Buckets:
        if not is_rate:
            return self._samples.buckets(columns, self._most)
        return self._samples.rates(columns, self._most, max(_SHORTEST_INTERVAL, self._meta.interval or 0.0))

    def _of_gpus(self, columns: Sequence[tuple[str, str]]) -> tuple[Buckets, list[Line]]:
        """Return the lines of all GPUs with the same times as the first, and its times."""
        if self._per_gpu is None:
            self._per_gpu = _in_use(self._samples.of_each_gpu([gpu.id for gpu in self._gpus], self._most))
        first = next(iter(self._per_gpu.values()))
        numbers = {gpu.id: number for number, gpu in enumerate(self._gpus)}
        found = []
        for column, whose in columns:
            for place, (gpu, buckets) in enumerate(self._per_gpu.items()):
                title = ', '.join(part for part in (f'GPU {numbers[gpu]}', whose) if part)
                turn, color = divmod(place, len(_GPU_ROLES))
                dash = _OF_ALL_USERS if column == 'ram' else _TURNS[turn % len(_TURNS)]
                found.append(Line(f'{gpu}.{column}', title, _GPU_ROLES[color], buckets.series[column], dash))
        return first, [line for line in found if len(line.series.mean) == len(first.times)]


def _in_use(gpus: dict[int, Buckets]) -> dict[int, Buckets]:
    """Return the GPUs that the run had memory on, fullest first; all of them if there is none."""
    most = {gpu: buckets.series['combined_ram'].largest or 0 for gpu, buckets in gpus.items()}
    used = sorted((gpu for gpu in gpus if most[gpu]), key=lambda gpu: -most[gpu])
    return {gpu: gpus[gpu] for gpu in used or gpus}


def _line(one: _Wanted, series: Series, scale: float, limit: float | None) -> Line:
    """Return a line in the unit of its panel; that of a whole machine is not above its limit: it has ticks of 10 ms."""
    most = limit if limit is not None and one.role == SYSTEM else float('inf')
    if scale != 1 or most < float('inf'):
        parts = ([None if value is None else min(value * scale, most) for value in part] for part in series)
        series = type(series)(*parts)
    return Line(one.column, one.title, one.role, series, _DASHES.get(one.role, ()))
