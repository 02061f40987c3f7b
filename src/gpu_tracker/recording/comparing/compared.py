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
    """One compared run. ``path`` is the file of the recording. ``started`` is in ISO 8601, UTC.

    ``is_complete`` is True if a normal end was recorded.
    """

    path: str
    started: str | None
    is_complete: bool
    exit_code: int | None


@dataclass(frozen=True, slots=True)
class Group:
    """A group of runs (``name``). ``runs`` is a tuple of :class:`.ComparedRun`."""

    name: str
    runs: tuple[ComparedRun, ...]


@dataclass(frozen=True, slots=True)
class GroupValues:
    """One figure in one ``group`` of runs. ``values`` has the figure of each run.

    :ivar mean: Geometric mean of the values, or None if a value is unknown, zero or negative.
    :ivar is_lower_bound: Whether the figure of any run may be too low.
    """

    group: str
    values: tuple[float | None, ...]
    mean: float | None
    is_lower_bound: bool = False


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """One figure of two groups, compared. ``first`` and ``other`` are :class:`.GroupValues`.

    :ivar name: Name of the figure, such as ``max_ram.combined.total_rss`` or ``regions.load.wall_time``.
    :ivar unit: ``bytes``, ``seconds``, ``percent``, ``joules``, ``count`` or ``bytes/s``.
    :ivar ratio: Mean of the other group divided by the mean of the first group, or None if there is a ``problem``.
    :ivar low: Lower end of the 95 % confidence interval of ``ratio``. ``high`` is the upper end. Both are None if a
        group has only one run.
    :ivar verdict: ``larger`` or ``smaller`` if the interval excludes 1, ``unclear`` if the interval includes 1,
        ``unchanged`` if all values are equal, None without an interval.
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
    """A setting or fact that differs between groups (``name``, such as ``host``), and its ``values``."""

    name: str
    values: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class UnpairedRegion:
    """A region that is ``present`` in some groups and ``missing`` in others."""

    name: str
    present: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a check. ``expression`` is the checked condition, and ``text`` explains the result.

    :ivar passed: False if the condition applies or cannot be decided, for example because a figure is unknown.
    """

    expression: str
    passed: bool
    text: str
