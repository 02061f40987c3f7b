"""The last minutes of one figure in constant memory, and the rates of counters. Pure."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    Point = tuple[float, float | None]
    """A time in seconds, and the largest value around it."""

LONGEST = 300.0
"""Seconds that are kept."""
_RESOLUTION = 0.5
"""Seconds of which one value is kept: the largest."""
_RATE_SPAN = 0.9
"""Seconds over which a rate is taken at least: CPU time grows in ticks of 10 ms, and samples a second apart jitter."""


class Series:
    """What a figure was in the last minutes.

    :ivar last: Its value at the last sample; None where unknown.
    :ivar last_known: The last value that was known.
    :ivar peak: The largest of all values; None where none was known.
    """

    def __init__(self) -> None:
        self.last: float | None = None
        self.last_known: float | None = None
        self.peak: float | None = None
        self._slots: deque[tuple[int, float | None]] = deque(maxlen=round(LONGEST / _RESOLUTION) + 1)

    def add(self, t: float, value: float | None) -> None:
        """Add the value at ``t`` seconds; they come in the order of time."""
        self.last = value
        if value is not None:
            self.last_known = value
            self.peak = value if self.peak is None else max(value, self.peak)
        slot = int(t / _RESOLUTION)
        if not self._slots or self._slots[-1][0] != slot:
            self._slots.append((slot, value))
            return
        before = self._slots[-1][1]
        if before is None or (value is not None and value > before):
            self._slots[-1] = slot, value

    def points(self) -> list[Point]:
        """Return what was kept, in the order of time."""
        return [(slot * _RESOLUTION, value) for slot, value in self._slots]


class Rate:
    """What a counter has grown by in a second."""

    def __init__(self) -> None:
        self._before: deque[tuple[float, float]] = deque()

    def at(self, t: float, total: float | None) -> float | None:
        """Return the rate at ``t`` seconds, where the counter is ``total``; None where it is not known.

        It is the mean over the last second, or since the sample before where that is longer ago.
        """
        if total is None:
            self._before.clear()
            return None
        before = self._before
        while len(before) > 1 and before[1][0] <= t - _RATE_SPAN:
            before.popleft()
        rate = None
        if before and t > before[0][0]:
            rate = max(0.0, total - before[0][1]) / (t - before[0][0])
        before.append((t, total))
        return rate


def window_of(elapsed: float, windows: Sequence[float] = (30.0, 60.0, 120.0, LONGEST)) -> float:
    """Return how many seconds are shown of a run that has gone on for ``elapsed`` seconds."""
    return next((window for window in windows if elapsed <= window), windows[-1])


def columns_of(points: Sequence[Point], until: float, window: float, count: int) -> list[float | None]:
    """Return the last ``window`` seconds before ``until`` as ``count`` values, each the largest of its part.

    Parts begin at multiples of their length, so that a value stays in its part from one drawing to the next. A value
    holds until the next one; None where there was none yet, or it was not known.
    """
    length = window / count
    last = int(until / length)
    found: dict[int, float | None] = {}
    held: float | None = None
    for t, value in points:
        place = int(t / length) - last + count - 1
        if place < 0:
            held = value
        elif place < count:
            before = found.get(place)
            found[place] = value if before is None or (value is not None and value > before) else before
    result: list[float | None] = []
    for place in range(count):
        held = found.get(place, held)
        result.append(held)
    return result
