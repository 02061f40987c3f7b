"""What the rules know of a run, in base units. None is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_tracker.figures import place_of, value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_tracker.result.usage import GPUUse, ResourceUsage

_TOTAL_RSS = 'max_ram.combined.total_rss'
_LATEST_STOP = 5
"""Seconds before the time limit from which on the batch system may have stopped a run."""


@dataclass(frozen=True, slots=True)
class GPUFacts:
    """One GPU that the run used or could have used.

    :ivar index: Its number.
    :ivar capacity_bytes: Its memory.
    :ivar tracked_peak_bytes: The most of it that the run had.
    :ivar device_peak_bytes: The most that everybody had.
    :ivar util_mean_percent: How busy it was.
    :ivar util_max_percent: The most of it.
    :ivar own_util_mean_percent: How busy the run kept it.
    :ivar others_used: Other programs used it.
    """

    index: int
    capacity_bytes: float | None
    tracked_peak_bytes: float | None
    device_peak_bytes: float | None
    util_mean_percent: float | None
    util_max_percent: float | None
    own_util_mean_percent: float | None
    others_used: bool | None

    @property
    def is_unused(self) -> bool:
        """Whether the run certainly did not use it."""
        return self.tracked_peak_bytes == 0 and not self.own_util_mean_percent

    @property
    def used_percent(self) -> float | None:
        """How busy the run kept it, also if nobody else used it."""
        if self.own_util_mean_percent is not None:
            return self.own_util_mean_percent
        return self.util_mean_percent if self.others_used is False else None


@dataclass(frozen=True, slots=True)
class RegionFacts:
    """A region of the program.

    :ivar name: Its name.
    :ivar calls: How often it was called.
    :ivar seconds: The time of all calls.
    :ivar ram_before_bytes: RAM before the first call.
    :ivar ram_after_calls: RAM after each call.
    :ivar gpu_busy_percent: How busy the GPUs that the run used were, on average.
    :ivar gpu_own_busy_percent: How busy the run kept it.
    :ivar cores_mean: Cores that the run used in it.
    """

    name: str
    calls: int
    seconds: float
    ram_before_bytes: float | None = None
    ram_after_calls: tuple[float, ...] = ()
    gpu_busy_percent: float | None = None
    gpu_own_busy_percent: float | None = None
    cores_mean: float | None = None


@dataclass(frozen=True, slots=True)
class RankFacts:
    """A rank of a job.

    :ivar rank: Its number.
    :ivar node: Its node.
    :ivar seconds: Its own work, without waiting for others.
    :ivar ram_peak_bytes: Its peak of RAM.
    """

    rank: int
    node: str | None
    seconds: float
    ram_peak_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """A run.

    :ivar seconds: How long it took.
    :ivar is_job: It is a job of many ranks. Memory is of its fullest node, and cores are of one rank.
    :ivar exit_code: The exit code of the command; 128 + n after signal n.
    :ivar termination: ``exited``, ``time limit`` if the batch system stopped it, or what else ended it.
    :ivar batch: A name in :data:`gpu_tracker.advice.batch.BATCH_SYSTEMS`; None: there is no batch system.
    :ivar ram_peak_bytes: The most RAM of the processes, on the fullest node.
    :ivar ram_is_lower_bound: The true peak may be larger.
    :ivar machine_ram_bytes: RAM of the machine.
    :ivar ram_allowed_bytes: The limit of memory; None: there is none.
    :ivar ram_requested_bytes: What was requested, if that differs from the limit.
    :ivar cgroup_own: The run had a control group of its own.
    :ivar cgroup_peak_bytes: The peak of that group, with file cache.
    :ivar oom_kills: Processes killed for lack of memory.
    :ivar swap_peak_bytes: The most memory in swap.
    :ivar shmem_growth_bytes: What files in memory (tmpfs) and shared memory of the machine grew by.
    :ivar major_faults: Page faults that read from disk.
    :ivar cores_mean: Cores used.
    :ivar cores_max: The most cores used.
    :ivar cores_allowed: The cores that it may use.
    :ivar cores_allowed_by: ``affinity``, ``quota``, ``request`` or ``machine``: nothing restricts it.
    :ivar quota_throttled_seconds: Time for which the CPU quota stopped it, summed over cores.
    :ivar time_limit_seconds: The time limit of the job.
    :ivar job_seconds: How long the job had run at the end of the run; None: as long as the run.
    :ivar ram_per_minute_bytes: RAM at the end of each minute.
    :ivar machine_gpus: The GPUs of the machine, used or not.
    """

    seconds: float
    is_job: bool = False
    exit_code: int | None = None
    termination: str = 'exited'
    batch: str | None = None
    ram_peak_bytes: float | None = None
    ram_is_lower_bound: bool = False
    machine_ram_bytes: float | None = None
    ram_allowed_bytes: float | None = None
    ram_requested_bytes: float | None = None
    cgroup_own: bool = False
    cgroup_peak_bytes: float | None = None
    oom_kills: int | None = None
    swap_peak_bytes: float | None = None
    shmem_growth_bytes: float | None = None
    major_faults: float | None = None
    cores_mean: float | None = None
    cores_max: float | None = None
    cores_allowed: float | None = None
    cores_allowed_by: str | None = None
    quota_throttled_seconds: float | None = None
    time_limit_seconds: float | None = None
    job_seconds: float | None = None
    ram_per_minute_bytes: tuple[float, ...] = ()
    gpus: tuple[GPUFacts, ...] = ()
    regions: tuple[RegionFacts, ...] = ()
    ranks: tuple[RankFacts, ...] = ()
    machine_gpus: int | None = None

    @property
    def noun(self) -> str:
        """What it is called."""
        return 'job' if self.is_job else 'run'

    @property
    def has_succeeded(self) -> bool:
        """Whether the run ended by itself, and well."""
        return self.exit_code == 0 and self.termination == 'exited'

    @property
    def has_failed(self) -> bool:
        """Whether it ended badly, as far as that is known."""
        return self.exit_code not in {0, None} or self.termination != 'exited'

    @property
    def was_stopped_at_limit(self) -> bool:
        """Whether the batch system stopped it at the time limit."""
        return self.termination == 'time limit'


@dataclass(frozen=True, slots=True)
class RecordedFacts:
    """What only a recording of the run says, see :class:`Facts`."""

    regions: tuple[RegionFacts, ...] = ()
    ram_per_minute_bytes: tuple[float, ...] = ()


def facts_of(
    usage: ResourceUsage, totals: Mapping[str, Any], exit_code: int | None, recorded: RecordedFacts = RecordedFacts()
) -> Facts:
    """Return what the result of a run says of it.

    :param totals: From which the result was made.
    :param exit_code: The exit code of the command; -n if signal n has ended it; None: it is unknown.
    :param recorded: What its recording adds, if there is one.
    """
    batch, group = _part(totals, 'batch'), _part(totals, 'control_group')
    system = batch.get('system')
    if usage.job is not None and usage.job.rank is not None and usage.job.size != 1:
        system = None  # one of several ranks: requests are for all of them
    own = usage.own_group
    is_own = own is not None and own.memory_peak is not None
    memory = [
        limit for limit in (value(usage, 'control_group.memory_limit'), _number(batch, 'ram')) if limit is not None
    ]
    cores, cores_by = _cores(usage, batch)
    time_limit, job_seconds = _number(batch, 'time_limit'), _number(batch, 'job_seconds')
    termination = usage.termination_reason or 'exited'
    if termination == 'exited' and exit_code != 0 and time_limit and (job_seconds or 0) >= time_limit - _LATEST_STOP:
        termination = 'time_limit'
    elif termination == 'time_limit':
        termination = 'limit'  # of gpu-tracker, not of the batch system
    return Facts(
        seconds=value(usage, 'compute_time.time') or 0,
        exit_code=128 - exit_code if exit_code is not None and exit_code < 0 else exit_code,
        termination=termination.replace('_', ' '),
        batch=system if batch.get('is_whole') is True and isinstance(system, str) else None,
        ram_peak_bytes=value(usage, _TOTAL_RSS),
        ram_is_lower_bound=_TOTAL_RSS in usage.lower_bounds,
        machine_ram_bytes=value(usage, 'max_ram.system_capacity'),
        ram_allowed_bytes=min(memory, default=None),
        cgroup_own=is_own,
        cgroup_peak_bytes=value(usage, 'own_group.memory_peak'),
        oom_kills=own.oom_kills if own is not None and is_own else value(usage, 'control_group.oom_kills'),
        swap_peak_bytes=0 if _number(group, 'swapped_out') == 0 else _number(group, 'group_swap'),
        shmem_growth_bytes=_number(group, 'shmem_growth'),
        major_faults=max(
            (
                faults
                for faults in (value(usage, 'io.combined.major_page_faults'), _number(totals, 'major_faults'))
                if faults is not None
            ),
            default=None,
        ),
        cores_mean=_cores_of(value(usage, 'cpu_utilization.combined.mean_sum_percent')),
        cores_max=_cores_of(_exact(usage, 'cpu_utilization.combined.max_sum_percent')),
        cores_allowed=cores,
        cores_allowed_by=cores_by,
        quota_throttled_seconds=_number(group, 'throttled_seconds'),
        time_limit_seconds=time_limit,
        job_seconds=job_seconds,
        ram_per_minute_bytes=recorded.ram_per_minute_bytes,
        gpus=tuple(_gpu_facts(usage, gpu) for gpu in usage.gpus or ()),
        regions=recorded.regions,
        machine_gpus=usage.gpu_utilization.system_gpu_count,
    )


def _cores(usage: ResourceUsage, batch: Mapping[str, Any]) -> tuple[float | None, str | None]:
    """Return how many cores the run may use, and what restricts it to them."""
    group, machine = usage.control_group, usage.cpu_utilization.system_core_count
    allowed: float | None = machine
    by = None if machine is None else 'machine'
    if group is not None and group.allowed_cores is not None and (machine is None or group.allowed_cores < machine):
        allowed = group.allowed_cores
        by = 'quota' if group.cpu_limit == allowed else 'affinity'
    requested = _number(batch, 'cores')
    if requested is None or (by in {'affinity', 'quota'} and allowed is not None and allowed < requested):
        return allowed, by
    return requested if allowed is None else min(requested, allowed), 'request'


def _gpu_facts(usage: ResourceUsage, gpu: GPUUse) -> GPUFacts:
    path = f'gpus.{place_of(gpu)}'
    return GPUFacts(
        index=gpu.index,
        capacity_bytes=value(usage, f'{path}.capacity'),
        tracked_peak_bytes=_exact(usage, f'{path}.max_ram.combined'),
        device_peak_bytes=value(usage, f'{path}.max_ram.system'),
        util_mean_percent=_exact(usage, f'{path}.utilization.mean_percent'),
        util_max_percent=gpu.utilization.max_percent,
        own_util_mean_percent=_exact(usage, f'{path}.own_utilization.mean_percent'),
        others_used=gpu.others_used_it,
    )


def _exact(usage: ResourceUsage, path: str) -> float | None:
    """Return a figure; None if it may be too low."""
    found: float | None = value(usage, path)
    return None if path in usage.lower_bounds else found


def _cores_of(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _part(totals: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a part of the totals, which may be anything in a recording."""
    found = totals.get(name)
    return found if isinstance(found, dict) else {}


def _number(part: Mapping[str, Any], name: str) -> float | None:
    found = part.get(name)
    return found if isinstance(found, int | float) and 0 <= found < float('inf') else None
