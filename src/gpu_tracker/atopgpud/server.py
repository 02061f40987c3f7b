"""The servers on all sockets."""

from __future__ import annotations

import asyncio
import resource
from typing import TYPE_CHECKING

from gpu_tracker.atopgpud.clients import Clients, Connection
from gpu_tracker.sockets import BACKLOG

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from gpu_tracker.atopgpud.ledger import Ledger

MOST_CLIENTS = 2000
"""Connections of each kind at a time, TCP and Unix, so that neither can take the other's places."""

_VERSION_OF_TCP = 1
_VERSION_OF_UNIX = 2
_AT_A_TIME = 16
"""Connections accepted in one turn of the event loop, which counts them some turns later: more would run through the
descriptors, and then asyncio accepts nobody for a second."""
_OTHER_DESCRIPTORS = 256
"""For connections accepted and not counted or not closed yet, and for the drivers."""


class Server:
    """Answers clients from the ledger.

    :param complain: Logs what a client did wrong.
    :param note: Logs that clients come and go.
    :param most_clients: Connections of each kind at a time; fewer where there may not be as many descriptors.
    """

    def __init__(
        self,
        ledger: Ledger,
        complain: Callable[[str], None],
        note: Callable[[str], None],
        most_clients: int = MOST_CLIENTS,
    ) -> None:
        places = _descriptors(2 * most_clients + _OTHER_DESCRIPTORS) - _OTHER_DESCRIPTORS
        self._over_tcp, self._over_unix = (Clients(ledger, complain, note, max(1, places // 2)) for _ in range(2))
        self._servers: list[asyncio.Server] = []

    async def listen(self, tcp: list[socket.socket], unix: socket.socket) -> None:
        """Begin to answer."""
        loop = asyncio.get_running_loop()
        for listener in tcp:
            self._servers.append(
                await loop.create_server(
                    lambda: Connection(self._over_tcp, _VERSION_OF_TCP), sock=listener, backlog=_AT_A_TIME
                )
            )
        self._servers.append(
            await loop.create_unix_server(
                lambda: Connection(self._over_unix, _VERSION_OF_UNIX), sock=unix, backlog=_AT_A_TIME
            )
        )
        for listener in (*tcp, unix):
            listener.listen(BACKLOG)  # asyncio takes one number for both, and has made it that of a turn

    def give_up_stalled(self, now: float) -> None:
        """Drop clients that have not taken their answer for long; ``now`` is the event loop's time."""
        for clients in (self._over_tcp, self._over_unix):
            clients.give_up_stalled(now)

    def close(self) -> None:
        """Answer no more."""
        for server in self._servers:
            server.close()
        for clients in (self._over_tcp, self._over_unix):
            clients.close()


def _descriptors(wanted: int) -> int:
    """Return how many of the descriptors wanted this process may have, having asked for them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft
