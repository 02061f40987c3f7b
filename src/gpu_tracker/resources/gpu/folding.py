"""Pure folding of GPU readings into maxima and means, in constant memory."""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Step = tuple[int, int, float]
    """Begin and end in microseconds, and the percent in between."""

_MOST_WAITING = 4096
"""How many samples of a device wait for those of the others; past it the oldest are dropped, as unknown time."""


class Maximum:
    """The largest of a series of figures, some of which may be unknown or lower bounds.

    It is known once one figure was complete. If some figure was not complete, the others are a lower bound; if these
    are all 0, nothing is known.

    :ivar was_missed: Some figure was not complete.
    """

    __slots__ = ('_is_known', '_largest', 'was_missed')

    def __init__(self) -> None:
        self._largest = 0
        self._is_known = False
        self.was_missed = False

    def note(self, figure: int, *, complete: bool = True) -> None:
        """Add a figure of the series.

        :param complete: False: the figure is a lower bound, of what was known.
        """
        self.raise_to(figure)
        if complete:
            self._is_known = True
        else:
            self.was_missed = True

    def raise_to(self, figure: int) -> None:
        """Add a figure that was reached between two of the series."""
        self._largest = max(self._largest, figure)

    def miss(self) -> None:
        """Note that figures are missing."""
        self.was_missed = True

    @property
    def value(self) -> int | None:
        """The maximum so far; None: unknown."""
        if not self._is_known or (self.was_missed and self._largest == 0):
            return None
        return self._largest

    @property
    def is_lower_bound(self) -> bool:
        """Whether the value is known and may be too low."""
        return self.was_missed and self.value is not None


class Share:
    """How busy something was: the largest percentage, and the mean weighted by time.

    :ivar was_missed: Some period is unknown.
    """

    __slots__ = ('_covered', '_largest', '_weighted', 'was_missed')

    def __init__(self) -> None:
        self.was_missed = False
        self._largest: float | None = None
        self._weighted = 0.0
        self._covered = 0.0

    def add(self, percent: float, duration: float) -> None:
        """Add a period, whose duration is in any unit."""
        self._largest = percent if self._largest is None else max(self._largest, percent)
        self._weighted += percent * duration
        self._covered += duration

    @property
    def largest(self) -> float | None:
        """The largest percentage; None: unknown. If a period was missed, it is a lower bound, and 0 is unknown."""
        return None if self.was_missed and not self._largest else self._largest

    @property
    def mean(self) -> float | None:
        """The mean in percent; None: no period is known."""
        return self._weighted / self._covered if self._covered else None


class UtilizationSum:
    """The sum over several devices of their utilization, each of which is a step function of time.

    It is known at times at which the utilization of all devices is known.

    :param devices: The names of the devices.
    """

    def __init__(self, devices: Iterable[str]) -> None:
        self._steps: dict[str, deque[Step]] = {name: deque(maxlen=_MOST_WAITING) for name in devices}
        self._sum = Share()

    def add(self, device: str, steps: Iterable[Step]) -> None:
        """Add steps of a device, each later than the one before."""
        self._steps[device].extend(steps)
        self._fold()

    @property
    def largest(self) -> float | None:
        """The largest sum at any moment, in percent; None: the utilization of all devices was never known at once."""
        return self._sum.largest

    @property
    def mean(self) -> float | None:
        """The mean of the sum, weighted by time, in percent; None: unknown."""
        return self._sum.mean

    def _fold(self) -> None:
        """Add up the steps as far as all devices have told of theirs, and forget them."""
        queues = list(self._steps.values())
        while queues and all(queues):
            start = max(steps[0][0] for steps in queues)
            end = min(steps[0][1] for steps in queues)
            if start < end:
                self._sum.add(sum(steps[0][2] for steps in queues), end - start)
            for steps in queues:
                if steps[0][1] == end:
                    steps.popleft()


class AccountedPeaks:
    """By how much processes' own peaks, which the driver keeps, exceed what they use when they are read.

    Only a peak that was reached since the last reading counts: that of a process that came after the first reading, or
    one that has risen. A peak from before the tracking does not count.
    """

    def __init__(self) -> None:
        self._peaks: dict[tuple[str, int], int] = {}
        self._there_from_the_start: set[tuple[str, int]] | None = None

    def begin_look(self, present: set[tuple[str, int]]) -> None:
        """Begin a reading of all GPUs, by saying which processes, of whomever, are on which device: (device, pid)."""
        if self._there_from_the_start is None:
            self._there_from_the_start = present
        else:
            self._there_from_the_start &= present  # the process ID of one that has ended may be used again

    def excess(self, device: str, pid: int, peak: int, current: int) -> int:
        """Return how many bytes a peak that is news lies above the process' present memory on the device, else 0."""
        key = (device, pid)
        known = self._peaks.get(key)
        self._peaks[key] = peak
        # A peak lower than the known one is that of another process, to which the ID was given.
        is_news = key not in (self._there_from_the_start or ()) if known is None else peak != known
        return max(0, peak - current) if is_news else 0

    def end_look(self, present: set[tuple[str, int]]) -> list[tuple[str, int, int]]:
        """Forget those not present; return them as device, pid and last known peak, to be asked for one last time."""
        gone = [(device, pid, peak) for (device, pid), peak in self._peaks.items() if (device, pid) not in present]
        for device, pid, _ in gone:
            del self._peaks[device, pid]
        return gone
