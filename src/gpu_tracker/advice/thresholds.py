"""The thresholds of the rules, in one table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a rule applies, and what it proposes. Shares are of 1.

    :ivar shortest_seconds: Shorter runs are no basis for a request.
    :ivar memory_margin: Added to the peak of memory.
    :ivar memory_factor: A request is too large from this many times the proposed one.
    :ivar memory_bytes: And it is this much larger.
    :ivar memory_scarce_share: A request is too small if the peak is this share of it.
    :ivar cache_share: A control group that reached this share of its limit may be full of file cache.
    :ivar cores_share: Cores are unused if the most used is at most this share of the allowed cores.
    :ivar cores_tolerance: Parts of a core that need no further core.
    :ivar time_scarce_share: A time limit is nearly reached.
    :ivar time_unused_share: A time limit is hardly used.
    :ivar time_limit_seconds: Only time limits from this on are too long.
    :ivar time_margin: Added to the time that a run took.
    :ivar time_step_seconds: Proposed time limits are multiples of it.
    :ivar gpu_memory_share: The memory of a GPU is full.
    :ivar gpu_idle_percent: A GPU was idle for this part of the time.
    :ivar gpu_idle_seconds: And for this long.
    :ivar region_share: A region with this share of the idle time is named.
    :ivar growth_points: Calls or minutes that show a growth.
    :ivar growth_bytes: The growth in the later half of them.
    :ivar growth_share: The same as a share of the peak.
    :ivar growth_low_share: The share of the growth by which its second half lies above the first, at their lowest.
    :ivar growth_largest_step: The largest step, as a multiple of the mean step.
    :ivar swap_share: Swapped memory, as a share of the peak of RAM.
    :ivar major_faults_per_second: Page faults that read from disk.
    :ivar throttled_share: Throttled seconds, as a share of the time that the run took.
    :ivar slow_rank_factor: The time of a rank, as a multiple of the median.
    :ivar slow_rank_seconds: And this much longer.
    """

    shortest_seconds: float = 10
    memory_margin: float = 0.15
    memory_factor: float = 2
    memory_bytes: float = 1e9
    memory_scarce_share: float = 0.9
    cache_share: float = 0.95
    cores_share: float = 0.5
    cores_tolerance: float = 0.1
    time_scarce_share: float = 0.9
    time_unused_share: float = 0.1
    time_limit_seconds: float = 3600
    time_margin: float = 0.25
    time_step_seconds: float = 1800
    gpu_memory_share: float = 0.95
    gpu_idle_percent: float = 25
    gpu_idle_seconds: float = 60
    region_share: float = 0.6
    growth_points: float = 6
    growth_bytes: float = 50e6
    growth_share: float = 0.05
    growth_low_share: float = 0.25
    growth_largest_step: float = 3
    swap_share: float = 0.1
    major_faults_per_second: float = 100
    throttled_share: float = 0.05
    slow_rank_factor: float = 1.25
    slow_rank_seconds: float = 60
