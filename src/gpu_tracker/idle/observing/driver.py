"""What NVIDIA's driver reports to the monitor at one poll, and when the driver is opened."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.background import in_thread
from gpu_tracker.errors import GpuError
from gpu_tracker.gpus.driver import Driver as DriverThread
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
    """The driver of NVIDIA's GPUs, opened when it is there and kept open.

    :param opener: Opens it; returns None if it is missing.
    :param timeout: Seconds that a poll waits for an answer.
    :param clock: Monotonic seconds.
    """

    def __init__(
        self,
        opener: Callable[[], GpuBackend | None] = BACKENDS['nvidia'],
        *,
        timeout: float = TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver = DriverThread('nvidia', opener)
        self._timeout = timeout
        self._clock = clock
        self._is_outdated = False
        """Whether it is to be opened anew."""
        self._problem: str | None = None
        self._opened_at: float | None = None
        self._next_attempt = float('-inf')

    async def poll(self) -> DriverAnswer:
        """Read all GPUs, and open the driver if it is not open.

        An answer that does not come in time is old when it comes: the poll after that asks anew. Until then polls
        return at once.
        """
        return await in_thread(self._poll)

    def open_anew(self) -> None:
        """Have the driver opened anew at the next poll: there may be another GPU."""
        self._is_outdated = True

    async def close(self) -> None:
        """Let go of the driver; if it does not answer, only the end of this process lets go."""
        await in_thread(self._close)

    def _poll(self) -> DriverAnswer:
        if self._is_outdated:
            self._close()
            self._is_outdated = self._driver.backend is not None
        was_open = self._driver.backend is not None
        began = self._clock()
        if not was_open and began < self._next_attempt:
            return DriverAnswer(None, self._problem)
        self._problem = None
        gpus: tuple[GpuReading, ...] | None
        try:
            self._driver.ask(lambda backend: tuple(backend.survey(with_sensors=False)))
            gpus = self._driver.answer(self._timeout)
        except TimeoutError:
            return _AWAITED
        except GpuError as error:  # it was loaded anew, is lost, or does not work
            self._close()
            self._problem = str(error)
            self._next_attempt = self._clock() + (0.0 if was_open else RETRY)
            return DriverAnswer(None, self._problem)
        now = self._clock()
        if gpus is None:
            if now - began > CHEAP:
                self._next_attempt = now + RETRY
            return DriverAnswer()
        if self._opened_at is None:
            self._opened_at = now
        if now - self._opened_at >= ANEW and (not gpus or any(gpu.problem is not None for gpu in gpus)):
            self._is_outdated = True
        return DriverAnswer(gpus)

    def _close(self) -> None:
        self._driver.close(self._timeout)
        self._opened_at = None
