"""The rules: each is one function from the facts of a run to advice, or to None."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from gpu_tracker.advice.batch import BATCH_SYSTEMS, memory_text, rounded_memory, time_text
from gpu_tracker.advice.site import Site, read_site
from gpu_tracker.result.usage import Advice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpu_tracker.advice.facts import Facts, GPUFacts
    from gpu_tracker.advice.thresholds import Thresholds

    Rule = Callable[[Facts, Thresholds], Advice | None]

_NEXT = 'Next time: '
_SECONDS_BELOW = 120
_FEWEST_POINTS, _MOST_POINTS = 4, 100
"""Of a growth: pairs of the later half are compared."""


def out_of_memory(facts: Facts, limits: Thresholds) -> Advice | None:
    """Report processes that were killed for lack of memory, and propose twice the limit."""
    kills, limit, machine = facts.oom_kills, facts.ram_allowed_bytes, facts.machine_ram_bytes
    if not kills or not (facts.cgroup_own or facts.has_failed) or facts.termination == 'memory limit':
        return None
    text = f'The kernel killed {kills} process{"" if kills == 1 else "es"} for lack of memory'
    if limit is not None:
        text += f' at the limit of {_size(limit)}'
    elif facts.ram_peak_bytes is not None and machine is not None:
        text += f" at {_size(facts.ram_peak_bytes)} of the machine's {_size(machine)}"
    text += '.'
    words = BATCH_SYSTEMS.get(facts.batch or '')
    if words is not None and limit is not None and ram_grows(facts, limits) is None:
        proposed = memory_text(rounded_memory(2 * limit), words)
        text += f' {_NEXT}try {words.memory_limit.format(proposed)}, twice the limit'
    return _advice('out_of_memory', text, oom_kills=kills, ram_allowed_bytes=limit, ram_peak_bytes=facts.ram_peak_bytes)


def time_limit(facts: Facts, limits: Thresholds) -> Advice | None:
    """Propose a longer time limit if it was reached, or nearly so."""
    limit, (used, _) = facts.time_limit_seconds, _time_used(facts)
    if limit is None:
        return None
    if facts.was_stopped_at_limit:
        text = f'The run was stopped at its limit of {_duration(limit)}.{_time_flag(facts, 2 * limit, limits, "try ")}'
        text += ', twice the limit' if _NEXT in text else ''
    elif used >= limits.time_scarce_share * limit:
        text = _of_limit(facts, limits)
    else:
        return None
    return _advice('time_limit', text, seconds=used, time_limit_seconds=limit)


def gpu_memory_full(facts: Facts, limits: Thresholds) -> Advice | None:
    """Report the fullest GPU if its memory was nearly full."""
    full = [
        (gpu.device_peak_bytes / gpu.capacity_bytes, gpu)
        for gpu in facts.gpus
        if gpu.device_peak_bytes is not None and gpu.capacity_bytes and not gpu.is_unused
    ]
    share, gpu = max(full, key=lambda one: one[0], default=(0, None))
    if gpu is None or share < limits.gpu_memory_share or gpu.device_peak_bytes is None or gpu.capacity_bytes is None:
        return None
    text = f'GPU {gpu.index} memory reached {_size(gpu.device_peak_bytes)} of {_size(gpu.capacity_bytes)}'
    if gpu.others_used and gpu.tracked_peak_bytes is not None:
        text += f', {_size(gpu.device_peak_bytes - gpu.tracked_peak_bytes)} of it by others'
    return _advice(
        'gpu_memory_full',
        f'{text}.',
        gpu=gpu.index,
        device_peak_bytes=gpu.device_peak_bytes,
        tracked_peak_bytes=gpu.tracked_peak_bytes,
        capacity_bytes=gpu.capacity_bytes,
    )


def ram_grows(facts: Facts, limits: Thresholds) -> Advice | None:
    """Report RAM that grows steadily with each call of a region, or each minute."""
    for region in facts.regions:
        growth = _growth(region.ram_after_calls, facts, limits)
        if growth is not None:
            text = f'RAM grew by {_size(growth)} per call of {region.name}, over {len(region.ram_after_calls)} calls.'
            return _advice('ram_grows', text, bytes_per_call=growth, calls=len(region.ram_after_calls))
    growth = _growth(facts.ram_per_minute_bytes, facts, limits)
    if growth is None:
        return None
    minutes = len(facts.ram_per_minute_bytes)
    text = f'RAM grew by {_size(growth)} per minute, over {minutes} min.'
    return _advice('ram_grows', text, bytes_per_minute=growth, minutes=minutes)


def swapped(facts: Facts, limits: Thresholds) -> Advice | None:
    """Report a run that had much of its memory in swap."""
    swap, peak = facts.swap_peak_bytes, facts.ram_peak_bytes
    if not swap or peak is None or swap < limits.swap_share * peak:
        return None
    allowed = facts.ram_allowed_bytes or facts.machine_ram_bytes
    than = '' if allowed is None else f' than {_size(allowed)}'
    who = 'run' if facts.cgroup_own else 'control group'
    text = f'The {who} swapped {_size(swap)}. Give it more memory{than}.'
    return _advice('swapped', text, swap_peak_bytes=swap, ram_peak_bytes=peak, ram_allowed_bytes=allowed)


def major_faults(facts: Facts, limits: Thresholds) -> Advice | None:
    """Report a run that read its files from disk again and again, if it did not swap."""
    faults, seconds = facts.major_faults, facts.seconds
    if not faults or seconds < limits.shortest_seconds or swapped(facts, limits) is not None:
        return None
    if faults < limits.major_faults_per_second * seconds:
        return None
    pages = f'{faults / 1e6:.1f} million' if faults >= 1e6 else f'{faults:,.0f}'  # noqa: PLR2004 - a million
    text = f'The run fetched {pages} pages from disk, {faults / seconds:.0f} a second. '
    return _advice('major_faults', f'{text}Give it more memory for its files.', major_faults=faults, seconds=seconds)


def gpu_unused(facts: Facts, limits: Thresholds) -> Advice | None:
    """Report GPUs that a batch system reserved and the run never used."""
    unused = [gpu.index for gpu in facts.gpus if gpu.is_unused]
    words = BATCH_SYSTEMS.get(facts.batch or '')
    if words is None or not unused or facts.seconds < limits.shortest_seconds:
        return None
    named = str(unused[0]) if len(unused) == 1 else f'{", ".join(map(str, unused[:-1]))} and {unused[-1]}'
    text = f'The run never used GPU{"" if len(unused) == 1 else "s"} {named}. '
    used = len(facts.gpus) - len(unused)
    advised = 'Check that the program finds it, or request no GPU.'
    if used:
        advised = f'{_NEXT}{words.gpus.format(used)}'
    elif len(unused) > 1:
        advised = 'Check that the program finds them, or request no GPU.'
    return _advice('gpu_unused', text + advised, gpus_unused=len(unused), gpus_used=used)


def cpu_throttled(facts: Facts, limits: Thresholds) -> Advice | None:
    """Report a run that its CPU quota stopped again and again."""
    throttled, cores = facts.quota_throttled_seconds, facts.cores_allowed
    if facts.cores_allowed_by != 'quota' or cores is None or not throttled:
        return None
    if facts.seconds < limits.shortest_seconds or throttled < limits.throttled_share * facts.seconds:
        return None
    threads = max(1, math.floor(cores))
    text = f'The CPU quota of {_counted(cores, "core")} throttled the run for {throttled:,.0f} s. '
    text += f'Use {_counted(threads, "thread")}, or raise the quota.'
    return _advice('cpu_throttled', text, quota_throttled_seconds=throttled, cores_allowed=cores, seconds=facts.seconds)


def slow_rank(facts: Facts, limits: Thresholds) -> Advice | None:
    """Report a rank that worked much longer than the others."""
    if not facts.ranks:
        return None
    middle = _median(rank.seconds for rank in facts.ranks)
    slowest = max(facts.ranks, key=lambda rank: rank.seconds)
    if slowest.seconds < max(limits.slow_rank_factor * middle, middle + limits.slow_rank_seconds):
        return None
    node = '' if slowest.node is None else f' on {slowest.node}'
    text = f'Rank {slowest.rank}{node} took {_duration(slowest.seconds)}, the median rank {_duration(middle)}.'
    return _advice('slow_rank', text, rank=slowest.rank, seconds=slowest.seconds, median_seconds=middle)


def gpu_idle(facts: Facts, limits: Thresholds) -> Advice | None:
    """Report the most idle GPU, and the region in which it was idle."""
    known = [(used, gpu) for gpu in facts.gpus if not gpu.is_unused and (used := gpu.used_percent) is not None]
    if not known:
        return None
    used, gpu = min(known, key=lambda one: one[0])
    idle, idle_seconds = 100 - used, (100 - used) / 100 * facts.seconds
    if idle < limits.gpu_idle_percent or idle_seconds < limits.gpu_idle_seconds:
        return None
    name = 'GPU' if (facts.machine_gpus or len(facts.gpus)) == 1 else f'GPU {gpu.index}'
    the = 'the ' if name == 'GPU' else ''
    text = f'{the}{name} was idle {idle:.0f} % of the time'
    if gpu.others_used:
        text = f'the run left {the}{name} unused {idle:.0f} % of the time'
    text = text[0].upper() + text[1:] + _idle_region(gpu, idle_seconds, facts, limits)
    return _advice('gpu_idle', text, gpu=gpu.index, idle_percent=idle, idle_seconds=idle_seconds)


def request_memory(facts: Facts, limits: Thresholds) -> Advice | None:
    """Propose a request of memory from the peak of the run, and of cores if these were unused too."""
    words = BATCH_SYSTEMS.get(facts.batch or '')
    requested = facts.ram_requested_bytes or facts.ram_allowed_bytes
    is_of_group = facts.ram_is_lower_bound
    peak = facts.cgroup_peak_bytes if is_of_group else facts.ram_peak_bytes
    if words is None or not requested or peak is None or not _is_basis_of_memory(facts, limits):
        return None
    if is_of_group and peak >= limits.cache_share * (facts.ram_allowed_bytes or requested):
        return None
    proposed = rounded_memory(peak * (1 + limits.memory_margin))
    is_large = requested >= limits.memory_factor * proposed and requested - proposed >= limits.memory_bytes
    if not is_large and peak < limits.memory_scarce_share * requested:
        return None
    text = f'The {"control group" if is_of_group else facts.noun} used {_size(peak)} of {_size(requested)} memory'
    text += ' on its fullest node' if facts.is_job else ''
    flags = words.memory.format(memory_text(proposed, words))
    cores = _cores_needed(facts, limits)
    if cores is not None:
        text += f' and {_cores_used(facts)}'
        flags += f' {words.cores.format(cores)}' if facts.batch != 'kubernetes' else f', {words.cores.format(cores)}'
    return _advice(
        'request_memory',
        f'{text}. {_NEXT}{flags}',
        peak_bytes=peak,
        requested_bytes=requested,
        proposed_bytes=proposed,
        cores_max=None if cores is None else facts.cores_max,
        cores_allowed=None if cores is None else facts.cores_allowed,
        proposed_cores=cores,
    )


def cores_unused(facts: Facts, limits: Thresholds) -> Advice | None:
    """Propose fewer cores if :func:`request_memory` does not."""
    words, cores = BATCH_SYSTEMS.get(facts.batch or ''), _cores_needed(facts, limits)
    if words is None or cores is None or request_memory(facts, limits) is not None:
        return None
    text = f'The {facts.noun} used {_cores_used(facts)}. {_NEXT}{words.cores.format(cores)}'
    return _advice(
        'cores_unused', text, cores_max=facts.cores_max, cores_allowed=facts.cores_allowed, proposed_cores=cores
    )


def time_limit_hardly_used(facts: Facts, limits: Thresholds) -> Advice | None:
    """Propose a shorter time limit."""
    limit, (used, _) = facts.time_limit_seconds, _time_used(facts)
    if not facts.has_succeeded or limit is None or limit < limits.time_limit_seconds:
        return None
    if facts.seconds < limits.shortest_seconds or used >= limits.time_unused_share * limit:
        return None
    return _advice('time_limit_hardly_used', _of_limit(facts, limits), seconds=used, time_limit_seconds=limit)


RULES: tuple[Rule, ...] = (
    out_of_memory,
    time_limit,
    gpu_memory_full,
    ram_grows,
    swapped,
    major_faults,
    gpu_unused,
    cpu_throttled,
    slow_rank,
    gpu_idle,
    request_memory,
    cores_unused,
    time_limit_hardly_used,
)
"""All rules, the most urgent first."""


def advise(facts: Facts, site: Site | None = None) -> tuple[Advice, ...]:
    """Return the advice of all rules.

    :param site: The settings of the site; None: they are read from its file.
    """
    site = read_site([rule.__name__ for rule in RULES]) if site is None else site
    found = [advice for rule in RULES if (advice := rule(facts, site.thresholds)) is not None]
    for place, one in enumerate(found):
        if one.rule in site.sentences:
            found[place] = replace(one, text=f'{one.text.removesuffix(".")}. {site.sentences[one.rule]}')
    return (*found, *([] if site.problem is None else [_advice('site_file', site.problem)]))


def _advice(rule: str, text: str, **figures: float | None) -> Advice:
    return Advice(rule, text, {name: number for name, number in figures.items() if number is not None})


def _is_basis_of_memory(facts: Facts, limits: Thresholds) -> bool:
    """Return whether the peak of the run says what it needs."""
    if not facts.has_succeeded or facts.seconds < limits.shortest_seconds or facts.swap_peak_bytes != 0:
        return False
    if (facts.shmem_growth_bytes or 0) > limits.memory_margin * (facts.ram_peak_bytes or 0):
        return False  # files in memory may count against the limit, and are in no process
    return (facts.cgroup_own or not facts.ram_is_lower_bound) and ram_grows(facts, limits) is None


def _growth(sizes: Sequence[float], facts: Facts, limits: Thresholds) -> float | None:
    """Return the growth per step in the later half of some sizes; None if they do not grow steadily.

    The slope is the median of the slopes between any two of them (Theil-Sen), which outliers do not move.
    """
    if len(sizes) < max(limits.growth_points, _FEWEST_POINTS) or facts.ram_peak_bytes is None:
        return None
    later = sizes[len(sizes) // 2 :]
    stride = math.ceil(len(later) / _MOST_POINTS)
    later = later[::stride]
    last = len(later) - 1
    steps = [after - before for before, after in pairwise(later)]
    slope = _median((later[j] - later[i]) / (j - i) for i in range(last) for j in range(i + 1, last + 1))
    growth = slope * last
    middle = len(later) // 2
    lows_rise = min(later[middle:]) - min(later[:middle]) >= limits.growth_low_share * growth
    is_steady = lows_rise and max(steps) <= limits.growth_largest_step * slope
    is_large = growth >= max(limits.growth_bytes, limits.growth_share * facts.ram_peak_bytes)
    return slope / stride if is_steady and is_large else None


def _median(numbers: Iterable[float]) -> float:
    """Return the median; statistics.median takes 10 ms to import."""
    found = sorted(numbers)
    return (found[(len(found) - 1) // 2] + found[len(found) // 2]) / 2


def _cores_needed(facts: Facts, limits: Thresholds) -> int | None:
    """Return how many cores the run needs if it left at least half of its reserved ones unused."""
    used, allowed = facts.cores_max, facts.cores_allowed
    if not (facts.has_succeeded or facts.was_stopped_at_limit) or facts.seconds < limits.shortest_seconds:
        return None
    if facts.batch is None or facts.cores_allowed_by in {'machine', None} or used is None or allowed is None:
        return None
    needed = max(1, math.ceil(round(used - limits.cores_tolerance, 6)))
    # Spare cores may be what an idle GPU waits for.
    return needed if needed <= limits.cores_share * allowed and gpu_idle(facts, limits) is None else None


def _cores_used(facts: Facts) -> str:
    per_rank = ' in any rank' if facts.is_job else ''
    return f'at most {facts.cores_max:.1f} of {facts.cores_allowed:g} cores{per_rank}'


def _idle_region(gpu: GPUFacts, idle_seconds: float, facts: Facts, limits: Thresholds) -> str:
    """Return the end of the sentence about an idle GPU: in which region it was idle."""
    if sum(not one.is_unused for one in facts.gpus) > 1:
        return '.'  # regions have the mean of all
    is_own = gpu.own_util_mean_percent is not None and gpu.others_used
    for region in facts.regions:
        busy = region.gpu_own_busy_percent if is_own else region.gpu_busy_percent
        if busy is None or region.seconds * (100 - busy) / 100 <= limits.region_share * idle_seconds:
            continue
        text = f', during {region.name}.'
        cores, allowed = region.cores_mean, facts.cores_allowed
        if cores is not None and allowed is not None and cores <= limits.cores_share * allowed:
            text += f' {region.name} used {cores:.1f} of {allowed:g} cores.'
        return text
    return '.'


def _time_used(facts: Facts) -> tuple[float, str]:
    """Return the time that counts against the limit of the job, and whose it is."""
    before = (facts.job_seconds or 0) - facts.seconds
    return (facts.seconds, facts.noun) if before < _SECONDS_BELOW else (facts.seconds + before, 'job')


def _of_limit(facts: Facts, limits: Thresholds) -> str:
    used, who = _time_used(facts)
    flag = _time_flag(facts, used * (1 + limits.time_margin), limits)
    return f'The {who} took {_duration(used)} of its limit of {_duration(facts.time_limit_seconds or 0)}.{flag}'


def _time_flag(facts: Facts, seconds: float, limits: Thresholds, hint: str = '') -> str:
    words = BATCH_SYSTEMS.get(facts.batch or '')
    if words is None or not words.time:
        return ''
    rounded = math.ceil(seconds / limits.time_step_seconds) * limits.time_step_seconds
    return f' {_NEXT}{hint}{words.time.format(time_text(rounded))}'


def _size(size: float) -> str:
    """Return a size with three digits, such as ``5.20 GB``."""
    number, unit = (size / 1e9, 'GB') if size >= 1e9 else (size / 1e6, 'MB')  # noqa: PLR2004 - a gigabyte
    decimals = 2 if number < 10 else 1 if number < 100 else 0  # noqa: PLR2004 - digits before the point
    return f'{number:.{decimals}f} {unit}'


def _counted(number: float, noun: str) -> str:
    return f'{number:g} {noun}{"" if number == 1 else "s"}'


def _duration(seconds: float) -> str:
    """Return a time such as ``96 s``, ``21 min`` or ``1 h 53 min``."""
    if seconds < _SECONDS_BELOW:
        return f'{seconds:.0f} s'
    hours, minutes = divmod(round(seconds / 60), 60)
    return f'{hours} h {minutes:02d} min' if hours else f'{minutes} min'
