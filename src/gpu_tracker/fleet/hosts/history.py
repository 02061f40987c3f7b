"""What was: the last half hour of each GPU and of the whole fleet, in memory that does not grow."""

from __future__ import annotations

import math
import time
from array import array
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gpu_tracker.fleet.hosts.report import GpuReport, HostReport
    from gpu_tracker.fleet.hosts.totals import Totals

STEP = 10.0
"""Seconds over which a mean is kept, unless reports come less often."""
HALF_AN_HOUR = 1800.0
"""Seconds that are kept."""

_MOST_GPUS = 1024
"""Of one host, MIG devices among them: one that gives its GPUs new names each time must not fill the memory."""
_UNKNOWN = 0xFFFF
_TENTHS = 10


class _Grid:
    """The steps into which time is divided, numbered."""

    __slots__ = ('_begin', 'length', 'step')

    def __init__(self, clock: float, interval: float) -> None:
        self.step = max(STEP, interval)
        self.length = math.ceil(HALF_AN_HOUR / self.step)
        # With one report a step it comes in the middle of it, where being late by a little does not matter.
        self._begin = clock - self.step / 2 if interval >= STEP else 0.0

    def number(self, clock: float) -> int:
        """Return the step that goes on."""
        return math.floor((clock - self._begin) / self.step)

    def left(self, clock: float) -> float:
        """Return the seconds until that step ends."""
        return self._begin + (self.number(clock) + 1) * self.step - clock

    def count(self, seconds: float) -> int:
        """Return how many steps there are in so many seconds, as far as they are kept."""
        return max(1, min(self.length, round(seconds / self.step)))


class _Track:
    """One figure of one GPU, in tenths of a percent: a ring of means, and the sum of the step that is going on."""

    __slots__ = ('_count', '_ring', '_step', '_sum')

    def __init__(self, step: int, length: int) -> None:
        self._ring = array('H', [_UNKNOWN]) * length
        self._step = step
        self._sum = 0.0
        self._count = 0

    def add(self, step: int, percent: float | None) -> None:
        self._go_on_to(step)
        if percent is not None:
            self._sum += percent
            self._count += 1
            self._ring[step % len(self._ring)] = round(_TENTHS * self._sum / self._count)

    def last(self, step: int, count: int) -> list[float | None]:
        """Return the means of the ``count`` steps up to ``step``, oldest first."""
        length = len(self._ring)
        oldest = self._step - length
        values = (
            self._ring[number % length] if oldest < number <= self._step else _UNKNOWN
            for number in range(step - count + 1, step + 1)
        )
        return [None if value == _UNKNOWN else value / _TENTHS for value in values]

    def _go_on_to(self, step: int) -> None:
        if step <= self._step:
            return
        length = len(self._ring)
        for number in range(max(self._step + 1, step - length + 1), step + 1):
            self._ring[number % length] = _UNKNOWN  # a step without a report leaves a gap
        self._step, self._sum, self._count = step, 0.0, 0


class _GpuPast:
    """Both figures of one GPU."""

    __slots__ = ('memory', 'seen', 'utilization')

    def __init__(self, step: int, length: int) -> None:
        self.utilization = _Track(step, length)
        self.memory = _Track(step, length)
        self.seen = step


class History:
    """The utilization and the memory in use of each GPU in the last half hour.

    :param clock: Returns monotonic seconds.
    :param now: Returns seconds since 1970.
    :param interval: Seconds between two reports of a host: no step is shorter, so that none is without a report.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        interval: float = 0.0,
    ) -> None:
        self._clock = clock
        self._now = now
        self._grid = _Grid(clock(), interval)
        self._hosts: dict[str, dict[str, _GpuPast]] = {}

    def record(self, host_id: str, report: HostReport) -> None:
        """Take the figures of a report that has just come in."""
        step = self._grid.number(self._clock())
        gpus = self._hosts.setdefault(host_id, {})
        for gpu in _with_parts(report.gpus or ()):
            past = gpus.get(gpu.key)
            if past is None:
                if len(gpus) >= _MOST_GPUS:
                    continue
                past = gpus[gpu.key] = _GpuPast(step, self._grid.length)
            past.seen = step
            past.utilization.add(step, gpu.utilization_percent)
            past.memory.add(step, gpu.memory_used_percent)
        for key in [key for key, past in gpus.items() if past.seen <= step - self._grid.length]:
            del gpus[key]  # a MIG device that is no more, a GPU that was taken out

    def forget(self, host_id: str) -> None:
        """Forget a host that is no more."""
        self._hosts.pop(host_id, None)

    def past(self, host_id: str, seconds: float) -> Past:
        """Return the means of the last ``seconds``, half an hour at most."""
        clock = self._clock()
        step, count = self._grid.number(clock), self._grid.count(seconds)
        return Past(
            step=self._grid.step,
            end=self._now() + self._grid.left(clock),
            gpus={
                key: Series(past.utilization.last(step, count), past.memory.last(step, count))
                for key, past in self._hosts.get(host_id, {}).items()
            },
        )


def _with_parts(gpus: tuple[GpuReport, ...]) -> Iterator[GpuReport]:
    for gpu in gpus:
        yield gpu
        yield from gpu.mig_devices or ()


class Series(NamedTuple):
    """Two figures of one GPU over time, oldest first; None is unknown."""

    utilization: Sequence[float | None]
    """Percent."""
    memory: Sequence[float | None]
    """Percent of its memory that was in use."""


class Past(NamedTuple):
    """The GPUs of one host over time."""

    step: float
    """Seconds; each value is the mean over one step."""
    end: float
    """Seconds since 1970, when the last step ends."""
    gpus: Mapping[str, Series]
    """By the key of the GPU; all have the same number of values."""


class FleetPast(NamedTuple):
    """A whole fleet over time, oldest first; None is unknown, and all have the same number of values."""

    step: float
    """Seconds; each percentage is the mean over one step."""
    end: float
    """Seconds since 1970, when the last step ends."""
    utilization: Sequence[float | None]
    """Percent: the mean of the GPUs that reported theirs."""
    memory: Sequence[float | None]
    """Percent of the memory of all GPUs that was in use."""
    gpus: Sequence[int | None]
    """How many were known, which are those of hosts that were up."""
    hosts_up: Sequence[int | None]


class FleetMoment(NamedTuple):
    """What somebody else has kept of a fleet."""

    time: float
    """Seconds since 1970."""
    utilization: float | None
    memory: float | None


class _FleetStep:
    """The totals of one step."""

    __slots__ = ('gpus', 'hosts_up', 'memory', 'number', 'utilization')

    def __init__(self, number: int) -> None:
        self.number = number
        self.utilization = _Mean()
        self.memory = _Mean()
        self.gpus: int | None = None
        self.hosts_up: int | None = None

    def add(self, totals: Totals) -> None:
        self.utilization.add(totals.utilization_percent)
        self.memory.add(totals.memory_used_percent)
        self.gpus = totals.known
        self.hosts_up = totals.hosts_up


class _Mean:
    __slots__ = ('_count', '_sum')

    def __init__(self) -> None:
        self._sum = 0.0
        self._count = 0

    def add(self, percent: float | None) -> None:
        if percent is not None:
            self._sum += percent
            self._count += 1

    def value(self) -> float | None:
        return round(self._sum / self._count, 1) if self._count else None


class FleetHistory:
    """The totals of a fleet in the last half hour.

    :param clock: Returns monotonic seconds.
    :param now: Returns seconds since 1970.
    :param interval: Seconds between two rounds: no step is shorter, so that none is without totals.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        interval: float = 0.0,
    ) -> None:
        self._clock = clock
        self._now = now
        self._grid = _Grid(clock(), interval)
        self._steps: deque[_FleetStep] = deque(maxlen=self._grid.length)

    def record(self, totals: Totals) -> None:
        """Take the totals at the end of a round."""
        number = self._grid.number(self._clock())
        if not self._steps or self._steps[-1].number < number:
            self._steps.append(_FleetStep(number))
        self._steps[-1].add(totals)

    def recall(self, moments: Iterable[FleetMoment]) -> None:
        """Take what is known of the time before the first totals; how many hosts and GPUs there were is not."""
        clock, now = self._clock(), self._now()
        end = self._steps[0].number if self._steps else self._grid.number(clock) + 1
        recalled: dict[int, _FleetStep] = {}
        for moment in moments:
            number = self._grid.number(clock - now + moment.time)
            if end - self._grid.length <= number < end:
                step = recalled.setdefault(number, _FleetStep(number))
                step.utilization.add(moment.utilization)
                step.memory.add(moment.memory)
        later = list(self._steps)
        self._steps.clear()
        self._steps.extend([recalled[number] for number in sorted(recalled)] + later)

    def past(self, seconds: float) -> FleetPast:
        """Return the means of the last ``seconds``, half an hour at most."""
        clock = self._clock()
        last = self._grid.number(clock)
        recorded = {step.number: step for step in self._steps}
        numbers = range(last - self._grid.count(seconds) + 1, last + 1)
        steps = [recorded.get(number) or _FleetStep(number) for number in numbers]  # one without a round is a gap
        return FleetPast(
            step=self._grid.step,
            end=self._now() + self._grid.left(clock),
            utilization=[step.utilization.value() for step in steps],
            memory=[step.memory.value() for step in steps],
            gpus=[step.gpus for step in steps],
            hosts_up=[step.hosts_up for step in steps],
        )
