"""When to look: each interval, soon after a device was opened, and when something is due."""

from __future__ import annotations

from gpu_tracker.sampler.grid import Grid

_AFTER_OPEN = (0.0, 0.03, 0.15, 0.5, 1.5)
"""Seconds after a device was opened at which to look.

The kernel tells of an open before the process has its descriptor, and a driver lists a process only when it has made a
context, some tenths of a second later.
"""
_LEAST_PAUSE = 0.02
"""Seconds between two looks."""
_LARGEST_SHARE = 0.05
"""Of one core, that looks between the grid's points may take in the long run: somebody may open devices again and
again."""
_MOST_SAVED = 0.25
"""CPU seconds of that share that may be saved up, so that who opens a device now and then is looked at without delay: a
look takes 0.01 s where there are 2,000 processes."""


class Pace:
    """Tells when the next look is due.

    :param interval: Seconds between two looks if nothing happens.
    :param now: Monotonic seconds.
    """

    def __init__(self, interval: float, now: float) -> None:
        self._grid = Grid(interval)
        self._grid.begin(now - interval)
        self._extra: list[float] = []
        self._moment: float | None = None
        self._not_before = now
        self._saved = _MOST_SAVED
        self._saved_at = now

    @property
    def due(self) -> float:
        """When the next look is due, in monotonic seconds."""
        extra = [*self._extra[:1], *([] if self._moment is None else [self._moment])]
        return min(self._grid.due, max(self._not_before, min(extra))) if extra else self._grid.due

    def hurry(self, now: float) -> None:
        """Look as soon as may be: something has changed."""
        self._extra = sorted({now, *self._extra})

    def at(self, moment: float | None) -> None:
        """Look at a moment, and no longer at that which was set before; None: at none."""
        self._moment = moment

    def opened(self, now: float) -> None:
        """Look now, and again until whoever has opened a device is to be seen."""
        later = [when for when in self._extra if when <= now]
        self._extra = sorted({*later, *(now + delay for delay in _AFTER_OPEN)})

    def looked(self, begun: float, ended: float, cost: float) -> None:
        """Take note of a look, and of the CPU seconds that it has cost."""
        self._extra = [when for when in self._extra if when > begun]
        self._saved = min(_MOST_SAVED, self._saved + _LARGEST_SHARE * (ended - self._saved_at))
        self._saved_at = ended
        if begun >= self._grid.due:
            self._grid.go_on(ended)
        else:
            self._saved -= cost
        self._not_before = ended + max(_LEAST_PAUSE, -self._saved / _LARGEST_SHARE)
