"""The observer of all GPUs: opens their drivers, polls them, and puts what is read into the ledger."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.atopgpud import wire
from gpu_tracker.atopgpud.ledger import ListedGpu
from gpu_tracker.atopgpud.logs import Throttle
from gpu_tracker.atopgpud.watch import Watch, start_of
from gpu_tracker.background import in_thread
from gpu_tracker.errors import GpuError
from gpu_tracker.gpus.model import GpuReading
from gpu_tracker.gpus.nvidia import open_backend

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import Protocol

    from gpu_tracker.atopgpud.ledger import Ledger
    from gpu_tracker.atopgpud.watch import GpuMonitor
    from gpu_tracker.gpus.model import Gpu

    class Driver(Protocol):
        """An opened driver."""

        def monitors(self) -> Sequence[GpuMonitor]:
            """Return its GPUs, in PCI bus order, lost ones included. Threads may read several at the same time."""

        def close(self) -> None:
            """Let go of it."""


OPENERS: Mapping[str, Callable[[], Driver | None]] = {'nvidia': open_backend}


class MonitoredGpu(NamedTuple):
    """A GPU, and what looks at it."""

    key: str
    """What distinguishes it from others for as long as the daemon runs."""
    monitor: GpuMonitor


class Drivers:
    """The drivers, opened.

    :param openers: The vendors' openers.
    """

    def __init__(self, openers: Mapping[str, Callable[[], Driver | None]] = OPENERS) -> None:
        self._openers = openers
        self._opened: list[Driver] = []
        self.problems: list[str] = []
        """Why drivers that are there do not work."""

    def open(self) -> list[MonitoredGpu]:
        """Open the drivers and return their GPUs."""
        gpus: list[MonitoredGpu] = []
        self.problems = []
        for brand, opener in self._openers.items():
            try:
                gpus += self._open(brand, opener)
            except GpuError as error:
                self.problems.append(str(error))
        return gpus

    def close(self) -> None:
        """Let go of the drivers."""
        while self._opened:
            self._opened.pop().close()

    def _open(self, brand: str, opener: Callable[[], Driver | None]) -> list[MonitoredGpu]:
        backend = opener()
        if backend is None:
            return []
        self._opened.append(backend)
        monitors = backend.monitors()
        return [MonitoredGpu(_key(brand, monitor.gpu), monitor) for monitor in monitors]


def _key(brand: str, identity: Gpu) -> str:
    return identity.uuid or f'{brand} {identity.number}'


_TO_STOP = 1.0
"""Seconds that a look may take to end before it is taken to hang. The other GPUs are not read meanwhile, and their
figures must not get too old."""
_LONG = 5.0
"""Seconds after which somebody who starts it wonders; without a persistence daemon, opening takes up to 3 s a GPU."""
_TO_END = 0.2
"""Seconds that looks may take to end when the daemon does: a library is not to be taken away from under them."""


class Observer:
    """Looks at the GPUs of the drivers.

    :param interval: Seconds between two readings of a GPU.
    :param keep_accounts: Switch accounting mode on.
    :param monotonic: The clock by which readings get too old.
    """

    def __init__(
        self,
        drivers: Drivers,
        ledger: Ledger,
        log: logging.Logger,
        interval: float,
        *,
        keep_accounts: bool,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._drivers = drivers
        self._ledger = ledger
        self._log = log
        self._interval = interval
        self._keep_accounts = keep_accounts
        self._monotonic = monotonic
        self._gpus: list[MonitoredGpu] = []
        self._watches: dict[str, Watch] = {}
        self._problems: dict[str, str | None] = {}
        self._unread: set[str] = set()
        self._first_readings = asyncio.Event()
        self._tell = Throttle(log.warning)

    async def open(self) -> int:
        """Open the drivers and begin to look at their GPUs; return how many there are."""
        gpus = await self._in_time(in_thread(self._open))
        for problem in self._drivers.problems:
            self._log.error('%s', problem)
        if not gpus:
            await in_thread(self._drivers.close)
            return 0
        if len(gpus) > wire.MOST_GPUS:
            self._log.warning(
                'this machine has %d GPUs, but atop supports at most %d: the remaining GPUs are not reported',
                len(gpus),
                wire.MOST_GPUS,
            )
        self._gpus = _told_apart([self._same_as_known(gpu) for gpu in gpus[: wire.MOST_GPUS]])
        self._ledger.opened_anew()
        self._show()
        self._watch()
        return len(self._gpus)

    async def first_readings(self, seconds: float) -> None:
        """Wait until each GPU has been read, or for ``seconds`` seconds."""
        try:
            await asyncio.wait_for(self._first_readings.wait(), seconds)
        except TimeoutError:
            pass  # what hangs is told by check()

    async def open_again(self) -> None:
        """Look which GPUs there are now; where a driver hangs, those known go on to be looked at."""
        if not await in_thread(lambda: self.stop(_TO_STOP)):
            self._log.warning('a GPU driver does not respond: atopgpud keeps its previous list of GPUs')
            self._watch()
            return
        known = self._gpus
        await in_thread(self._drivers.close)
        if await self.open():
            keys = {gpu.key for gpu in self._gpus}
            gone = [gpu for gpu in known if gpu.key not in keys]
        else:
            self._log.warning('the driver lists no GPU any more: the GPUs seen before are reported as unreadable')
            gone = known
        for gpu in gone:
            self._take(gpu, GpuReading(gpu.monitor.gpu, 'has gone'), {}, self._monotonic())

    def check(self) -> None:
        """Tell of GPUs that have not been read for too long."""
        self._tell.report_left_out()
        silent = self._ledger.age(self._monotonic())
        for gpu in self._gpus:
            if gpu.key in silent and self._problems.get(gpu.key) is None:
                self._note(gpu, 'has not answered in time: its figures are unknown until it does')

    def stop(self, timeout: float = _TO_END) -> bool:
        """Look no more; return whether the last readings have ended, after ``timeout`` seconds at most."""
        watches = tuple(self._watches.values())
        for watch in watches:
            watch.stop()
        deadline = time.monotonic() + timeout
        return all([watch.has_ended(max(0.0, deadline - time.monotonic())) for watch in watches])  # noqa: C419

    async def _in_time(self, opening: Awaitable[list[MonitoredGpu]]) -> list[MonitoredGpu]:
        """Return what is opened, and log where that takes long."""
        task = asyncio.ensure_future(opening)
        await asyncio.wait([task], timeout=_LONG)
        if not task.done():
            self._log.warning('waiting for the GPU driver to respond')
        return await task

    def _same_as_known(self, gpu: MonitoredGpu) -> MonitoredGpu:
        """Return a GPU by the key that clients know it by: one that was lost at first had no UUID then."""
        uuid = gpu.monitor.gpu.uuid
        known = (other.key for other in self._gpus if uuid is not None and other.monitor.gpu.uuid == uuid)
        return gpu._replace(key=next(known, gpu.key))

    def _open(self) -> list[MonitoredGpu]:
        gpus = self._drivers.open()
        if self._keep_accounts:
            for gpu in gpus:
                was_on = gpu.monitor.gpu.keeps_accounts
                why_not = gpu.monitor.keep_accounts()
                if why_not is not None:
                    self._log.warning('accounting mode of %s could not be switched on: %s', _label(gpu), why_not)
                elif not was_on:
                    self._log.warning(
                        'atopgpud switched on accounting mode of %s. Accounting mode stays on after atopgpud ends. To '
                        'switch it off, run nvidia-smi -am 0 or reload the driver',
                        _label(gpu),
                    )
        return gpus

    def _show(self) -> None:
        self._ledger.show([ListedGpu(gpu.key, gpu.monitor.gpu) for gpu in self._gpus], self._monotonic())

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        begin = time.monotonic()
        self._unread = {gpu.key for gpu in self._gpus}
        before, self._watches = self._watches, {}
        for gpu in self._gpus:
            watch = before.get(gpu.key)
            if watch is None or not watch.go_on():
                starts = watch.starts if watch else None
                watch = Watch(gpu.monitor, self._interval, begin, self._deliver(gpu, loop), start_of, starts)
                watch.start()
            self._watches[gpu.key] = watch

    def _deliver(
        self, gpu: MonitoredGpu, loop: asyncio.AbstractEventLoop
    ) -> Callable[[GpuReading, dict[int, float | None]], None]:
        def deliver(activity: GpuReading, starts: dict[int, float | None]) -> None:
            try:
                loop.call_soon_threadsafe(self._take, gpu, activity, starts, self._monotonic())
            except RuntimeError:
                pass  # the loop is closed: the daemon ends

        return deliver

    def _take(self, gpu: MonitoredGpu, activity: GpuReading, starts: dict[int, float | None], when: float) -> None:
        self._ledger.take(gpu.key, activity, starts, when)
        if self._log.isEnabledFor(logging.DEBUG):
            self._log.debug('%s: %s', _label(gpu), _summary(activity))
        self._note(gpu, activity.problem or activity.gap)
        if ListedGpu(gpu.key, gpu.monitor.gpu) not in self._ledger.gpus:
            self._show()
        self._unread.discard(gpu.key)
        if not self._unread:
            self._first_readings.set()

    def _note(self, gpu: MonitoredGpu, problem: str | None) -> None:
        """Log what is wrong with a GPU when that begins and when it ends."""
        if self._problems.get(gpu.key) == problem:
            return
        self._tell(f'{_label(gpu)}: works again' if problem is None else f'{_label(gpu)}: {problem}')
        self._problems[gpu.key] = problem


def _told_apart(gpus: list[MonitoredGpu]) -> list[MonitoredGpu]:
    """Return GPUs of which no two have the same key: one may be lost at the place where another one was lost before."""
    keys = {gpu.key for gpu in gpus if gpu.monitor.gpu.uuid is not None}
    apart = []
    for gpu in gpus:
        key = gpu.key
        while gpu.monitor.gpu.uuid is None and key in keys:
            key += ' again'
        apart.append(gpu._replace(key=key))
    return apart


def _label(gpu: MonitoredGpu) -> str:
    identity = gpu.monitor.gpu
    return f'GPU {identity.number} ({identity.name or "unknown"}, {identity.pci_bus_id or "unknown place"})'


def _summary(activity: GpuReading) -> str:
    if activity.problem is not None:
        return activity.problem
    processes = None if activity.processes is None else len(activity.processes)
    figures = (('percent busy', activity.utilization), ('bytes in use', activity.memory_used), ('processes', processes))
    return ', '.join(f'{"unknown" if figure is None else round(figure)} {what}' for what, figure in figures)
