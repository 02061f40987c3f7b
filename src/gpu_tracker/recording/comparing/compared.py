"""What a comparison of groups of runs consists of, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

LARGER = 'larger'
"""The verdict where the whole interval of a ratio lies above 1."""
SMALLER = 'smaller'
"""Where it lies below 1."""
UNCHANGED = 'unchanged'
"""Where all runs of both groups have the same value."""
UNCLEAR = 'unclear'
"""Where 1 is in the interval: the runs of a group differ too much from each other, or the groups too little."""

LEAST_CHANGE = 0.01
"""Smaller differences of a figure are none where no interval says more."""


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run of a group.

    :ivar path: Its recording.
    :ivar started: The date of its first sample, ISO 8601 in UTC.
    :ivar is_complete: The recording has all of the run.
    :ivar exit_code: The exit code of its command.
    """

    path: str
    started: str | None
    is_complete: bool
    exit_code: int | None


@dataclass(frozen=True, slots=True)
class Group:
    """Runs of the same thing.

    :ivar name: What the group was named.
    :ivar runs: Its runs, one at least.
    """

    name: str
    runs: tuple[ComparedRun, ...]


@dataclass(frozen=True, slots=True)
class GroupValues:
    """What a figure was in the runs of a group.

    :ivar group: The name of the group.
    :ivar values: Its value in each run, in base units; None is unknown.
    :ivar mean: Their geometric mean; None if one is unknown or not above 0.
    :ivar is_lower_bound: One of the values may be too low, and so may be the mean.
    """

    group: str
    values: tuple[float | None, ...]
    mean: float | None
    is_lower_bound: bool = False


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """A figure in the first group and in another.

    :ivar name: Its name, such as ``max_ram.combined.total_rss`` or ``regions.load.wall_time``.
    :ivar unit: Its base unit: ``bytes``, ``seconds``, ``percent``, ``joules``, ``count`` or ``bytes/s``.
    :ivar first: What it was in the first group.
    :ivar other: What it was in the other one.
    :ivar ratio: The mean of the other group divided by that of the first: 1.25 for a quarter more.
    :ivar low: The lower end of the 95 % interval of the ratio; None if a group has one run only.
    :ivar high: The upper end.
    :ivar verdict: ``larger`` or ``smaller`` where 1 is not in the interval, ``unchanged`` where all runs have the same
        value, else ``unclear``; None without an interval.
    :ivar problem: Why there is no ratio; None if there is one.
    """

    name: str
    unit: str
    first: GroupValues
    other: GroupValues
    ratio: float | None
    low: float | None
    high: float | None
    verdict: str | None
    problem: str | None

    @property
    def has_changed(self) -> bool:
        """Whether the verdict says so. Without one: the ratio is 1 % or more from 1, or the values differ."""
        if self.verdict is not None:
            return self.verdict in {LARGER, SMALLER}
        if self.ratio is not None:
            return abs(self.ratio - 1) >= LEAST_CHANGE
        return {*self.first.values} != {*self.other.values}


@dataclass(frozen=True, slots=True)
class Difference:
    """Something beside the figures in which runs differ, and which may be why their figures do.

    :ivar name: What differs: ``host``, ``program`` (the version of gpu-tracker), ``python``, ``command`` and so on.
    :ivar values: The name of each group, with all that its runs have.
    """

    name: str
    values: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class UnpairedRegion:
    """A region that not all groups have.

    :ivar name: Its name.
    :ivar present: The groups with a run that has it.
    :ivar missing: The groups without one.
    """

    name: str
    present: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """What the check of a condition has found.

    :ivar expression: The condition as it was given.
    :ivar passed: It does not apply, and all that it needs is known.
    :ivar text: A line that says so, or what grew by how much.
    """

    expression: str
    passed: bool
    text: str
