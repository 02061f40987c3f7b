"""What a run used in twelve lines at most: the figures by which people decide, each in the unit that suits it."""

from __future__ import annotations

from gpu_tracker.limits import ended_beyond, ended_by
from gpu_tracker.units import MEMORY_UNITS, TIME_UNITS, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_tracker.result.usage import (
        ControlGroupUsage,
        IOUsage,
        JobIdentity,
        OwnGroupUsage,
        ProcessingUnitPercentages,
        ResourceUsage,
    )

_SIGNIFICANT = 3
_WIDTH = 12
_MOST = 12
_LEFT_OUT_FIRST = ('Threads', 'Machine')
_UNKNOWN = 'N/A'


def as_summary(usage: ResourceUsage) -> str:
    """Return the lines. Figures of GPUs are left out where there are none, and ``N/A`` stands for what is unknown."""
    lines = list(lines_of(usage))
    for title in _LEFT_OUT_FIRST:
        if len(lines) > _MOST:
            lines = [line for line in lines if line[0] != title]
    return '\n'.join(f'{title:<{_WIDTH}}{text}' for title, text in lines)


def as_line(usage: ResourceUsage) -> str:
    """Return the first figures of :func:`as_summary` in one line; those of GPUs where there are any."""
    ram, gpu_ram = usage.max_ram, usage.max_gpu_ram
    parts = [
        _time(usage),
        f'RAM {size(ram.combined.total_rss, MEMORY_UNITS[ram.unit])}',
        f'CPU {figure(usage.cpu_utilization.combined.mean_sum_percent, "percent")}',
    ]
    if usage.gpu_utilization.system_gpu_count != 0:
        parts.append(f'GPU RAM {size(gpu_ram.combined, MEMORY_UNITS[gpu_ram.unit])}')
        parts.append(f'GPU {figure(usage.gpu_utilization.gpu_percentages.mean_sum_percent, "percent")}')
    return ', '.join(parts)


def lines_of(usage: ResourceUsage) -> Iterator[tuple[str, str]]:
    """Yield each line as its title, which is empty where it goes on with the line before, and its text."""
    time = _time(usage)
    yield 'Time', time if usage.job is None else f'{time}; {place_in_job(usage.job)}'
    yield from _ram(usage)
    if usage.control_group is not None:
        yield from _group(usage.control_group)
    yield from _cpu(usage)
    if usage.own_group is not None:
        yield 'Own group', _own_group(usage.own_group)
        if usage.own_group.left_processes:
            yield '', f'{_counted(str(usage.own_group.left_processes), "left-over process", "es")} ended with it'
    has_gpus = usage.gpu_utilization.system_gpu_count != 0
    if has_gpus:
        yield from _gpu(usage)
    if usage.io is not None:
        yield _io(usage.io)
    if usage.energy is not None:
        packages = f'CPU packages {figure(usage.energy.cpu_packages, "joules")}'
        yield 'Energy', f'GPUs in use {figure(usage.energy.gpu, "joules")}, {packages}' if has_gpus else packages
    if usage.cuda is not None:
        yield 'CUDA', usage.cuda.problem or _launches(usage)


def _time(usage: ResourceUsage) -> str:
    time = figure(usage.compute_time.time * TIME_UNITS[usage.compute_time.unit], 'seconds')
    if usage.termination_reason is not None:
        return f'{time}, {ended_by(usage.termination_reason)}'
    return time if usage.exceeded_limits is None else f'{time}, {ended_beyond(usage.exceeded_limits)}'


def place_in_job(place: JobIdentity) -> str:
    """Return which rank of which job it was, in a few words, such as ``rank 3 of 64 of job 4711 on n1``."""
    of = '' if place.size is None else f' of {place.size}'
    rank = 'a process' if place.rank is None else f'rank {place.rank}{of}'
    task = '' if place.array_task is None else f'_{place.array_task}'
    job = '' if place.job is None else f' of job {place.job}{task}'
    node = '' if place.node is None else f' on {place.node}'
    attempt = f', attempt {place.attempt}' if place.attempt else ''
    return f'{rank}{job}{node}{attempt} ({place.launcher})'


def figure(value: float | None, unit: str) -> str:
    """Return a value with three digits and its unit, or ``N/A``."""
    return _UNKNOWN if value is None else text_of(value, unit, _SIGNIFICANT)


def _ram(usage: ResourceUsage) -> Iterator[tuple[str, str]]:
    ram = usage.max_ram
    scale = MEMORY_UNITS[ram.unit]
    peak = size(ram.combined.total_rss, scale)
    private, shared = size(ram.combined.private_rss, scale), size(ram.combined.shared_rss, scale)
    yield 'Peak RAM', f'{peak} (private {private}, shared {shared})'
    if ram.descendants.total_rss != 0:
        main, descendants = size(ram.main.total_rss, scale), size(ram.descendants.total_rss, scale)
        yield '', f'main process {main}, descendants {descendants}'
    yield 'Machine', f'at most {size(ram.system, scale)} of {size(ram.system_capacity, scale)} RAM in use by everybody'


def _group(group: ControlGroupUsage) -> Iterator[tuple[str, str]]:
    memory = size(group.memory_limit, MEMORY_UNITS[group.unit])
    cores = _counted(figure(group.allowed_cores, 'count'), 'core')
    yield 'Allowed', f'{memory} RAM and {cores}, by control groups and affinity'
    if group.problem is not None:
        yield 'Killed', group.problem


def _cpu(usage: ResourceUsage) -> Iterator[tuple[str, str]]:
    cpu = usage.cpu_utilization
    of_all = cpu.combined
    cores = _UNKNOWN if cpu.n_expected_cores is None else str(cpu.n_expected_cores)
    yield 'CPU', f'{_busy(of_all, "core")}; {_counted(cores, "core")} expected'
    if cpu.descendants_n_threads != 0 or cpu.descendants.mean_sum_percent:
        main = figure(cpu.main.mean_sum_percent, 'percent')
        yield '', f'main process {main}, descendants {figure(cpu.descendants.mean_sum_percent, "percent")} on average'
    threads = (cpu.combined_n_threads, cpu.main_n_threads, cpu.descendants_n_threads)
    at_most, main, descendants = (_UNKNOWN if count is None else str(count) for count in threads)
    yield 'Threads', f'{at_most} at most' + (f' (main process {main}, descendants {descendants})' if threads[2] else '')


def _own_group(group: OwnGroupUsage) -> str:
    if group.made_in is None:
        return 'none could be had'
    known = f'{size(group.memory_peak, MEMORY_UNITS[group.unit])} with page cache'
    memory = f'memory {_UNKNOWN}' if group.memory_peak is None else known
    tasks = _counted(_UNKNOWN if group.max_tasks is None else str(group.max_tasks), 'task')
    return f'{memory}, {figure(group.cpu_seconds, "seconds")} of CPU time, {tasks} at most'


def _gpu(usage: ResourceUsage) -> Iterator[tuple[str, str]]:
    ram = usage.max_gpu_ram
    scale = MEMORY_UNITS[ram.unit]
    capacity = size(ram.system_capacity, scale)
    yield 'GPU memory', f'{size(ram.combined, scale)} of {capacity}, {size(ram.system, scale)} by everybody'
    gpu = usage.gpu_utilization
    count = _UNKNOWN if gpu.n_expected_gpus is None else str(gpu.n_expected_gpus)
    yield 'GPU', f'{_busy(gpu.gpu_percentages, "GPU")}; {_counted(count, "GPU")} expected'


def _io(io: IOUsage) -> tuple[str, str]:
    scale = MEMORY_UNITS[io.unit]
    used = io.combined
    read, written, read_by_calls, written_by_calls = (
        size(value, scale) for value in (used.read, used.written, used.read_by_calls, used.written_by_calls)
    )
    return 'Storage', f'{read} read, {written} written; by calls {read_by_calls} and {written_by_calls}'


def _launches(usage: ResourceUsage) -> str:
    if usage.cuda is None or usage.cuda.engine is None:
        return _UNKNOWN
    used = usage.cuda.combined
    launches, failed = (_UNKNOWN if count is None else f'{count:,}' for count in (used.launches, used.failed_calls))
    return f'{launches} kernel launches, {failed} failed calls'


def size(value: float | None, scale: float) -> str:
    """Return a size in the unit that suits it, or ``N/A``.

    :param scale: The bytes of the unit in which it is given.
    """
    return figure(None if value is None else value * scale, 'bytes')


def _busy(used: ProcessingUnitPercentages, what: str) -> str:
    if used.mean_sum_percent is None and used.max_sum_percent is None:
        return _UNKNOWN
    mean, most = figure(used.mean_sum_percent, 'percent'), figure(used.max_sum_percent, 'percent')
    return f'{mean} of a {what} on average, {most} at most'


def _counted(count: str, what: str, plural: str = 's') -> str:
    return f'{count} {what}' if count == '1' else f'{count} {what}{plural}'
