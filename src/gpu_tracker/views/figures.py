"""The ten figures of a recorded run by which people decide, in base units, to be shown and to be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import RecordingError
from gpu_tracker.result.summary import figure
from gpu_tracker.units import MEMORY_UNITS, TIME_UNITS

if TYPE_CHECKING:
    from gpu_tracker.recording.reading.recording import Recording
    from gpu_tracker.result.usage import ResourceUsage

_PERCENT = 100
_LEAST_CHANGE = 0.05
"""In percent: smaller ones would be shown as none."""


class Figure(NamedTuple):
    """One figure.

    :ivar title: What it is.
    :ivar unit: Its unit: bytes, seconds, percent, joules or count.
    :ivar value: None where it is not known.
    :ivar note: What else there is to say of it; may be empty.
    """

    title: str
    unit: str
    value: float | None
    note: str = ''

    @property
    def text(self) -> str:
        """The value with three digits and the unit that suits it, or ``N/A``."""
        return figure(self.value, self.unit)


def figures_of(recording: Recording) -> list[Figure]:
    """Return the figures of a recording; none where it ended before there was a result."""
    try:
        usage = recording.summary()
    except RecordingError:
        return []
    return [*_of_processes(usage), *_of_devices(usage)]


def difference(value: float | None, first: float | None) -> str:
    """Return by how much a value differs from the first one: ``+12.3 %``; empty where that cannot be said."""
    if value is None or first is None:
        return ''
    if value == first:
        return '='
    if not first:
        return ''
    change = (value / first - 1) * _PERCENT
    if abs(change) < _LEAST_CHANGE:
        return '='
    return f'{change:+.1f} %' if abs(change) < 10 * _PERCENT else f'{value / first:.3g} times'


def _of_processes(usage: ResourceUsage) -> list[Figure]:
    ram, cpu = usage.max_ram, usage.cpu_utilization
    scale = MEMORY_UNITS[ram.unit]
    peak = _in_base(ram.combined.total_rss, scale)
    capacity = _in_base(ram.system_capacity, scale)
    main, descendants = _in_base(ram.main.total_rss, scale), _in_base(ram.descendants.total_rss, scale)
    parts = f'main process {figure(main, "bytes")}, descendants {figure(descendants, "bytes")}' if descendants else ''
    share = None if peak is None or not capacity else _PERCENT * peak / capacity
    threads = cpu.combined_n_threads
    window = f'in any half a second; {_count(cpu.system_core_count)} cores'
    return [
        Figure('Time', 'seconds', usage.compute_time.time * TIME_UNITS[usage.compute_time.unit]),
        Figure('Peak RAM', 'bytes', peak, parts),
        Figure("Share of the machine's RAM", 'percent', share, f'of {figure(capacity, "bytes")}'),
        Figure('CPU, mean', 'percent', cpu.combined.mean_sum_percent, '100 % is one core'),
        Figure('CPU, most', 'percent', cpu.combined.max_sum_percent, window),
        Figure('Threads, most', 'count', threads),
    ]


def _of_devices(usage: ResourceUsage) -> list[Figure]:
    found = []
    has_gpus = usage.gpu_utilization.system_gpu_count != 0
    if has_gpus:
        scale = MEMORY_UNITS[usage.max_gpu_ram.unit]
        of = f'of {figure(_in_base(usage.max_gpu_ram.system_capacity, scale), "bytes")}'
        gpu = usage.gpu_utilization.gpu_percentages
        most = f'{figure(gpu.max_sum_percent, "percent")} at most; 100 % is one GPU'
        found += [
            Figure('Peak GPU memory', 'bytes', _in_base(usage.max_gpu_ram.combined, scale), of),
            Figure('GPU utilization, mean', 'percent', gpu.mean_sum_percent, most),
        ]
    if usage.io is not None:
        scale = MEMORY_UNITS[usage.io.unit]
        used = usage.io.combined
        written = f'written {figure(_in_base(used.written, scale), "bytes")}'
        found.append(Figure('Read from storage', 'bytes', _in_base(used.read, scale), written))
    if usage.energy is not None and has_gpus:
        found.append(Figure('Energy of GPUs', 'joules', usage.energy.gpu))
    return found


def _in_base(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


def _count(value: int | None) -> str:
    return 'N/A' if value is None else str(value)
