"""One report of the records of all ranks. Pure: nothing is read here, and the clock is an argument.

What may be added up, and what may not:

- CPU time, and bytes read and written, are sums over all ranks and attempts.
- RAM of ranks that ran at once on one node is between what the largest of them had and the sum of all: they have pages
  in common, and their peaks at different moments. Where there are recordings, the largest sum at one moment is known.
- What a rank has read of the whole machine counts once a machine, what it has read of a GPU once a UUID: where readings
  overlap in time, the longest one counts.
"""

from __future__ import annotations

import signal
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from gpu_tracker import figures, vendors
from gpu_tracker.job import job_name
from gpu_tracker.jobs.group_kills import group_kills
from gpu_tracker.jobs.job_regions import merged_regions
from gpu_tracker.jobs.job_report import Imbalance, JobReport, NodeReport, RankReport, UsedGPU
from gpu_tracker.jobs.moments import covered, largest_sum, largest_sum_of_bounds, once
from gpu_tracker.jobs.records import ENDED, FAILED, KILLED, LOST, RUNNING, STATES, figure_or_none
from gpu_tracker.jobs.runs import grouped, named, runs_of
from gpu_tracker.recording.reading.model import Bounded
from gpu_tracker.recording.writing.rank_files import UNMEASURED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gpu_tracker.jobs.records import RankRecord
    from gpu_tracker.jobs.runs import Run
    from gpu_tracker.recording.reading.region_rows import RegionCall
    from gpu_tracker.result.usage import ResourceUsage

    Series = Sequence[tuple[float, float]]
    """The RAM of a rank over time: pairs of a time on a clock that all of its node have, and bytes from then on."""

_WORST_FIRST = (RUNNING, LOST, KILLED, FAILED, UNMEASURED, ENDED)
_MOST_SIZE = 1_000_000
"""Ranks that write into one folder: a larger number is no number of ranks."""
_PERCENT = 100.0
_CPU_TIME = 'cpu_utilization.combined.mean_sum_percent'
_MOST_CPU = 'cpu_utilization.combined.max_sum_percent'


def merge(
    records: Iterable[RankRecord],
    *,
    now: float,
    is_alive: Callable[[RankRecord], bool | None] = lambda record: None,  # noqa: ARG005 - a default that knows nothing
    problems: Sequence[str] = (),
    series_of: Callable[[RankRecord], Series | None] | None = None,
    calls_of: Callable[[RankRecord], Sequence[RegionCall]] | None = None,
) -> JobReport:
    """Return the report of a job.

    :param records: What its ranks have written.
    :param now: Seconds since 1970.
    :param is_alive: Returns whether the process that writes a rank's end is there; None where that cannot be seen.
    :param problems: What is wrong with other records.
    :param series_of: Returns the RAM of a rank over time; None where it has no recording.
    :param calls_of: Returns the calls of regions that a rank's recording has.
    """
    runs = runs_of(sorted(records, key=lambda record: (record.started, record.name)), now, is_alive)
    last = [run for run in runs if run.is_last]
    by_label = grouped(last, lambda run: run.label)
    states = {label: _worst(of_rank) for label, of_rank in by_label.items()}
    expected, never_started = _missing(last, {run.label for run in runs})
    usages = [run.record.usage() for run in runs]
    ranks = tuple(map(_rank, runs, usages))
    of_nodes = grouped(ranks, lambda rank: rank.node)
    nodes = [
        _node(name, of_node, of_nodes[name], series_of)
        for name, of_node in sorted(grouped(runs, lambda run: run.node).items())
    ]
    with_gpus = {node.node for node in nodes if node.gpu_seconds is not None}
    found, lower_bounds = _figures(ranks, usages)
    is_running = RUNNING in states.values()
    start, end = _period(runs, now if is_running else None)
    return JobReport(
        jobs=tuple(dict.fromkeys(run.record.job.job for run in runs if run.record.job.job is not None)),
        launchers=tuple(dict.fromkeys(run.record.job.launcher for run in runs if run.record.job.launcher)),
        is_running=is_running,
        is_lower_bound=any(run.state in {LOST, RUNNING, UNMEASURED} or run.record.totals is None for run in runs),
        started=start,
        ended=end,
        seconds=None if start is None or end is None else end - start,
        ranks_expected=expected,
        ranks_started=len(by_label),
        never_started=tuple(never_started),
        states={state: sum(of_rank == state for of_rank in states.values()) for state in STATES},
        restarted=tuple(dict.fromkeys(run.label for run in runs if not run.is_last)),
        cpu_seconds=_sum(rank.cpu_seconds for rank in ranks),
        cpu_seconds_allotted=_sum_of_all(node.cpu_seconds_allotted for node in nodes),
        gpu_seconds=_gpu_seconds([run for run in runs if run.node in with_gpus]),
        gpu_seconds_allotted=_sum_of_all(node.gpu_seconds_allotted for node in nodes),
        gpu_joules=_gpu_joules(runs),
        cpu_package_joules=_package_joules(runs),
        read=found.get('io.combined.read'),
        written=found.get('io.combined.written'),
        max_ram_of_rank=max((rank.max_ram for rank in ranks), key=_size, default=None),
        max_ram_of_node=max((node.max_ram for node in nodes), key=_size, default=None),
        asked_ram_of_node=_largest(node.asked_ram for node in nodes),
        nodes=tuple(nodes),
        gpus=tuple(sorted(_used_gpus(runs, usages), key=lambda gpu: -(gpu.max_ram.upper or gpu.max_ram.lower or 0))),
        ranks=ranks,
        imbalance=tuple(_imbalances([rank for run, rank in zip(runs, ranks, strict=True) if run.is_last])),
        regions=() if calls_of is None else merged_regions((run.label, calls_of(run.record)) for run in last),
        oom_kills=tuple(group_kills(runs)),
        figures=found,
        lower_bounds=lower_bounds,
        problems=(*_problems(runs, last, now), *problems),
    )


def _period(runs: Sequence[Run], now: float | None) -> tuple[float | None, float | None]:
    """Return when the first run began, and when the last one was heard of, or ``now``; None where there is none."""
    start = min((run.record.started for run in runs), default=None)
    end = max((run.end for run in runs), default=None)
    return start, end if end is None or now is None else max(end, now)


def _worst(runs: Sequence[Run]) -> str:
    states = {run.state for run in runs}
    return next(state for state in _WORST_FIRST if state in states)


def _missing(last: Sequence[Run], seen: set[str]) -> tuple[int | None, list[str]]:
    """Return how many ranks there should be, where all steps say it, and the labels of those that have not begun."""
    expected: int | None = 0
    room = _MOST_SIZE
    labels: list[str] = []
    for of_step in grouped(
        last, lambda run: (run.record.job.job, run.record.job.array_task, run.record.job.step)
    ).values():
        sizes = [run.record.job.size for run in of_step if run.record.job.size is not None]
        size = max(sizes, default=0)
        if not sizes or size > room:
            expected = None
            continue
        room -= size
        expected = None if expected is None else expected + size
        there = {run.record.job.rank for run in of_step}
        example = of_step[0]
        missing = [] if None in there else [rank for rank in range(size) if rank not in there]
        labels += [_label_like(example, rank) for rank in missing]
    return (expected if last else None), [label for label in labels if label not in seen]


def _label_like(example: Run, rank: int) -> str:
    """Return the label of another rank of the same step."""
    words = example.label.split(' ')
    return ' '.join([*words[:-1], str(rank)])


def _figures(
    ranks: Sequence[RankReport], usages: Sequence[ResourceUsage | None]
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the sums and maxima of the figures of ranks, and the paths of lower bounds."""
    found: dict[str, float] = {}
    lower_bounds = []
    for path, row in figures.of_job().items():
        with_row = [
            rank
            for rank, usage in zip(ranks, usages, strict=True)
            if usage is None or getattr(usage, row.section) is None or row.when(usage)
        ]
        known = [rank.figures[path] for rank in with_row if path in rank.figures]
        if known:
            found[path] = sum(known) if row.of_ranks == figures.SUM else max(known)
            if len(known) < len(with_row) or any(path in rank.lower_bounds for rank in with_row):
                lower_bounds.append(path)
    return found, tuple(lower_bounds)


def _used_gpus(runs: Sequence[Run], usages: Sequence[ResourceUsage | None]) -> Iterator[UsedGPU]:
    """Yield each GPU that ranks used, with what they had of it."""
    used = [
        (run, usage, gpu)
        for run, usage in zip(runs, usages, strict=True)
        if usage is not None
        for gpu in usage.gpus or ()
        if gpu.max_ram.combined or gpu.own_utilization.max_percent
    ]
    for (node, _), of_gpu in grouped(used, lambda found: (found[0].node, found[2].uuid)).items():
        gpu = of_gpu[0][2]
        paths = [f'gpus.{figures.place_of(one)}' for _, _, one in of_gpu]
        sizes = [
            figures.value(usage, f'{path}.max_ram.combined') for path, (_, usage, _) in zip(paths, of_gpu, strict=True)
        ]
        is_known = None not in sizes and not any(
            f'{path}.max_ram.combined' in usage.lower_bounds for path, (_, usage, _) in zip(paths, of_gpu, strict=True)
        )
        known = [size for size in sizes if size is not None]
        largest = max(known, default=None)
        at_once = sum(known) if is_known else None
        yield UsedGPU(
            node=node,
            label=vendors.label(gpu.vendor, gpu.index),
            uuid=gpu.uuid,
            capacity=figures.value(of_gpu[0][1], f'{paths[0]}.capacity'),
            max_ram=Bounded(largest if largest == at_once or not is_known else None, largest, at_once),
            mean_percent=_largest(one.utilization.mean_percent for _, _, one in of_gpu),
            ranks=tuple(dict.fromkeys(run.label for run, _, _ in of_gpu)),
        )


def _rank(run: Run, usage: ResourceUsage | None) -> RankReport:
    record, place = run.record, run.record.job
    found: dict[str, float] = {}
    lower_bounds: Sequence[str] = ()
    if usage is not None:
        shown = [path for path, row in figures.of_job().items() if figures.has(usage, row)]
        found = {path: value for path in shown if (value := figure_or_none(figures.value(usage, path))) is not None}
        lower_bounds = list(found) if run.state in {LOST, RUNNING} else usage.lower_bounds
    return RankReport(
        label=run.label,
        job=place.job,
        array_task=place.array_task,
        step=place.step,
        rank=place.rank,
        attempt=place.attempt,
        node=run.node,
        state=run.state,
        exit_code=record.exit_code,
        signal=_signal_name(record.exit_code),
        started=record.started,
        updated=record.updated,
        seconds=run.seconds,
        cpu_seconds=record.figure('cpu', 'combined', 0),
        max_ram=run.ram,
        max_gpu_ram=record.figure('gpu', 'combined'),
        gpu_utilization=record.figure('gpu', 'mean_sum'),
        read=found.get('io.combined.read'),
        written=found.get('io.combined.written'),
        recording=record.recording,
        figures=found,
        lower_bounds=tuple(path for path in found if path in lower_bounds),
        termination_reason=None if usage is None else usage.termination_reason,
        exceeded_limits=None if usage is None else usage.exceeded_limits,
        own_group_memory_peak=found.get('own_group.memory_peak'),
        max_cores=None if usage is None else _cores_of(figures.value(usage, _MOST_CPU)),
        batch_system=record.text('batch', 'system'),
        asked_cores=record.figure('batch', 'cores'),
        time_limit=record.figure('batch', 'time_limit'),
        swapped_out=record.figure('control_group', 'swapped_out'),
    )


def _cores_of(percent: float | None) -> float | None:
    return None if percent is None else percent / _PERCENT


def _node(
    name: str,
    runs: Sequence[Run],
    ranks: Sequence[RankReport],
    series_of: Callable[[RankRecord], Series | None] | None,
) -> NodeReport:
    allocations = grouped(runs, lambda run: (run.record.job.job, run.record.job.array_task))
    cores = [_cores(of_one) for of_one in allocations.values()]
    lengths = [_allotted_seconds(of_one) for of_one in allocations.values()]
    asked_gpus = [_largest(run.record.asked_gpus for run in of_one) for of_one in allocations.values()]
    return NodeReport(
        node=name,
        ranks=len({run.label for run in runs}),
        max_ram=_ram_of_node(runs, series_of),
        cpu_seconds=_sum(rank.cpu_seconds for rank in ranks),
        cores=_largest(cores),
        cpu_seconds_allotted=_sum_of_all(
            None if count is None else count * seconds for count, seconds in zip(cores, lengths, strict=True)
        ),
        asked_ram=_largest(run.record.asked_ram for run in runs),
        max_gpu_ram=_largest(rank.max_gpu_ram for rank in ranks),
        gpu_seconds=_gpu_seconds(runs),
        gpu_seconds_allotted=_sum_of_all(
            None if count is None else count * seconds for count, seconds in zip(asked_gpus, lengths, strict=True)
        ),
        system_max_ram=_largest(run.record.figure('ram', 'system') for run in runs),
        system_ram_capacity=_largest(run.record.figure('ram', 'capacity') for run in runs),
    )


def _ram_of_node(runs: Sequence[Run], series_of: Callable[[RankRecord], Series | None] | None) -> Bounded:
    """Return the most RAM of the ranks on a node at one moment."""
    rams = [run.ram for run in runs]
    lower = _largest(ram.lower for ram in rams)
    largest = _largest(ram.value for ram in rams)
    spans = [(run.record.started, run.end) for run in runs]
    uppers = [ram.upper for ram in rams]
    upper = None if None in uppers else largest_sum_of_bounds(spans, [bound or 0 for bound in uppers])
    if largest_sum_of_bounds(spans, [1] * len(spans)) <= 1:  # one at a time
        unknown = [ram.upper for ram in rams if ram.value is None]
        is_known = largest is not None and all(bound is not None and bound <= largest for bound in unknown)
        value = largest if is_known else None
    else:
        value = _largest_sum_of_samples(runs, series_of)
        if value is not None and largest is not None:
            value = max(value, largest)  # a peak between two samples, of one rank
        if value is not None and upper is not None:
            value = min(value, upper)
    return Bounded(value, lower, upper)


def _largest_sum_of_samples(
    runs: Sequence[Run], series_of: Callable[[RankRecord], Series | None] | None
) -> float | None:
    """Return the most RAM of the ranks at one moment; None where that of one is not known over time."""
    largest: float | None = None
    for of_clock in grouped(runs, lambda run: run.record.machine).values():  # after a reboot it begins at 0 again
        found = [] if series_of is None else [series_of(run.record) for run in of_clock]
        series = [one for one in found if one is not None]
        total = largest_sum(series) if found and len(series) == len(found) else None
        if total is None:
            return None
        largest = total if largest is None else max(largest, total)
    return largest


def _cores(runs: Sequence[Run]) -> int | None:
    """Return the cores that a job was given on a node, or else those that its ranks may use."""
    asked: int | None = _largest(run.record.asked_cores for run in runs)
    if asked is not None:
        return asked
    usable = frozenset[int]().union(*(run.record.cpus for run in runs))
    return len(usable) or None


def _allotted_seconds(runs: Sequence[Run]) -> float:
    """Return for how long a job was on a node: what it gave back between two attempts does not count."""
    attempts = grouped(runs, lambda run: run.record.job.attempt).values()
    return covered((min(run.record.started for run in same), max(run.end for run in same)) for same in attempts)


def _gpus_of(run: Run) -> Iterator[Mapping[str, Any]]:
    """Yield the GPUs of the machine that the rank has used, or may have used."""
    devices = run.record.part('gpu').get('devices')
    for device in devices if isinstance(devices, list) else ():
        if not isinstance(device, dict) or not isinstance(device.get('uuid'), str):
            continue
        if device.get('is_used', device.get('combined') != 0) is not False:
            yield device


def _gpu_seconds(runs: Sequence[Run]) -> float | None:
    """Return for how many seconds the GPUs were busy that the ranks on a node used."""
    readings: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    measured = [run for run in runs if run.record.totals is not None]
    for run in measured:
        if run.record.figure('gpu', 'count') is None:
            return None
        for device in _gpus_of(run):
            percent = figure_or_none(device.get('utilization'))
            if percent is None or device.get('is_used', True) is None:
                return None
            busy = float(percent) / _PERCENT * run.seconds
            readings[device['uuid']].append((run.record.started, run.end, busy))
    return sum((once(of_gpu) for of_gpu in readings.values()), 0.0) if measured else None


def _gpu_joules(runs: Sequence[Run]) -> float | None:
    """Return the energy of all GPUs that the ranks used, each counted once; None where nobody has asked for it."""
    readings: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    is_known = False
    for run in runs:
        energy = run.record.part('energy')
        gpus = energy.get('gpus', None if energy else [])
        if not isinstance(gpus, list):
            return None  # it was asked for, and is not known
        for entry in gpus:
            if not isinstance(entry, list) or len(entry) < 2 or figure_or_none(entry[1]) is None:  # noqa: PLR2004
                return None
            readings[str(entry[0])].append((run.record.started, run.end, float(entry[1])))
        is_known = is_known or bool(energy)
    return sum((once(of_gpu) for of_gpu in readings.values()), 0.0) if is_known else None


def _package_joules(runs: Sequence[Run]) -> float | None:
    """Return the energy of the CPU packages, once a machine; None where it is not known of each."""
    total = 0.0
    for of_machine in grouped(runs, lambda run: run.record.machine or run.node).values():
        readings = [
            (run.record.started, run.end, float(joules))
            for run in of_machine
            if (joules := run.record.figure('energy', 'packages')) is not None
        ]
        if not readings:
            return None
        total += once(readings)
    return total if runs else None


_COMPARED: Mapping[str, Callable[[RankReport], float | None]] = {
    'seconds': lambda rank: rank.seconds,
    'cpu_seconds': lambda rank: rank.cpu_seconds,
    'max_ram': lambda rank: rank.max_ram.value,
    'max_gpu_ram': lambda rank: rank.max_gpu_ram,
}


def _imbalances(last: Sequence[RankReport]) -> Iterator[Imbalance]:
    """Yield the imbalance of each figure among the ranks of each step; tasks of an array are compared as well."""
    for (job, step), of_step in grouped(last, lambda rank: (rank.job, rank.step)).items():
        of_ranks = grouped([rank for rank in of_step if rank.state != RUNNING], lambda rank: rank.label)
        for figure, value_of in _COMPARED.items():
            found: dict[str, float] = {}
            for label, of_rank in of_ranks.items():
                values = [value for rank in of_rank if (value := value_of(rank)) is not None]
                if values:
                    found[label] = max(values) if figure.startswith('max') else sum(values)
            mean = sum(found.values()) / len(found) if found else 0.0
            if len(found) > 1 and mean > 0:
                most = max(found, key=lambda label: found[label])
                yield Imbalance(figure, job, step, most, found[most], mean, found[most] / mean, len(found))


def _problems(runs: Sequence[Run], last: Sequence[Run], now: float) -> Iterator[str]:
    jobs = list(dict.fromkeys(job_name({'job': run.record.job.job, 'array_task': None}) for run in runs))
    if len(jobs) > 1:
        yield f'{len(jobs)} different jobs have written here; their figures are added up.'
    ages = [now - run.end for run in runs if run.state == RUNNING]
    if ages:
        yield f'Figures of ranks that run are up to {max(0.0, *ages):.0f} s old.'
    again = [label for label, of_rank in grouped(runs, lambda run: run.label).items() if _has_repeated_attempt(of_rank)]
    if again:
        yield f'{named(again)}: more than one run of the same attempt has written here; their figures are added up.'
    lost = [run.label for run in runs if run.state == LOST]
    if lost:
        yield f'Nobody has seen the end of {named(lost)}: figures are up to the last report.'
    silent = [run.label for run in runs if run.record.totals is None and run.state != RUNNING]
    if silent:
        yield f'Nothing is known of what {named(silent)} used: it is in no figure.'
    bounded = [run.label for run in runs if _CPU_TIME in run.record.part('lower_bounds')]
    if bounded:
        yield f'CPU time of {named(bounded)} is a lower bound.'
    for of_array in grouped(last, lambda run: run.record.job.job).values():
        size = _largest(run.record.job.array_size for run in of_array)
        there = len({run.record.job.array_task for run in of_array})
        if size is not None and there < size:
            yield f'{size - there} of {size} tasks of the array have not started.'


def _has_repeated_attempt(runs: Sequence[Run]) -> bool:
    return len({run.record.job.attempt for run in runs}) < len(runs)


def _signal_name(exit_code: int | None) -> str | None:
    if exit_code is None or exit_code >= 0:
        return None
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f'signal {-exit_code}'


def _size(ram: Bounded) -> float:
    known = [bound for bound in (ram.value, ram.lower) if bound is not None]
    return max(known, default=-1.0)


def _largest(values: Iterable[Any]) -> Any:  # noqa: ANN401 - as the values
    return max((value for value in values if value is not None), default=None)


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of the known values; None if there are none."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _sum_of_all(values: Iterable[float | None]) -> float | None:
    """Return the sum; None if a value is unknown."""
    found = list(values)
    return None if None in found or not found else sum(value or 0.0 for value in found)
