"""One client's connection."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from typing import TYPE_CHECKING

from gpu_tracker.atopgpud import wire
from gpu_tracker.sockets import peer_of

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
        """Whose program it is, which only Unix sockets tell."""
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
        """Return the place for what is missing of the request."""
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
            self._clients.complain(f'a client sent half a request: {bytes(self._request[: self._received])!r}')

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
"""Of the places, so that no single user but root can take them all."""


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
            self.complain('a client was turned away: there are too many')
            goes.drop()
            self.closed(goes)

    def closed(self, connection: Connection) -> None:
        """Take note that a client has gone."""
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
                self.complain('a client has not taken its answer for long')
                connection.drop()

    def close(self) -> None:
        """Drop all."""
        for connection in list(self._connections):
            connection.drop()
