"""The points of time at which samples are due, and the record of how well they were kept."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.resources.budget import OverheadLimit

_LATE = 0.1
"""A sample is late that begins this part of an interval after its point."""
_LEAST_DELAY = 0.002
"""Seconds that any system may take to wake a process: no sample is late with that."""


class Grid:
    """Points an interval apart, fixed in time: where one is missed, those after it stay where they were.

    :param interval: Seconds between two points.
    :param limit: What bounds the CPU time of this process: points for which it does not suffice are skipped.
    """

    def __init__(self, interval: float, limit: OverheadLimit | None = None) -> None:
        self._interval = interval
        self._limit = limit
        self._start = 0.0
        self._point = 1
        self._samples = 0
        self._last_point = 0
        self.late = 0
        """Samples that began later than at their points."""
        self.skipped = 0
        """Points without a sample."""
        self.is_limited = False
        """Some of them were skipped because of the limit."""
        self.mean_interval: float | None = None
        """Seconds between two samples, on average; the last sample counts where points before it had none."""

    @property
    def due(self) -> float:
        """When the next sample is due."""
        return self._start + self._point * self._interval

    @property
    def has_limit(self) -> bool:
        """Whether the user has bounded what sampling may cost."""
        return self._limit is not None

    def begin(self, now: float) -> None:
        """Put the first point an interval after ``now``."""
        self._start = now
        self.begin_limit(now)

    def begin_limit(self, now: float) -> None:
        """Let the limit count from ``now`` on."""
        if self._limit is not None:
            self._limit.begin(now)

    def suspend_limit(self) -> None:
        """Let the limit count nothing for a while."""
        if self._limit is not None:
            self._limit.suspend()

    def sampled(self, begun: float) -> None:
        """Take note that the sample of a point began at ``begun``."""
        self._samples += 1
        self.skipped += self._point - self._last_point - 1
        self._last_point = self._point
        self.late += begun - self.due > max(_LATE * self._interval, _LEAST_DELAY)
        self.mean_interval = (begun - self._start) / self._samples

    def go_on(self, now: float) -> None:
        """Go to the next point that has not passed, and for which the limit suffices."""
        self._point = max(self._point, self._passed(now) + 1)
        if self._limit is not None:
            paid = now + self._limit.seconds_to_next_sample(now)
            affordable = math.ceil((paid - self._start) / self._interval)
            if affordable > self._point:
                self.is_limited = True
                self._point = affordable

    def finish(self, now: float) -> None:
        """Take note of the last sample, which takes the place of a point that has just passed."""
        passed = self._passed(now - _LATE * self._interval)
        if passed > self._last_point:
            self.skipped += passed - self._last_point
            self._last_point = passed
            self.mean_interval = (now - self._start) / (self._samples + 1)

    def _passed(self, now: float) -> int:
        return int((now - self._start) / self._interval)
