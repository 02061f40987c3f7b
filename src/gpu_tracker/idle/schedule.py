"""When to poll: each interval, soon after a device was opened, and when time alone changes what is to be done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.sampler.grid import Grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.idle.config.idle_settings import Program
    from gpu_tracker.idle.state import State

_AFTER_OPEN = (0.0, 0.03, 0.15, 0.5, 1.5)
"""Seconds after a device was opened at which to poll.

The kernel reports an open before the process has its descriptor, and a driver lists a process only when it has made a
context, some tenths of a second later.
"""
_LEAST_PAUSE = 0.02
"""Seconds between two polls."""
_LARGEST_SHARE = 0.05
"""Of one core, that polls between the grid's points may take in the long run: somebody may open devices again and
again."""
_MOST_SAVED = 0.25
"""CPU seconds of that share that may be saved up, so that who opens a device now and then is seen without delay: a
poll takes 0.01 s where there are 2,000 processes."""


class PollSchedule:
    """The time of the next poll.

    :param interval: Seconds between two polls if nothing happens.
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
        """When the next poll is due, in monotonic seconds."""
        extra = [*self._extra[:1], *([] if self._moment is None else [self._moment])]
        return min(self._grid.due, max(self._not_before, min(extra))) if extra else self._grid.due

    def poll_soon(self, now: float) -> None:
        """Look as soon as may be: something has changed."""
        self._extra = sorted({now, *self._extra})

    def at(self, moment: float | None) -> None:
        """Poll at a time, and no longer at the one that was set before; None: at none."""
        self._moment = moment

    def opened(self, now: float) -> None:
        """Look now, and again until whoever has opened a device is to be seen."""
        later = [when for when in self._extra if when <= now]
        self._extra = sorted({*later, *(now + delay for delay in _AFTER_OPEN)})

    def polled(self, begun: float, ended: float, cost: float) -> None:
        """Take note of a poll, and of the CPU seconds that it has cost."""
        self._extra = [when for when in self._extra if when > begun]
        self._saved = min(_MOST_SAVED, self._saved + _LARGEST_SHARE * (ended - self._saved_at))
        self._saved_at = ended
        if begun >= self._grid.due:
            self._grid.go_on(ended)
        else:
            self._saved -= cost
        self._not_before = ended + max(_LEAST_PAUSE, -self._saved / _LARGEST_SHARE)


def next_change(programs: Sequence[Program], state: State, now: float) -> float | None:
    """Return when the rest of a program is over, or its GPUs have been idle for long enough, whichever comes later.

    :param programs: All that are configured.
    :param state: With what the last poll shows.
    :param now: In seconds of monotonic time, as the moment that is returned.
    :return: The first such moment of all programs that lies ahead; None: there is none.
    """
    moments = [_moment(program, state) for program in programs if program.name not in state.runs]
    return min((moment for moment in moments if moment is not None and moment > now), default=None)


def _moment(program: Program, state: State) -> float | None:
    """Return from when on the time speaks for a program; None: one of its GPUs is not idle."""
    gpus = state.idle_since if program.gpus is None else program.gpus
    if not gpus or not all(gpu in state.idle_since for gpu in gpus):
        return None
    idle = max(state.idle_since[gpu] for gpu in gpus) + program.idle_before_start
    rest = state.rest_of(program)
    return idle if rest is None else max(idle, rest.not_before)
