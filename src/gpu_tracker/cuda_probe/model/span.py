"""Spans of time: runs of launches that become spans, their union, and the times of kernels in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_tracker.cuda_probe.model.window import Losses

Interval = tuple[int, int]
"""Begin and end in nanoseconds; the end is not before the begin."""
MORE_KERNELS = 0
"""The address that stands for all kernels past the limit."""


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


class KernelTimes:
    """The kernels of one process, and their times since they were last asked for.

    :param room: So many kernels are distinguished.
    """

    def __init__(self, room: int, losses: Losses) -> None:
        self._room = room
        self._losses = losses
        self._known: set[int] = set()
        self._times: dict[int, int] = {}

    def admitted(self, address: int) -> int:
        """Return the address by which a kernel is reported: its own, or the one for all that found no room."""
        if address in self._known:
            return address
        if len(self._known) >= self._room:
            self._losses.kernel_launches += 1
            return MORE_KERNELS
        self._known.add(address)
        return address

    def share(self, span: Span) -> None:
        """Share a span's time among its kernels by their launches, to the nanosecond."""
        times = self._times
        time = span.end - span.begin
        if len(span.kernels) == 1:  # most spans, where each launch is waited for
            (address,) = span.kernels
            times[address] = times.get(address, 0) + time
            return
        launches = sum(span.kernels.values())
        before = given = 0
        for address, count in span.kernels.items():
            before += count
            part = time * before // launches - given
            given += part
            times[address] = times.get(address, 0) + part

    def take(self) -> dict[int, int]:
        """Return the nanoseconds by kernel since this was last asked."""
        times, self._times = self._times, {}
        return times
