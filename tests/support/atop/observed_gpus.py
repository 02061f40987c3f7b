"""GPUs that do as they are told, and atopgpud's observer of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING

from gpu_tracker.atopgpud.ledger import Ledger
from gpu_tracker.atopgpud.observer import Drivers, Observer
from gpu_tracker.background import in_thread
from support.atop.atop_client import parsed_statistics, parsed_types
from support.gpus.gpu_readings import known, monitored
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

OFTEN = 0.005
"""Seconds between two looks at a GPU."""


class Monitor:
    """Looks at a GPU that is as busy as its first number tells; answers as soon as ``may_answer`` is set."""

    def __init__(self, number, accounts='the driver has not done it') -> None:
        self.gpu = known(number, f'GPU-{number}', f'00000000:{number:02}:00.0', 'NVIDIA H200', True)
        self.problem = None
        self.gap = None
        self.looks = 0
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._accounts = accounts
        self._busy = number + 10

    def read(self, *, accounts):
        assert accounts
        self.looks += 1
        self.may_answer.wait(TIMEOUT)
        return monitored(self.problem) if self.problem else monitored(utilization=self._busy, gap=self.gap)

    def keep_accounts(self):
        return self._accounts


class Backend:
    """A driver that has these GPUs whenever it is opened."""

    def __init__(self, *monitors) -> None:
        self.gpus = monitors
        self.problem = None
        self.opened = 0
        self.is_open = False

    def open(self):
        if self.problem is not None:
            raise self.problem
        assert not self.is_open
        self.is_open = True
        self.opened += 1
        return self

    def monitors(self):
        return self.gpus

    def close(self) -> None:
        self.is_open = False


class Clock:
    """Stands still but where it is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self):
        return self.now


class Lines(logging.Handler):
    """What has been logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = []

    def emit(self, record) -> None:
        if record.levelno > logging.DEBUG:
            self.lines.append(f'{record.levelname.lower()}: {record.getMessage()}')


class Scene:
    """An observer of a driver."""

    def __init__(self, backend, patience, **options) -> None:
        self.ledger = Ledger(patience)
        self.drivers = Drivers({'one': backend.open})
        log = logging.getLogger('a test')
        log.propagate = False
        log.setLevel(logging.DEBUG)
        self._handler = Lines()
        log.handlers = [self._handler]  # and no former one
        options = {'keep_accounts': False, **options}
        self.observer = Observer(self.drivers, self.ledger, log, OFTEN, **options)
        self.client = None

    @property
    def lines(self):
        return self._handler.lines

    def join(self) -> None:
        """Become a client of now."""
        self.client = self.ledger.welcome()

    def busy(self):
        """Ask as the client, and return how busy each GPU is."""
        return [gpu.busy for gpu in parsed_statistics(self.ledger.statistics(1, self.client)[4:].decode(), 1)]

    def samples(self):
        return [gpu.samples for gpu in parsed_statistics(self.ledger.statistics(1, self.client)[4:].decode(), 1)]

    def bus_ids(self):
        """Return the GPUs that a client of now is told."""
        return [gpu.bus_id for gpu in parsed_types(self.ledger.types(1, self.ledger.welcome())[4:].decode())]


@contextlib.asynccontextmanager
async def observing(backend, patience=TIMEOUT, **options) -> AsyncIterator[Scene]:
    scene = Scene(backend, patience, **options)
    async with asyncio.timeout(TIMEOUT):
        assert await scene.observer.open() == min(len(backend.gpus), 32)
        await scene.observer.first_readings(TIMEOUT if patience == TIMEOUT else 0.0)
        scene.join()
        yield scene
    for gpu in backend.gpus:
        gpu.may_answer.set()
    assert await in_thread(lambda: scene.observer.stop(TIMEOUT))


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, 'it never happened'
        await asyncio.sleep(0.005)
