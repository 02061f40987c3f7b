"""What the GPU drivers report, asked in a thread: a call into a driver may hang for ever, and cannot be interrupted."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.background import in_thread
from gpu_tracker.errors import GpuError
from gpu_tracker.gpus.opening import CUDA_BACKENDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpu_tracker.gpus.backend import GpuBackend
    from gpu_tracker.gpus.model import GpuReading

    Opener = Callable[[], GpuBackend | None]

TIMEOUT = 2.0
"""Seconds that a poll waits for an answer."""

RETRY = 10.0
"""Seconds between two attempts to open a driver that is there and does not work."""

CHEAP = 0.01
"""Seconds. Where there is no driver, an attempt that took no longer, as where its library is missing, is repeated at
each poll; a library without a driver may start a program that is to load it."""

ANEW = 60.0
"""Seconds after which a driver is opened anew that cannot read all its GPUs, or has none: one that is open does not
see that a GPU was added or reset. Opening takes up to 3 s a GPU where nothing else keeps the driver loaded."""


class DriverAnswer(NamedTuple):
    """What all drivers report at one time."""

    gpus: tuple[GpuReading, ...] | None = None
    """In PCI bus order; None: there is no driver, or none that reports anything."""
    problem: str | None = None
    """Why a driver that is there reports nothing, in words; None: it works, or there is none."""
    is_awaited: bool = False
    """Whether the answer may still come."""


_AWAITED = DriverAnswer(problem='the GPU driver does not answer', is_awaited=True)


class Drivers:
    """The drivers of this machine, opened when they are there and kept open.

    :param openers: The vendors' openers.
    :param timeout: Seconds that a poll waits for an answer.
    :param clock: Returns the seconds that have passed.
    """

    def __init__(
        self,
        openers: Mapping[str, Opener] = CUDA_BACKENDS,
        *,
        timeout: float = TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._drivers = [_Driver(opener, clock) for opener in openers.values()]
        self._timeout = timeout
        self._question: asyncio.Future[DriverAnswer] | None = None

    async def poll(self) -> DriverAnswer:
        """Look at all GPUs, and open what is not open.

        An answer that does not come in time is old when it comes: the poll after that asks anew. Until then polls
        return at once.
        """
        if self._question is not None:
            if not self._question.done():
                return _AWAITED
            self._take_answer()
        self._question = asyncio.ensure_future(in_thread(self._ask))
        await asyncio.wait([self._question], timeout=self._timeout)
        return self._take_answer() if self._question.done() else _AWAITED

    def open_anew(self) -> None:
        """Have the drivers opened anew at the next poll: there may be another GPU."""
        for driver in self._drivers:
            driver.is_outdated = True

    async def close(self) -> None:
        """Let go of the drivers; of one that has not answered yet only the end of this process lets go."""
        if self._question is None or self._question.done():
            closing = asyncio.ensure_future(in_thread(self._close))
            await asyncio.wait([closing], timeout=self._timeout)

    def _take_answer(self) -> DriverAnswer:
        question, self._question = self._question, None
        return DriverAnswer() if question is None else question.result()

    def _ask(self) -> DriverAnswer:
        answers = [driver.ask() for driver in self._drivers]
        known = [answer.gpus for answer in answers if answer.gpus is not None]
        problems = [answer.problem for answer in answers if answer.problem is not None]
        return DriverAnswer(tuple(gpu for gpus in known for gpu in gpus) if known else None, ' '.join(problems) or None)

    def _close(self) -> None:
        for driver in self._drivers:
            driver.close()


class _Driver:
    """The driver of one vendor; one thread at a time asks it."""

    def __init__(self, opener: Opener, clock: Callable[[], float]) -> None:
        self.is_outdated = False
        """Whether it is to be opened anew."""
        self._opener = opener
        self._clock = clock
        self._backend: GpuBackend | None = None
        self._problem: str | None = None
        self._opened_at = 0.0
        self._next_attempt: float | None = None

    def ask(self) -> DriverAnswer:
        """Look at its GPUs, having opened it where that is due."""
        if self.is_outdated:
            self.is_outdated = False
            self.close()
        was_open = self._backend is not None
        backend = self._backend or self._open()
        if backend is None:
            return DriverAnswer(None, self._problem)
        try:
            gpus = tuple(backend.survey(with_sensors=False))
        except GpuError as error:  # it was loaded anew, or is lost
            self.close()
            self._fail(error, retry=0.0 if was_open else RETRY)
            return DriverAnswer(None, self._problem)
        if self._clock() - self._opened_at >= ANEW and (not gpus or any(gpu.problem is not None for gpu in gpus)):
            self.is_outdated = True
        return DriverAnswer(gpus)

    def close(self) -> None:
        """Let go of it."""
        if self._backend is not None:
            self._backend.close()
        self._backend = None

    def _open(self) -> GpuBackend | None:
        if self._next_attempt is not None and self._clock() < self._next_attempt:
            return None
        self._next_attempt = self._problem = None
        began = self._clock()
        try:
            self._backend = self._opener()
        except GpuError as error:
            self._fail(error, retry=RETRY)
            return None
        self._opened_at = self._clock()
        if self._backend is None and self._opened_at - began > CHEAP:
            self._next_attempt = self._opened_at + RETRY
        return self._backend

    def _fail(self, error: GpuError, *, retry: float) -> None:
        self._problem = str(error)
        self._next_attempt = self._clock() + retry
