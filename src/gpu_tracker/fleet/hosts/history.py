"""The last half hour of each GPU, in memory that does not grow."""

from __future__ import annotations

import math
import time
from array import array
from typing import TYPE_CHECKING

from gpu_tracker.fleet.hosts.source import Past, Series

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpu_tracker.fleet.hosts.report import GpuReport, HostReport

STEP = 10.0
"""Seconds over which a mean is kept, unless reports come less often."""
HALF_AN_HOUR = 1800.0
"""Seconds that are kept."""

_MOST_GPUS = 1024
"""Of one host, MIG devices among them: one that gives its GPUs new names each time must not fill the memory."""
_UNKNOWN = 0xFFFF
_TENTHS = 10


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

    :param clock: Tells monotonic seconds.
    :param now: Tells seconds since 1970.
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
        self._step = max(STEP, interval)
        self._length = math.ceil(HALF_AN_HOUR / self._step)
        # With one report a step it comes in the middle of it, where being late by a little does not matter.
        self._begin = clock() - self._step / 2 if interval >= STEP else 0.0
        self._hosts: dict[str, dict[str, _GpuPast]] = {}

    def record(self, host_id: str, report: HostReport) -> None:
        """Take the figures of a report that has just come in."""
        step = self._step_at(self._clock())
        gpus = self._hosts.setdefault(host_id, {})
        for gpu in _with_parts(report.gpus or ()):
            past = gpus.get(gpu.key)
            if past is None:
                if len(gpus) >= _MOST_GPUS:
                    continue
                past = gpus[gpu.key] = _GpuPast(step, self._length)
            past.seen = step
            past.utilization.add(step, gpu.utilization_percent)
            past.memory.add(step, gpu.memory_used_percent)
        for key in [key for key, past in gpus.items() if past.seen <= step - self._length]:
            del gpus[key]  # a MIG device that is no more, a GPU that was taken out

    def past(self, host_id: str, seconds: float) -> Past:
        """Return the means of the last ``seconds``, half an hour at most."""
        clock = self._clock()
        step = self._step_at(clock)
        count = max(1, min(self._length, round(seconds / self._step)))
        return Past(
            step=self._step,
            end=self._now() + self._begin + (step + 1) * self._step - clock,
            gpus={
                key: Series(past.utilization.last(step, count), past.memory.last(step, count))
                for key, past in self._hosts.get(host_id, {}).items()
            },
        )

    def _step_at(self, clock: float) -> int:
        return math.floor((clock - self._begin) / self._step)


def _with_parts(gpus: tuple[GpuReport, ...]) -> Iterator[GpuReport]:
    for gpu in gpus:
        yield gpu
        yield from gpu.mig_devices or ()
