"""What the GPU driver reports, asked in a thread: a call into a driver may hang for ever, and cannot be interrupted."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.background import in_thread
from gpu_tracker.errors import GpuError
from gpu_tracker.gpus.opening import BACKENDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.gpus.backend import GpuBackend
    from gpu_tracker.gpus.model import GpuReading

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
    """What the driver reports at one time."""

    gpus: tuple[GpuReading, ...] | None = None
    """In PCI bus order; None: there is no driver, or none that reports anything."""
    problem: str | None = None
    """Why a driver that is there reports nothing, in words; None: it works, or there is none."""
    is_awaited: bool = False
    """Whether the answer may still come."""


_AWAITED = DriverAnswer(problem='the GPU driver does not answer', is_awaited=True)


class Driver:
    """The driver of NVIDIA's GPUs, opened when it is there and kept open; one thread at a time asks it.

    :param opener: Opens it; None where it is missing.
    :param timeout: Seconds that a poll waits for an answer.
    :param clock: Returns the seconds that have passed.
    """

    def __init__(
        self,
        opener: Callable[[], GpuBackend | None] = BACKENDS['nvidia'],
        *,
        timeout: float = TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._opener = opener
        self._timeout = timeout
        self._clock = clock
        self._question: asyncio.Future[DriverAnswer] | None = None
        self._is_outdated = False
        """Whether it is to be opened anew."""
        self._backend: GpuBackend | None = None
        self._problem: str | None = None
        self._opened_at = 0.0
        self._next_attempt = float('-inf')

    async def poll(self) -> DriverAnswer:
        """Read all GPUs, and open the driver if it is not open.

        An answer that does not come in time is old when it comes: the poll after that asks anew. Until then polls
        return at once.
        """
        if self._question is not None:
            if not self._question.done():
                return _AWAITED
            self._take_answer(self._question)
        question = self._question = asyncio.ensure_future(in_thread(self._ask))
        await asyncio.wait([question], timeout=self._timeout)
        return self._take_answer(question) if question.done() else _AWAITED

    def open_anew(self) -> None:
        """Have the driver opened anew at the next poll: there may be another GPU."""
        self._is_outdated = True

    async def close(self) -> None:
        """Let go of the driver; if it has not answered yet, only the end of this process lets go."""
        if self._question is None or self._question.done():
            closing = asyncio.ensure_future(in_thread(self._close))
            await asyncio.wait([closing], timeout=self._timeout)

    def _take_answer(self, question: asyncio.Future[DriverAnswer]) -> DriverAnswer:
        self._question = None
        return question.result()

    def _ask(self) -> DriverAnswer:
        if self._is_outdated:
            self._is_outdated = False
            self._close()
        was_open = self._backend is not None
        backend = self._backend or self._open()
        if backend is None:
            return DriverAnswer(None, self._problem)
        try:
            gpus = tuple(backend.survey(with_sensors=False))
        except GpuError as error:  # it was loaded anew, or is lost
            self._close()
            self._fail(error, retry=0.0 if was_open else RETRY)
            return DriverAnswer(None, self._problem)
        if self._clock() - self._opened_at >= ANEW and (not gpus or any(gpu.problem is not None for gpu in gpus)):
            self._is_outdated = True
        return DriverAnswer(gpus)

    def _close(self) -> None:
        if self._backend is not None:
            self._backend.close()
        self._backend = None

    def _open(self) -> GpuBackend | None:
        began = self._clock()
        if began < self._next_attempt:
            return None
        self._problem = None
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
