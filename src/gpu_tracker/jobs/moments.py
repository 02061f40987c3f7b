"""Sums over what several ranks had at one moment, and of readings of which those at the same time count once. Pure."""

from __future__ import annotations

import heapq
from itertools import pairwise

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
    """Return what a counter has grown by that several have read, each at times of its own.

    Where readings overlap, the longest one counts, and its growth is taken for steady: of 100 short programs one after
    the other, of which each overlaps with the next a little, all count but for the overlaps.

    :param readings: From when to when, and by how much it grew in between.
    """
    spans = sorted((start, stop, value / (stop - start)) for start, stop, value in readings if stop > start)
    moments = sorted({moment for start, stop, _ in spans for moment in (start, stop)})
    total = 0.0
    open_now: list[tuple[float, float, float]] = []
    place = 0
    for moment, following in pairwise(moments):
        while place < len(spans) and spans[place][0] <= moment:
            start, stop, rate = spans[place]
            heapq.heappush(open_now, (start - stop, stop, -rate))
            place += 1
        while open_now and open_now[0][1] <= moment:
            heapq.heappop(open_now)
        if open_now:
            total -= open_now[0][2] * (following - moment)
    return max(total, *(value for *_, value in readings), 0.0)
