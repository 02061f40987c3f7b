"""A fleet: its hosts as they are now, and the last half hour of each GPU, in memory that does not grow."""

from __future__ import annotations

import asyncio
import math
import time
from array import array
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gpu_tracker.fleet.hosts.host import UP
from gpu_tracker.fleet.hosts.totals import totals_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gpu_tracker.fleet.hosts.host import HostState
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

    def forget(self, host_id: str) -> None:
        """Forget a host that is no more."""
        self._hosts.pop(host_id, None)

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


class FleetSource(Protocol):
    """Asks the hosts themselves, or whoever knows of them."""

    @property
    def fleet(self) -> Fleet:
        """The hosts as they are now."""

    async def run(self) -> None:
        """Keep the fleet up to date, until cancelled."""

    async def past(self, host_id: str, seconds: float) -> Past | None:
        """Return what was, for as many of the last seconds as are kept; None: there is no such host."""


GATHER = 0.1
"""Seconds for which changes are gathered, so that a round of many hosts is told in a few pieces."""


class Fleet:
    """The hosts of a fleet. It belongs to one event loop and has no locks.

    :param hosts: All there are, in order.
    :param interval: Seconds between two rounds, for people to know.
    :param history: Where reports are recorded; None: nowhere.
    :param now: Returns seconds since 1970.
    """

    def __init__(
        self,
        hosts: Iterable[HostState],
        *,
        interval: float,
        history: History | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.interval = interval
        self.history = history
        self.now = now
        self.is_closed = False
        self.version = 1
        self.removals = 0
        """How often hosts were removed: who has seen another number needs all hosts anew."""
        self._hosts = {host.id: host for host in hosts}
        self._versions = dict.fromkeys(self._hosts, self.version)
        self._waiting: set[asyncio.Future[None]] = set()

    def states(self) -> tuple[HostState, ...]:
        """Return all hosts in order."""
        return tuple(self._hosts.values())

    def state(self, host_id: str) -> HostState | None:
        """Return a host; None: there is none with this ID."""
        return self._hosts.get(host_id)

    def totals(self) -> Totals:
        """Add all hosts up."""
        return totals_of(self._hosts.values())

    def put(self, host: HostState) -> None:
        """Put a host as it is now in the place of what it was; one with a new ID comes last."""
        if host.state == UP and host.report is not None and self.history is not None:
            self.history.record(host.id, host.report)
        before = self._hosts.get(host.id)
        self._hosts[host.id] = host
        if before is None or _shown(before) != _shown(host):
            self._changed(host.id)

    def remove(self, host_id: str) -> None:
        """Forget a host, as one that Prometheus does not know any more."""
        if self._hosts.pop(host_id, None) is not None:
            del self._versions[host_id]
            self.removals += 1
            self._changed(None)

    def replace(self, hosts: Iterable[HostState]) -> None:
        """Put these hosts in the place of all, in this order; what is kept of the others is forgotten."""
        before = self._hosts
        self._hosts = {host.id: host for host in hosts}
        self.version += 1
        self._versions = dict.fromkeys(self._hosts, self.version)
        self.removals += 1
        if self.history is not None:
            for host_id in before.keys() - self._hosts.keys():
                self.history.forget(host_id)
        self._wake()

    def changed_since(self, version: int) -> list[HostState]:
        """Return the hosts that people see differently since the fleet had ``version``."""
        return [self._hosts[key] for key, changed in self._versions.items() if changed > version]

    async def change(self, since: int) -> None:
        """Return when there is something newer than ``since``, or the fleet was closed."""
        while self.version <= since and not self.is_closed:
            news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(news)
            try:
                await news
            finally:
                self._waiting.discard(news)
        if not self.is_closed:
            await asyncio.sleep(GATHER)

    def close(self) -> None:
        """Let all who wait for changes go on, and have nobody wait again."""
        self.is_closed = True
        self._wake()

    def _changed(self, host_id: str | None) -> None:
        self.version += 1
        if host_id is not None:
            self._versions[host_id] = self.version
        self._wake()

    def _wake(self) -> None:
        for news in self._waiting:
            if not news.done():
                news.set_result(None)


def _shown(host: HostState) -> HostState:
    """Return what of a host people see: not when it was last seen while it is up, nor of when its reading was."""
    report = None if host.report is None else host.report._replace(age=None, time=None, interval=None)
    last_seen = None if host.state == UP else host.last_seen
    return host._replace(report=report, last_seen=last_seen, clock_error=0.0)
