"""Reads the configuration again while the monitor goes on."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING

from gpu_tracker.background import in_thread
from gpu_tracker.idle.config.read import read as read_configuration

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from gpu_tracker.idle.config.read import Reading
    from gpu_tracker.idle.config.settings import Settings


class Reloading:
    """Reads a file in a thread, because it may hang: what it names may lie on a server that does not answer.

    :param path: Of the file.
    :param done: Called when there is something to take.
    :param read: Reads it.
    """

    def __init__(
        self,
        path: str,
        log: logging.Logger,
        done: Callable[[], None],
        *,
        read: Callable[[str], Reading] = read_configuration,
    ) -> None:
        self._path = path
        self._log = log
        self._done = done
        self._read_file = read
        self._task: asyncio.Task[None] | None = None
        self._is_asked_again = False
        self._reading: Reading | None = None

    def ask(self) -> None:
        """Have the file read, after the reading that goes on if there is one."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._read())
        else:
            self._is_asked_again = True
            self._log.warning('SIGHUP: %s is still being read since the one before; then it is read anew', self._path)

    def take(self, current: Settings) -> Settings | None:
        """Return what was read last, once; None: nothing was, or nothing that can be used, which is told."""
        reading, self._reading = self._reading, None
        if reading is None:
            return None
        for problem in reading.warnings:
            self._log.warning('%s', problem.describe(self._path))
        for problem in reading.errors:
            self._log.error('%s', problem.describe(self._path))
        settings = reading.settings
        if settings is None:
            self._log.error('SIGHUP: %s has errors, so nothing changes', self._path)
            return None
        if current.programs and not settings.programs:  # it may just be written: that must not stop everything
            self._log.error('SIGHUP: %s has no program, so nothing changes', self._path)
            return None
        self._log.info('SIGHUP: %s is read again', self._path)
        return settings

    async def _read(self) -> None:
        try:
            self._reading = await in_thread(functools.partial(self._read_file, self._path))
        except Exception:  # noqa: BLE001 - whatever it is, the monitor goes on
            self._log.exception('SIGHUP: %s cannot be read', self._path)
        self._task = None
        if self._is_asked_again:
            self._is_asked_again = False
            self.ask()
        self._done()
