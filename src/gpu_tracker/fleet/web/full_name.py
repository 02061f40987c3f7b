"""This machine's name with its domain, which often a name server has to be asked for."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from gpu_tracker.fleet.web.host_names import LOCAL_NAMES
from gpu_tracker.in_thread import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.fleet.web.host_names import HostNames

_PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Seconds between the first looks: a machine that boots may have its network a little later than its services."""
_LONGEST_PAUSE = 60.0
"""Seconds between the later ones, each of which somebody gives cause for."""


class FullName:
    """Looks in the background until the name is known, and adds it to those that a server answers to.

    :param names: What the server goes by; what it does not know there is cause for a new look.
    :param look_up: Returns the full name of a name, or that name where it finds none.
    """

    def __init__(
        self,
        names: HostNames,
        look_up: Callable[[str], str] = socket.getfqdn,
        pauses: Sequence[float] = _PAUSES,
        longest_pause: float = _LONGEST_PAUSE,
    ) -> None:
        self._names = names
        self._look_up = look_up
        self._pauses = pauses
        self._longest_pause = longest_pause
        self._wanted = asyncio.Event()
        names.on_unknown = self._wanted.set

    async def find(self) -> None:
        """Return when it is found; a machine without a domain has none."""
        if await self._is_found():
            return
        for pause in self._pauses:
            await asyncio.sleep(pause)
            if await self._is_found():
                return
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if await self._is_found():
                return
            await asyncio.sleep(self._longest_pause)

    async def _is_found(self) -> bool:
        try:
            found = await in_thread(lambda: self._look_up(socket.gethostname()))
        except (OSError, UnicodeError):
            return False  # a name that no name server could know either
        if '.' not in found or found in LOCAL_NAMES:
            return False
        self._names.add(found)
        return True
