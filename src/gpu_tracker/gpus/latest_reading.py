"""The latest reading of this machine, made by one thread for all who want it: nobody else asks the driver."""

from __future__ import annotations

import threading
import time
from collections import deque
from statistics import median_low
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.background import Poll
from gpu_tracker.gpus.command_lines import PROGRAM
from gpu_tracker.gpus.machine import Seen, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.gpus.machine import Machine

INTERVAL = 2.0
"""Seconds between two readings."""
RESTING_INTERVAL = 6.0
"""Seconds between two readings where nobody asks. No reading becomes stale by it: that takes 10 s."""
_MOST_USUAL = 10.0
"""Seconds: figures of half a minute ago are old, however slow the driver is."""
_USUAL_OF = 3
"""Looks that tell how long one takes."""
RESTS_AFTER = 60.0
"""Seconds without a question after which it looks less often."""


class Reading(NamedTuple):
    """One reading of the machine."""

    taken: float
    """When it began, in monotonic seconds: what it tells may be as old as that."""
    snapshot: dict[str, object]
    """See :func:`gpu_tracker.gpus.machine.snapshot`."""


class Watch:
    """Reads a machine in a thread of its own, and keeps the newest reading.

    While a driver hangs, the newest reading gets old; after a minute a reading says so. A minute after the last
    question, readings become rarer until the next question.

    :param interval: Seconds between two readings.
    :param clock: Monotonic seconds.
    :param commands: How much readers may know of command lines, see :func:`gpu_tracker.gpus.machine.snapshot`.
    """

    newest: Reading | None = None
    """None as long as the first reading goes on."""
    last_with_gpus: Reading | None = None
    """The newest reading in which the driver has reported the GPUs; None: there was none."""

    def __init__(
        self,
        machine: Machine,
        interval: float = INTERVAL,
        clock: Callable[[], float] = time.monotonic,
        commands: str = PROGRAM,
    ) -> None:
        self._interval = interval
        self._commands = commands
        self._resting_interval = max(interval, RESTING_INTERVAL)
        self._machine = machine
        self._clock = clock
        self._asked = clock()
        self._durations: deque[float] = deque(maxlen=_USUAL_OF)
        self._has_read = threading.Event()
        self._poll = Poll(self._read, 'watch', clock=clock)

    @property
    def usual_interval(self) -> float:
        """Seconds between two readings, which are more than were asked for where the driver is slow and yet regular."""
        took = median_low(self._durations or [0.0])  # so that one reading that hung says nothing of the next
        usual = round(took + pause_between(self._interval, took), 3)
        return max(self._interval, min(usual, _MOST_USUAL))

    def start(self) -> None:
        """Begin to read."""
        self._poll.start()

    def latest(self) -> Reading | None:
        """Return the newest reading, at once, and count as a question; None as long as the first reading goes on."""
        before, self._asked = self._asked, self._clock()
        if self._asked - before > RESTS_AFTER:
            self._poll.wake()
        return self.newest

    def age(self, reading: Reading) -> float:
        """Return how many seconds old a reading is."""
        return self._clock() - reading.taken

    def wait_for_first(self, timeout: float) -> bool:
        """Return whether the first reading has ended, after ``timeout`` seconds at most."""
        return self._has_read.wait(timeout)

    def stop(self) -> None:
        """Stop reading; a reading that has begun goes on by itself, since a driver may hang."""
        self._poll.stop()

    def _read(self) -> float:
        """Read once, and return the seconds until the next time."""
        begun = self._clock()
        reading = Reading(begun, self._look())
        took = self._clock() - begun
        if reading.snapshot['gpus'] is not None:
            self._durations.append(took)
            self.last_with_gpus = reading
        self.newest = reading
        self._has_read.set()
        is_resting = self._clock() - self._asked > RESTS_AFTER
        return pause_between(self._resting_interval if is_resting else self._interval, took)

    def _look(self) -> dict[str, object]:
        now = time.time()
        try:
            seen = self._machine.read_again()
            absence = self._machine.absence(seen)
            if absence is not None:
                self._machine.report(absence)
            return snapshot(seen, self._commands)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong with one reading, the next is due
            problem = f'the GPUs cannot be read: {type(error).__name__}: {error}'
            self._machine.report(problem)
            return snapshot(Seen(now, None, driver_problem=problem))


def pause_between(interval: float, took: float) -> float:
    """Return the seconds until the next reading: the rest of the interval; after a slow one as long as it took.

    :param took: Seconds; of more than one interval, one counts.
    """
    return max(interval - took, min(took, interval))
