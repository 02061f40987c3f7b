"""A run of launches on one stream, and the span of time that it becomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Span(NamedTuple):
    """From the first launch of a run to what closed it."""

    begin: int
    """Nanoseconds of the monotonic clock."""
    end: int
    """Nanoseconds; not before the begin."""
    launches: int
    threads: int
    """Of all launches together."""
    kernels: Mapping[int, int]
    """Launches by the kernel's address: what its kernels' shares of the span are."""
    is_forced: bool = False
    """Whether a bound closed it, and no synchronisation."""

    def clipped(self, begin: int, end: int) -> Span | None:
        """Return the part of it that is in a window; None: there is none."""
        if begin <= self.begin < self.end <= end:  # most are
            return self
        begin = max(begin, self.begin)
        end = min(end, self.end)
        return self._replace(begin=begin, end=end) if begin < end else None


class Run:
    """Launches that nothing has synchronised yet."""

    __slots__ = ('begin', 'kernels', 'launches', 'newest', 'threads')

    def __init__(self, begin: int) -> None:
        self.begin = begin
        """When the first was launched."""
        self.newest = begin
        """When the last was launched."""
        self.launches = 0
        self.threads = 0
        self.kernels: dict[int, int] = {}

    def take_newest(self) -> Run:
        """Return a run of the newest launch alone, and go on without it.

        What one launch was is not kept, so it has the mean threads of all and their kernels.
        """
        newest = Run(self.newest)
        newest.launches = 1
        newest.threads = self.threads // self.launches
        newest.kernels = dict(self.kernels)
        self.launches -= 1
        self.threads -= newest.threads
        return newest

    def take(self, other: Run) -> None:
        """Add the launches of another run."""
        self.begin = min(self.begin, other.begin)
        self.newest = max(self.newest, other.newest)
        self.launches += other.launches
        self.threads += other.threads
        kernels = self.kernels
        for address, launches in other.kernels.items():
            kernels[address] = kernels.get(address, 0) + launches


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
