"""Rates of cumulative counters: the largest and the mean one, and such rates in percent of processing units."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.result import usage

SHORTEST_WINDOW = 0.5
"""Seconds over which the largest rate is taken at least: counters have noise, and maxima pick it."""


class MaximalRate:
    """The largest rate at which a counter has grown over any window of at least :data:`SHORTEST_WINDOW`."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, float, float]] = []
        """For each: when reading it began, when that was done, and the counter."""
        self._first: tuple[float, float] | None = None
        self._last = (0.0, 0.0)
        self._largest = 0.0

    @property
    def amount(self) -> float | None:
        """By how much the counter has grown altogether; None where it was never read."""
        return None if self._first is None else self._last[1] - self._first[1]

    def add(self, now: float, count: float, begun: float | None = None) -> None:
        """Take in the counter that was read between ``begun`` and ``now``.

        Where this took its time, because the machine is busy, it is not known when in between. A window is therefore
        taken from before its first reading to after its last one, so that a largest rate is never more than the truth.
        """
        if self._first is None:
            self._first = (now, count)
        self._last = (now, count)
        samples = self._samples
        samples.append((now if begun is None else begun, now, count))
        latest_start = now - SHORTEST_WINDOW
        while len(samples) > 1 and samples[1][1] <= latest_start:
            del samples[0]
        since, _, before = samples[0]
        # Where there was no sample for a while, a whole window has grown by what part of it has, at least.
        self._largest = max(self._largest, (count - before) / max(now - since, SHORTEST_WINDOW))

    def largest(self) -> float | None:
        """Return the largest rate a second; that of the whole span where this is shorter than one window."""
        if self._first is None or self._last[0] - self._first[0] < SHORTEST_WINDOW:
            return self.mean()
        return self._largest

    def mean(self) -> float | None:
        """Return the rate over the whole span; None where there is no span."""
        if self._first is None or self._last[0] <= self._first[0]:
            return None
        return (self._last[1] - self._first[1]) / (self._last[0] - self._first[0])


_PERCENT = 100.0


def percentages(
    largest: float | None, mean: float | None, units_expected: int | None
) -> usage.ProcessingUnitPercentages:
    """Turn rates, 1.0 being one unit busy all the time, into percent summed and percent of the units expected."""
    from gpu_tracker.result import usage  # noqa: PLC0415 - the sampler needs none of it

    def of_hardware(rate: float | None) -> float | None:
        return None if rate is None or units_expected is None else rate * _PERCENT / units_expected

    return usage.ProcessingUnitPercentages(
        max_sum_percent=None if largest is None else largest * _PERCENT,
        max_hardware_percent=of_hardware(largest),
        mean_sum_percent=None if mean is None else mean * _PERCENT,
        mean_hardware_percent=of_hardware(mean),
    )
