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
    """A run of a group: ``path`` of its recording, ``started`` (ISO 8601, UTC), ``is_complete``, ``exit_code``."""

    path: str
    started: str | None
    is_complete: bool
    exit_code: int | None


@dataclass(frozen=True, slots=True)
class Group:
    """A group: its ``name`` and its ``runs`` (:class:`.ComparedRun`)."""

    name: str
    runs: tuple[ComparedRun, ...]


@dataclass(frozen=True, slots=True)
class GroupValues:
    """One figure in one ``group`` of runs. ``values`` are the figure of each run, in base units.

    :ivar mean: Geometric mean of the values; None if a value is unknown or not above 0.
    :ivar is_lower_bound: Whether a value may be too low.
    """

    group: str
    values: tuple[float | None, ...]
    mean: float | None
    is_lower_bound: bool = False


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """One figure in the ``first`` group and in the ``other`` group, as :class:`.GroupValues`.

    :ivar name: Name of the figure, such as ``max_ram.combined.total_rss`` or ``regions.load.wall_time``.
    :ivar unit: ``bytes``, ``seconds``, ``percent``, ``joules``, ``count`` or ``bytes/s``.
    :ivar ratio: Mean of the other group divided by the mean of the first; None if there is a ``problem``.
    :ivar low: Lower end of the ratio's 95 % interval. ``high`` is the upper end. Both groups need two runs for it.
    :ivar verdict: ``larger`` or ``smaller``; ``unclear`` if 1 is in the interval; ``unchanged`` if all values are
        equal. None without an interval.
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
    """A difference in something that is not a figure: its ``name``, such as ``host``, and the ``values`` by group."""

    name: str
    values: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class UnpairedRegion:
    """The ``name`` of a region, and the groups in which the region is ``present`` and ``missing``."""

    name: str
    present: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of checking a condition: the ``expression`` of the condition, and a ``text`` for people.

    :ivar passed: True if the condition does not apply and all needed figures are known.
    """

    expression: str
    passed: bool
    text: str
