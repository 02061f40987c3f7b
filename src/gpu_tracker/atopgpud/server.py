"""The servers on all sockets, their clients, and how many of these there may be."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections import Counter
from typing import TYPE_CHECKING

from gpu_tracker.atopgpud import wire
from gpu_tracker.system.sockets import BACKLOG, peer_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.atopgpud.ledger import Ledger


class Connection(asyncio.BufferedProtocol):
    """Reads one request at a time, and the next one only when the client has taken the answer to the last.

    So a client that asks without reading, or writes nonsense without end, costs no memory, and no more than its turn.

    :param highest: The highest version of the protocol that is spoken here.
    """

    def __init__(self, clients: Clients, highest: int) -> None:
        self._clients = clients
        self._highest = highest
        self._visitor = clients.ledger.welcome()
        self._request = bytearray(wire.REQUEST_LENGTH)
        self._received = 0
        self._transport: asyncio.Transport | None = None
        self.user: int | None = None
        """Whose program it is; known of Unix sockets only."""
        self.has_asked = False
        """Whether the client has ever sent a good request."""
        self.stalled_since: float | None = None
        """Since when the client has not taken its answer, in the event loop's time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = transport  # type: ignore[assignment] # of a stream it is a Transport
        self._transport.set_write_buffer_limits(high=0)  # type: ignore[union-attr]
        self.user = _user(transport.get_extra_info('socket'))
        self._clients.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """End: whose fault it was makes no difference."""
        self._clients.closed(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's
        """Return the buffer for what is missing of the request."""
        return memoryview(self._request)[self._received :]

    def buffer_updated(self, nbytes: int) -> None:
        """Answer when the request is complete."""
        self._received += nbytes
        if self._received == wire.REQUEST_LENGTH:
            self._received = 0
            self._answer(*self._request)

    def eof_received(self) -> None:
        """Close: nothing more will be asked."""
        if self._received:
            self._clients.complain(
                f'a client disconnected after an incomplete request: {bytes(self._request[: self._received])!r}'
            )

    def pause_writing(self) -> None:
        """Take no more requests from a client that does not take its answer."""
        self.stalled_since = asyncio.get_running_loop().time()
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Take requests again."""
        self.stalled_since = None
        if self._transport is not None:
            self._transport.resume_reading()

    def drop(self) -> None:
        """Close at once, whatever the client has not taken."""
        if self._transport is not None:
            self._transport.abort()

    def _answer(self, command: int, version: int) -> None:
        if self._transport is None:
            return
        spoken = version if 1 <= version <= self._highest else self._highest
        if command == wire.TYPES:
            answer = self._clients.ledger.types(spoken, self._visitor)
        elif command == wire.STATISTICS:
            answer = self._clients.ledger.statistics(spoken, self._visitor)
        else:
            self._clients.complain(f'a client sent an unknown request: {bytes(self._request)!r}')
            self._transport.close()
            return
        self.has_asked = True
        self._transport.write(answer)


def _user(connected: socket.socket) -> int | None:
    if connected.family != socket.AF_UNIX:
        return None
    return peer_of(connected).user_id


_STALLED = 30.0
"""Seconds after which a client is given up that does not take its answer. atop gives its daemon up after two."""
_SHARE_OF_A_USER = 0.75
"""Of the capacity, so that no single user but root can use all of it."""


class Clients:
    """The clients of one kind of socket.

    :param complain: Logs what a client did wrong.
    :param note: Logs that clients come and go.
    :param most: How many there may be.
    """

    def __init__(self, ledger: Ledger, complain: Callable[[str], None], note: Callable[[str], None], most: int) -> None:
        self.ledger = ledger
        self.complain = complain
        self._note = note
        self._most = most
        self._most_of_a_user = max(1, int(most * _SHARE_OF_A_USER))
        self._connections: dict[Connection, None] = {}  # in the order in which they came
        self._by_user: Counter[int | None] = Counter()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._connections)

    def opened(self, connection: Connection) -> None:
        """Take a new client in; where there are too many, the oldest goes that has never asked, or else the new one."""
        self._connections[connection] = None
        self._by_user[connection.user] += 1
        self._note(f'a client has come: {len(self)} of its kind')
        is_crowd = bool(connection.user) and self._by_user[connection.user] > self._most_of_a_user
        if is_crowd or len(self) > self._most:
            others = (other for other in self._connections if not is_crowd or other.user == connection.user)
            goes = next((other for other in others if not other.has_asked), connection)
            self.complain('disconnected a client: too many clients are connected')
            goes.drop()
            self.closed(goes)

    def closed(self, connection: Connection) -> None:
        """Record that a client has gone."""
        if connection in self._connections:
            del self._connections[connection]
            self._by_user[connection.user] -= 1
            if not self._by_user[connection.user]:
                del self._by_user[connection.user]
            self._note(f'a client has gone: {len(self)} of its kind')

    @property
    def stalled(self) -> list[Connection]:
        """Those who have not taken their answer yet."""
        return [connection for connection in self._connections if connection.stalled_since is not None]

    def give_up_stalled(self, now: float) -> None:
        """Drop those who have not taken their answer for long; ``now`` is the event loop's time."""
        for connection in self.stalled:
            if now - (connection.stalled_since or now) > _STALLED:
                self.complain('disconnected a client that did not read its response')
                connection.drop()

    def close(self) -> None:
        """Drop all."""
        for connection in list(self._connections):
            connection.drop()


MOST_CLIENTS = 2000
"""Connections of each kind at a time, TCP and Unix, so that neither can use the other's capacity."""

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
        capacity = _descriptors(2 * most_clients + _OTHER_DESCRIPTORS) - _OTHER_DESCRIPTORS
        self._over_tcp, self._over_unix = (Clients(ledger, complain, note, max(1, capacity // 2)) for _ in range(2))
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
