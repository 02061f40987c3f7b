"""Sums over what several ranks had at one moment, and of readings of which those at the same time count once. Pure."""

from __future__ import annotations

import heapq

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def largest_sum(series: Sequence[Sequence[tuple[float, float]]]) -> float | None:
    """Return the largest sum at any moment.

    :param series: Of each rank, pairs of a time and what it has from then on, in the order of time; the last one has 0.
    """
    largest: float | None = None
    total = 0.0
    at: float | None = None
    for time, change in heapq.merge(*map(_changes, series)):
        if at is not None and time != at:
            largest = total if largest is None else max(largest, total)
        total += change
        at = time
    return largest


def _changes(points: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    before = 0.0
    for time, value in points:
        yield time, value - before
        before = value


def largest_sum_of_bounds(spans: Sequence[tuple[float, float]], bounds: Sequence[float]) -> float:
    """Return the largest sum of the bounds of what was there at once.

    :param spans: When each was there; one that begins when another ends was not there with it.
    :param bounds: The bound of each.
    """
    events = [(start, 1, bound) for (start, _), bound in zip(spans, bounds, strict=True)]
    events += [(stop, 0, -bound) for (_, stop), bound in zip(spans, bounds, strict=True)]
    largest = total = 0.0
    for _, _, change in sorted(events):
        total += change
        largest = max(largest, total)
    return largest


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the time that is in any of the spans."""
    total = 0.0
    until = float('-inf')
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, until))
        until = max(until, stop)
    return total


def once(readings: Sequence[tuple[float, float, float]]) -> float:
    """Return what a counter has grown by that several have read.

    :param readings: From when to when, and by how much it grew in between. Of readings that overlap the largest counts.
    """
    total = largest = 0.0
    until: float | None = None
    for start, stop, value in sorted(readings):
        if until is not None and start < until:
            largest = max(largest, value)
            until = max(until, stop)
        else:
            total += largest
            largest, until = value, stop
    return total + largest
