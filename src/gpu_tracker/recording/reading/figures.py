"""What was used between two moments, from samples that were made at others: estimates, and what is certain of them.

All of it is pure: arrays in, figures out. A counter is read off between two samples as if it had grown evenly there.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.recording.reading.model import Bounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_BLOCK = 64
"""Values of which the largest is kept, and again of those."""


class Edges(NamedTuple):
    """Where a span of time lies among samples, as indices of these; -1 or their number where there is none.

    :ivar before: The last sample that is not later than the start.
    :ivar first: The first sample that is not earlier than the start.
    :ivar last: The last sample that is not later than the stop.
    :ivar after: The first sample that is not earlier than the stop.
    """

    before: int
    first: int
    last: int
    after: int


def edges(times: Sequence[float], start: float, stop: float) -> Edges:
    """Return where the span from ``start`` to ``stop`` lies among ``times``, which are sorted."""
    return Edges(
        bisect_right(times, start) - 1,
        bisect_left(times, start),
        bisect_right(times, stop) - 1,
        bisect_left(times, stop),
    )


class Counter:
    """A figure that only grows, at some moments.

    :ivar times: Those at which it is known. Counters that are known at the same ones share them.
    """

    __slots__ = ('_values', 'times')

    def __init__(self, times: array[float], values: array[float]) -> None:
        """Take values at ``times``, NaN where unknown; one that is smaller than an earlier one counts as that one."""
        if any(map(math.isnan, values)):
            known = [index for index, value in enumerate(values) if not math.isnan(value)]
            times, values = (
                array('d', [times[index] for index in known]),
                array('d', [values[index] for index in known]),
            )
        if any(later < earlier for earlier, later in pairwise(values)):
            values = _never_falling(values)
        self.times = times
        self._values = values

    def between(self, start: float, stop: float, place: Edges) -> Bounded:
        """Return how much it grew.

        :param place: What :func:`edges` says of :attr:`times`.
        """
        values = self._values
        count = len(values)
        lower = values[place.last] - values[place.first] if place.first < place.last else 0.0
        upper = values[place.after] - values[place.before] if place.before >= 0 and place.after < count else None
        if count < 2 or stop < self.times[0] or start > self.times[-1]:  # noqa: PLR2004 - one sample shows no growth
            return Bounded(None, lower, upper)
        value = max(lower, self._at(stop) - self._at(start))
        return Bounded(value if upper is None else min(value, upper), lower, upper)

    def _at(self, time: float) -> float:
        times, values = self.times, self._values
        after = bisect_right(times, time)
        if after == 0:
            return values[0]
        if after == len(times):
            return values[-1]
        begin = times[after - 1]
        share = (time - begin) / (times[after] - begin)
        return values[after - 1] + (values[after] - values[after - 1]) * share


def of_folded(found: Bounded, share: float) -> Bounded:
    """Return what calls used that took ``share`` of the time in which ``found`` was used: an estimate."""
    value = None if found.value is None else found.value * min(1.0, share)
    return Bounded(value, 0.0, found.upper)


def of_unfinished(found: Bounded) -> Bounded:
    """Return what is certain of what has not ended where ``found`` was used up to its last sign of life."""
    return Bounded(None, found.lower, None)


class Maxima:
    """The largest of any part of a series, without reading all of that part.

    :param values: NaN where unknown.
    """

    __slots__ = ('_levels',)

    def __init__(self, values: Iterable[float]) -> None:
        level = array('d', [-math.inf if math.isnan(value) else value for value in values])
        self._levels = [level]
        while len(level) > _BLOCK:
            level = array('d', [max(level[begin : begin + _BLOCK]) for begin in range(0, len(level), _BLOCK)])
            self._levels.append(level)

    def largest(self, first: int, last: int) -> float | None:
        """Return the largest value from index ``first`` to ``last``; None where none is known there."""
        found = -math.inf
        first = max(first, 0)
        end = max(first, min(last + 1, len(self._levels[0])))
        for level in self._levels:
            if end - first <= 2 * _BLOCK:
                return _known(max(found, max(level[first:end], default=-math.inf)))
            begin_of_blocks, end_of_blocks = -(-first // _BLOCK), end // _BLOCK
            found = max(
                found,
                max(level[first : begin_of_blocks * _BLOCK], default=-math.inf),
                max(level[end_of_blocks * _BLOCK : end], default=-math.inf),
            )
            first, end = begin_of_blocks, end_of_blocks
        return _known(found)


class Weighted(NamedTuple):
    """A mean over time.

    :ivar mean: None where nothing is known.
    :ivar coverage: The share of the time of which it is known.
    :ivar samples: How many samples it is from.
    """

    mean: float | None
    coverage: float
    samples: int


class Steps:
    """A figure each of whose values is the mean since the sample before.

    :param values: NaN where unknown, also at the first sample.
    """

    __slots__ = ('_areas', '_counts', '_known', '_times', '_values')

    def __init__(self, times: array[float], values: array[float]) -> None:
        self._times = times
        self._values = values
        self._areas, self._known, self._counts = array('d', [0.0]), array('d', [0.0]), array('q', [0])
        for (begin, end), value in zip(pairwise(times), values[1:], strict=True):
            is_known = not math.isnan(value)
            self._areas.append(self._areas[-1] + (value * (end - begin) if is_known else 0.0))
            self._known.append(self._known[-1] + (end - begin if is_known else 0.0))
            self._counts.append(self._counts[-1] + is_known)

    def between(self, start: float, stop: float) -> Weighted:
        """Return the mean from ``start`` to ``stop``, each value weighted by the time that it is of."""
        if not self._times or stop <= start:
            return Weighted(None, 0.0, 0)
        first = max(bisect_right(self._times, start), 1)
        last = min(bisect_left(self._times, stop), len(self._times) - 1)
        samples = self._counts[last] - self._counts[first - 1] if last >= first else 0
        if samples == 0:
            return Weighted(None, 0.0, 0)
        (area_before, known_before), (area, known) = self._at(start), self._at(stop)
        length = known - known_before
        if length <= 0:
            return Weighted(None, 0.0, 0)
        return Weighted(max(0.0, (area - area_before) / length), min(1.0, length / (stop - start)), samples)

    def _at(self, time: float) -> tuple[float, float]:
        """Return the sum of values times seconds, and the seconds of known values, up to a moment."""
        index = bisect_left(self._times, time)
        if index == 0:
            return 0.0, 0.0
        if index == len(self._times):
            return self._areas[-1], self._known[-1]
        value, since = self._values[index], time - self._times[index - 1]
        if math.isnan(value):
            return self._areas[index - 1], self._known[index - 1]
        return self._areas[index - 1] + value * since, self._known[index - 1] + since


def peak(before: float | None, after: float | None, largest_sample: float | None) -> Bounded | None:
    """Return the most RAM of a process in a span of time.

    :param before: Its high-water mark at the begin: the most that it had ever had.
    :param after: The same at the end. Where it rose, the peak was in between, and is this.
    :param largest_sample: The most that any sample in between has seen.
    """
    if after is not None and before is not None and after > before:
        return Bounded(after, after, after)
    if after is None and largest_sample is None:
        return None
    lower = largest_sample
    if lower is not None and after is not None:
        lower = min(lower, after)  # the kernel's counters of resident pages are not exact to the page
    return Bounded(lower if lower == after else None, lower, after)


def _never_falling(values: array[float]) -> array[float]:
    found = array('d')
    largest = -math.inf
    for value in values:
        largest = max(largest, value)
        found.append(largest)
    return found


def _known(value: float) -> float | None:
    return None if value == -math.inf else value
