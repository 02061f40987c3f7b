"""Has the event loop told when devices are opened, where the kernel tells of that."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from gpu_tracker.idle.observing.wake import open_wake

if TYPE_CHECKING:
    import logging
    from collections.abc import Collection

    class Changed(Protocol):
        """Called when something has happened to a device file."""

        def __call__(self, *, opened: bool) -> None:
            """Take note of it; ``opened``: somebody may use a GPU from now on."""


class DeviceAlarm:
    """Listens to what happens to device files; where that cannot be had it says so once, and stays silent.

    :param folder: Of the device files.
    """

    def __init__(self, folder: str, log: logging.Logger) -> None:
        self._log = log
        self._wake, self._problem = open_wake(folder)
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
        if self._wake is not None:
            asyncio.get_running_loop().remove_reader(self._wake.fileno())
            self._wake.close()

    def _take(self, changed: Changed) -> None:
        if self._wake is not None:
            happened = self._wake.drain()
            if happened:
                changed(opened=bool(happened.opened))

    def _tell(self, problem: str | None) -> None:
        if problem is not None:
            self._log.warning('%s: who opens a GPU is noticed at the next look only', problem)
