"""Has the event loop told when devices are opened, where the kernel tells of that."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Protocol

from gpu_tracker.idle.observing.wake import open_wake

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Collection

    from gpu_tracker.idle.observing.wake import Wake

    class Changed(Protocol):
        """Called when something has happened to a device file."""

        def __call__(self, *, opened: bool) -> None:
            """Take note of it; ``opened``: somebody may use a GPU from now on."""


_REST = 20
"""For how many times the processor time that listening has taken it rests."""
_SHORTEST_REST, _LONGEST_REST = 0.02, 1.0
"""Seconds; what would be a shorter rest counts for the next one."""


class DeviceAlarm:
    """Listens to what happens to device files; where that cannot be had it says so once, and stays silent.

    Who opens one all the time does not keep the monitor busy: it listens for a twentieth of the time at most.

    :param folder: Of the device files.
    :param opened_wake: Returns what tells of changes there, or why there is no such thing.
    :param thread_time: Tells the processor time of this thread.
    """

    def __init__(
        self,
        folder: str,
        log: logging.Logger,
        *,
        opened_wake: Callable[[str], tuple[Wake | None, str | None]] = open_wake,
        thread_time: Callable[[], float] = time.thread_time,
    ) -> None:
        self._log = log
        self._thread_time = thread_time
        self._rest = 0.0
        """Seconds that are still to be rested, at the moment :attr:`_heard`."""
        self._heard = 0.0
        self._resting: asyncio.TimerHandle | None = None
        self._wake, self._problem = opened_wake(folder)
        self._tell(self._problem)

    def listen(self, changed: Changed) -> None:
        """Have changes told from now on."""
        if self._wake is not None:
            asyncio.get_running_loop().add_reader(self._wake.fileno(), self._take, changed)

    def watch(self, nodes: Collection[int]) -> None:
        """Listen to these device files and no others."""
        if self._wake is not None:
            problem = self._wake.watch(nodes)
            if problem != self._problem:
                self._tell(problem)
            self._problem = problem

    def close(self) -> None:
        """Listen no more."""
        if self._resting is not None:
            self._resting.cancel()
        if self._wake is not None:
            asyncio.get_running_loop().remove_reader(self._wake.fileno())
            self._wake.close()

    def _take(self, changed: Changed) -> None:
        if self._wake is not None:
            begun = self._thread_time()
            happened = self._wake.drain()
            if happened:
                changed(opened=bool(happened.opened))
            self._pause(self._thread_time() - begun, changed)

    def _pause(self, cost: float, changed: Changed) -> None:
        """Rest before listening again where much has happened lately."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._rest = min(max(0.0, self._rest - (now - self._heard)) + _REST * cost, _LONGEST_REST)
        self._heard = now
        if self._wake is not None and self._rest > _SHORTEST_REST:
            loop.remove_reader(self._wake.fileno())
            self._resting = loop.call_later(self._rest, self.listen, changed)

    def _tell(self, problem: str | None) -> None:
        if problem is not None:
            self._log.warning('%s: who opens a GPU is noticed at the next look only', problem)
