"""By which names a server may be asked for: the defence against DNS rebinding.

A page of somebody else's can have its own name resolve to this machine, and would then read, in the browser of one who
may, what only that browser can reach. It cannot do so with an address, nor with a name of this machine's.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from typing import TYPE_CHECKING

from gpu_tracker.background import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

LOCAL_NAMES = frozenset({'localhost', 'localhost.localdomain', 'ip6-localhost'})

_HOST = re.compile(r'(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]*)?')


class HostNames:
    """Decides which Host headers name this server.

    :param names: In any case, with or without the dot at the end.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {_plain(name) for name in names if name}
        self.on_unknown: Callable[[], None] = _nothing
        """Called where a name is none of these."""

    def add(self, name: str) -> None:
        """Answer to another name as well."""
        self._names.add(_plain(name))

    def contain(self, host: bytes) -> bool:
        """Return whether a Host header, with or without a port, holds one of the names or any IP address."""
        found = _HOST.fullmatch(host.decode('latin-1'))
        if not found:
            return False
        if found['address'] is not None:
            return _is_address(found['address'], ipaddress.IPv6Address)
        if _plain(found['name']) in self._names or _is_address(found['name'], ipaddress.IPv4Address):
            return True
        self.on_unknown()
        return False


def _is_address(text: str, kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def _nothing() -> None:
    pass


def _plain(name: str) -> str:
    return name.removesuffix('.').lower()


_PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Seconds between the first lookups: a machine that boots may have its network a little later than its services."""
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
