"""Looks up the addresses of hosts, so that a name server that hangs holds up nobody else.

The event loop's own look-ups share a few threads: a handful of names that hang would keep all others waiting, and the
process from ending.
"""

from __future__ import annotations

import asyncio
import random
import socket
import time
from typing import TYPE_CHECKING, NamedTuple

from aiohttp.abc import AbstractResolver, ResolveResult

from gpu_tracker.background import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

_AT_ONCE = 32
"""Look-ups; those that take long do not count."""
LONG = 1.0
"""Seconds after which another look-up may begin in the place of one that goes on."""
_MOST_THREADS = 256
"""Each look-up has one, also such as take long."""
_LIFE = 60.0
"""Seconds after which an address is looked up anew, while it still is used."""

Place = tuple[int, str]
"""Address family and address."""


class _Known(NamedTuple):
    places: tuple[Place, ...]
    until: float


class Resolver(AbstractResolver):
    """Keeps the addresses of each name, and looks them up anew beside their use.

    :param look_up: Blocks, and returns the addresses of a name; it raises ``OSError`` where there are none.
    :param clock: Returns monotonic seconds.
    :param long: Seconds, see ``LONG``.
    """

    def __init__(
        self,
        look_up: Callable[[str], tuple[Place, ...]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        long: float = LONG,
    ) -> None:
        self._look_up = look_up or _places
        self._long = long
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._running: dict[str, asyncio.Task[tuple[Place, ...]]] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._threads = asyncio.Semaphore(_MOST_THREADS)

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - both families are of use
    ) -> list[ResolveResult]:
        """Return the addresses of a name.

        :raises OSError: It has none.
        """
        known = self._known.get(host)
        if known is None:
            places = await asyncio.shield(self._looking_up(host))
        else:
            places = known.places
            if known.until < self._clock():
                self._looking_up(host)
        return [
            ResolveResult(
                hostname=host,
                host=place,
                port=port,
                family=family,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for family, place in places
        ]

    def is_looking_up(self, host: str) -> bool:
        """Return whether a name has no address yet, and somebody waits for one."""
        return host in self._running and host not in self._known

    async def close(self) -> None:
        """Wait for no look-up any more."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _looking_up(self, host: str) -> asyncio.Task[tuple[Place, ...]]:
        task = self._running.get(host)
        if task is None:
            task = self._running[host] = asyncio.get_running_loop().create_task(self._look_up_in_turn(host))
            task.add_done_callback(lambda done: self._ended(host, done))
        return task

    async def _look_up_in_turn(self, host: str) -> tuple[Place, ...]:
        async with self._threads:
            async with self._turns:
                work = asyncio.ensure_future(in_thread(lambda: self._look_up(host)))
                try:
                    await asyncio.wait([work], timeout=self._long)
                except asyncio.CancelledError:
                    work.cancel()
                    raise
            return await work

    def _ended(self, host: str, task: asyncio.Task[tuple[Place, ...]]) -> None:
        del self._running[host]
        # Where it fails, what was known before still is the best guess; whoever waits gets the error from the task.
        if not task.cancelled() and task.exception() is None:
            life = _LIFE * (1 + random.random())  # noqa: S311 - spreads the look-ups, and is no secret
            self._known[host] = _Known(task.result(), self._clock() + life)


def _places(host: str) -> tuple[Place, ...]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return tuple(dict.fromkeys((int(family), str(place[0])) for family, _, _, _, place in found))
