"""The latest reading of this machine, made by one thread for all who want it: nobody else asks the driver."""

from __future__ import annotations

import threading
import time
from collections import deque
from statistics import median_low
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.background import Poll
from gpu_tracker.gpus.command_lines import PROGRAM
from gpu_tracker.gpus.machine import Seen, snapshot_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Looker(Protocol):
        """What a watch needs of a machine."""

        def read_again(self) -> Seen:
            """Read the GPUs; it may take as long as the driver does."""

        def absence(self, seen: Seen) -> str | None:
            """Return why a reading has found no GPU."""

        def report(self, problem: str | None) -> None:
            """Report why a reading has shown no GPU."""


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

    A driver that hangs leaves the newest reading as it is, which gets old; after a minute a reading says so.

    Each look costs the driver a few calls for each GPU. So where nobody has asked for a minute it looks only every
    ``resting_interval`` seconds, and again at once when somebody asks.

    :param interval: Seconds between two readings.
    :param clock: Monotonic seconds.
    :param resting_interval: Seconds; a shorter one than ``interval`` has no effect.
    :param now: Seconds since 1970.
    :param commands: How much readers may know of command lines, see :func:`gpu_tracker.gpus.machine.snapshot`.
    """

    def __init__(
        self,
        machine: Looker,
        interval: float = INTERVAL,
        clock: Callable[[], float] = time.monotonic,
        resting_interval: float = RESTING_INTERVAL,
        now: Callable[[], float] = time.time,
        commands: str = PROGRAM,
    ) -> None:
        self.interval = interval
        self._commands = commands
        self._resting_interval = resting_interval
        self._machine = machine
        self._clock = clock
        self._now = now
        self._asked = clock()
        self._latest: Reading | None = None
        self.last_with_gpus: Reading | None = None
        """The newest reading in which the driver has told the GPUs; None: there was none."""
        self._durations: deque[float] = deque(maxlen=_USUAL_OF)
        self._has_read = threading.Event()
        self._poll = Poll(self._read, 'watch', clock=clock)
        self.is_resting = False
        """Whether it waits for longer than usual, since nobody asks."""

    @property
    def usual_interval(self) -> float:
        """Seconds between two readings, which are more than were asked for where the driver is slow and yet regular."""
        took = median_low([*self._durations] or [0.0])  # so that one reading that hung says nothing of the next
        usual = round(took + pause_between(self.interval, took), 3)
        return max(self.interval, min(usual, _MOST_USUAL))

    def start(self) -> None:
        """Begin to look."""
        self._poll.start()

    def latest(self) -> Reading | None:
        """Return the newest reading, at once; None as long as the first reading goes on."""
        self._asked = self._clock()
        if self.is_resting:
            self._poll.wake()
        return self._latest

    def peek(self) -> Reading | None:
        """Return the newest reading for somebody who does not mind that it is looked less often."""
        return self._latest

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
        self.is_resting = False
        begun, now = self._clock(), self._now()
        reading = Reading(begun, self._look(now))
        if reading.snapshot['gpus'] is not None:
            self._durations.append(self._clock() - begun)
            self.last_with_gpus = reading
        self._latest = reading
        self._has_read.set()
        return self._pause_after(begun)

    def _look(self, now: float) -> dict[str, object]:
        """Return the plain data of a reading that begins now.

        :param now: Seconds since 1970: as old as the reading says that it is, since others find the error of this
            machine's clock by both.
        """
        try:
            seen = self._machine.read_again()._replace(time=now)
            absence = self._machine.absence(seen)
            if absence is not None:
                self._machine.report(absence)
            return snapshot_of(seen, self._commands)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong with one reading, the next is due
            problem = f'the GPUs cannot be read: {type(error).__name__}: {error}'
            self._machine.report(problem)
            return snapshot_of(Seen(now, None, driver_problem=problem))

    def _pause_after(self, begun: float) -> float:
        """Return the seconds from now to the next reading."""
        self.is_resting = True  # first, so that no question from here on is missed
        now = self._clock()
        self.is_resting = now - self._asked > RESTS_AFTER
        interval = max(self.interval, self._resting_interval) if self.is_resting else self.interval
        return pause_between(interval, now - begun)


def pause_between(interval: float, took: float) -> float:
    """Return the seconds from the end of one reading to the begin of the next.

    A driver that is slow to answer is left alone for as long as it took, and for one interval at most.

    :param took: Seconds that the reading has taken.
    """
    return max(interval - took, min(took, interval))
