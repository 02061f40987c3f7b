"""The thresholds of the rules, in one table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a rule applies, and what it proposes. ``deploy/advice.toml`` explains each threshold."""

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
