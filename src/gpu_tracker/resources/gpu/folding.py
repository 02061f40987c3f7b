"""Pure folding of GPU readings into maxima and means, in constant memory."""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LONGEST_PERIOD_US = 1_000_000
"""nvml.h, nvmlUtilization_t: the sample period is between 1/6 second and 1 second. Where samples lie further apart the
driver's buffer has overflowed or the GPU was asked seldom; the time in between is not known."""

_MOST_WAITING = 4096
"""How many samples of a device wait for those of the others; past it the oldest are dropped, as unknown time."""


class Maximum:
    """The largest of a series of figures, some of which may be unknown or lower bounds.

    - An incomplete figure (one GPU of several could not be read) is a lower bound: it may raise the maximum, but does
      not make it known.
    - Where some figure is unknown, the maximum of the others is kept unless it is 0: nothing was seen then, and nothing
      is known.
    """

    __slots__ = ('_is_known', '_largest', '_was_missed')

    def __init__(self) -> None:
        self._largest = 0
        self._is_known = False
        self._was_missed = False

    def note(self, figure: int | None, *, complete: bool = True) -> None:
        """Take a figure in; None is an unknown one."""
        if figure is None:
            self._was_missed = True
            return
        self._is_known = self._is_known or complete
        self._largest = max(self._largest, figure)

    @property
    def value(self) -> int | None:
        """The maximum so far, None where it is unknown."""
        if not self._is_known or (self._was_missed and self._largest == 0):
            return None
        return self._largest


class UtilizationSum:
    """The sum over several devices of their utilization, from samples that each arrive in batches of their own.

    A sample says what a device's utilization was over the period that ended at its time stamp and began at the sample
    before it. So each device's utilization is a step function of time; their sum is known where all of them are.

    :param devices: The names of the devices.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        self._last_end: dict[str, int] = {}
        self._steps: dict[str, deque[tuple[int, int, float]]] = {name: deque(maxlen=_MOST_WAITING) for name in devices}
        self._largest = 0.0
        self._weighted = 0.0
        self._covered_us = 0
        self._of_devices: dict[str, tuple[float, int]] = {}

    def add(self, device: str, samples: Iterable[tuple[int, float]], since: int | None) -> None:
        """Take in samples of a device.

        :param device: The name of the device.
        :param samples: Time stamps in microseconds and percents; those not later than an earlier one are dropped.
        :param since: Periods that began before this time are dropped, since they tell of what was before; None drops
            all, but the next period begins with the last of them.
        """
        steps = self._steps[device]
        for end, percent in samples:
            last = self._last_end.get(device)
            if last is not None and end <= last:
                continue
            self._last_end[device] = end
            if since is None or last is None:
                continue
            start = max(last, end - _LONGEST_PERIOD_US)
            if start >= since:
                steps.append((start, end, percent))
                weighted, covered_us = self._of_devices.get(device, (0.0, 0))
                self._of_devices[device] = weighted + percent * (end - start), covered_us + end - start
        self._fold()

    def mean_of(self, device: str) -> float | None:
        """Return the mean of one device, weighted by time, in percent; None where it is unknown."""
        weighted, covered_us = self._of_devices.get(device, (0.0, 0))
        return weighted / covered_us if covered_us else None

    def last_end(self, device: str) -> int | None:
        """Return the time stamp of a device's latest sample, None before the first."""
        return self._last_end.get(device)

    @property
    def is_known(self) -> bool:
        """Whether there was any moment at which the utilization of all devices is known."""
        return self._covered_us > 0

    @property
    def largest(self) -> float | None:
        """The largest sum at any moment, in percent; None where it is unknown."""
        return self._largest if self.is_known else None

    @property
    def mean(self) -> float | None:
        """The mean of the sum, weighted by time, in percent; None where it is unknown."""
        return self._weighted / self._covered_us if self.is_known else None

    def _fold(self) -> None:
        """Add up the steps as far as all devices have told of theirs, and forget them."""
        queues = list(self._steps.values())
        while queues and all(queues):
            start = max(steps[0][0] for steps in queues)
            end = min(steps[0][1] for steps in queues)
            if start < end:
                total = sum(steps[0][2] for steps in queues)
                self._largest = max(self._largest, total)
                self._weighted += total * (end - start)
                self._covered_us += end - start
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
