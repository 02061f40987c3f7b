"""Times that were covered, each moment once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Interval = tuple[int, int]
"""Begin and end in nanoseconds; the end is not before the begin."""


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the moments that are in any of the intervals, as intervals in order that do not touch."""
    joined: list[Interval] = []
    last_begin = last_end = None
    for begin, end in sorted(intervals):
        if begin == end:
            continue
        if last_begin is None or last_end is None:
            last_begin, last_end = begin, end
        elif begin > last_end:
            joined.append((last_begin, last_end))
            last_begin, last_end = begin, end
        elif end > last_end:
            last_end = end
    if last_begin is not None and last_end is not None:
        joined.append((last_begin, last_end))
    return joined


def length(disjoint: Iterable[Interval]) -> int:
    """Return the nanoseconds of intervals that do not overlap, as :func:`union` returns them."""
    return sum(end - begin for begin, end in disjoint)
