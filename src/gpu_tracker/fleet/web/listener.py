"""The listener: it accepts connections, each of which takes a descriptor."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import TYPE_CHECKING

from gpu_tracker.fleet.web.capacity import Capacity, NoCapacityError
from gpu_tracker.system import sockets

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from gpu_tracker.fleet.web.capacity import Limits, Slot

ENOUGH = 65536
"""More are of no use, and some containers allow a thousand millions, which old libraries walk through one by one."""


def allow_many_files() -> None:
    """Raise how many files this process may have open, as far as it may: the usual 1,024 are few for a server."""
    if sys.platform == 'win32':
        return  # which has no such limit
    import resource  # noqa: PLC0415 - on POSIX only

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


_TRIES = 10
"""To find a port that is free at each of several addresses."""


def listening_sockets(addresses: Sequence[sockets.Address]) -> list[socket.socket]:
    """Return a listening socket for each address; where the port is 0, all get the same, any that is free.

    :raises AddressTakenError: Another program has the port.
    """
    for _ in range(_TRIES - 1):
        try:
            return _all_or_none(addresses)
        except sockets.AddressTakenError:
            if len(addresses) == 1 or addresses[0].port:
                raise
    return _all_or_none(addresses)


def url(scheme: str, listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    if listener.family == socket.AF_INET6:
        host = f'[{host.replace("%", "%25")}]'
    return f'{scheme}://{host}:{port}'


def _all_or_none(addresses: Sequence[sockets.Address]) -> list[socket.socket]:
    found: list[socket.socket] = []
    try:
        for address in addresses:
            port = address.port or (found[0].getsockname()[1] if found else 0)
            found.append(sockets.tcp_socket(_at_port(address, port)))
    except sockets.AddressTakenError:
        for listener in found:
            listener.close()
        raise
    return found


def _at_port(address: sockets.Address, port: int) -> sockets.Address:
    return address._replace(port=port, place=(address.place[0], port, *address.place[2:]))


_AT_A_TIME = 16
"""Connections accepted in one turn of the event loop, so that many that come do not stop those that are there."""
_PAUSE = 0.5
"""Seconds in which nobody is accepted after the system has had nothing left for a connection."""
_GOODBYE = 1.0
"""Seconds for the end of TLS."""


class Listener:
    """Accepts connections and counts them from their first moment: one in a TLS handshake takes a slot as well.

    asyncio's own servers would count only those whose handshake is done.

    :param sockets: Which listen.
    :param tls: None: there is none. The attribute of this name may be replaced.
    :param make: Returns the protocol of a new connection; gets its slot, which it has to leave at its end.
    :param complain: Takes lines about clients that are turned away or whose connection is closed for others.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        make: Callable[[Slot], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None,
        limits: Limits,
        complain: Callable[[str], None],
    ) -> None:
        self._sockets = list(sockets)
        self._make = make
        self.tls = tls
        self._limits = limits
        self._complain = complain
        self._loop = asyncio.get_running_loop()
        self._capacity = Capacity(limits, complain)
        self._arriving: set[asyncio.Task[None]] = set()
        self._pauses: list[asyncio.TimerHandle] = []

    def open(self) -> None:
        """Begin to accept."""
        for listener in self._sockets:
            listener.settimeout(0)
            self._loop.add_reader(listener, self._accept_some, listener)

    def close(self) -> None:
        """Accept nobody any more, and drop those in the middle of a TLS handshake."""
        for pause in self._pauses:
            pause.cancel()
        for listener in self._sockets:
            self._loop.remove_reader(listener)
            listener.close()
        self._sockets.clear()
        for task in self._arriving:
            task.cancel()

    @property
    def count(self) -> int:
        """How many connections there are."""
        return len(self._capacity)

    def _accept_some(self, listener: socket.socket) -> None:
        for _ in range(_AT_A_TIME):
            try:
                connection, peer = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return  # nobody else is there, or has gone already
            except OSError as error:
                self._pause(listener, error)
                return
            self._admit(connection, str(peer[0]))

    def _pause(self, listener: socket.socket, error: OSError) -> None:
        """Leave clients waiting for a moment: the system has no descriptor or no memory for another."""
        self._complain(f'cannot accept a connection: {error.strerror}')
        self._loop.remove_reader(listener)
        self._pauses = [pause for pause in self._pauses if pause.when() > self._loop.time()]
        self._pauses.append(self._loop.call_later(_PAUSE, self._loop.add_reader, listener, self._accept_some, listener))

    def _admit(self, connection: socket.socket, peer: str) -> None:
        try:
            slot = self._capacity.take(peer, self._loop.time())
        except NoCapacityError as error:
            self._complain(f'a client at {peer} was turned away: {error}')
            connection.close()
            return
        task = self._loop.create_task(self._welcome(connection, slot))
        self._arriving.add(task)

        def arrived(_: asyncio.Task[None]) -> None:
            self._arriving.discard(task)
            if task.cancelled():
                connection.close()  # perhaps nothing has begun yet that would do so

        task.add_done_callback(arrived)

        def give_up() -> None:
            task.cancel()

        slot.give_up = give_up

    async def _welcome(self, connection: socket.socket, slot: Slot) -> None:
        """Make a connection's protocol, after the handshake where there is TLS."""
        connection.settimeout(0)
        if hasattr(socket, 'TCP_USER_TIMEOUT'):
            # Linux: also gives up a client that answers probes and reads nothing, however little is left to be sent,
            # and where the connection is closed here already: tcp(7).
            milliseconds = round(self._limits.unread_time * 1000)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._make(slot),
                connection,
                ssl=self.tls,
                ssl_handshake_timeout=self._limits.head_time if self.tls else None,
                ssl_shutdown_timeout=_GOODBYE if self.tls else None,
            )
        except OSError:
            slot.leave()  # no TLS, no certificate or none that is good, too slow, or gone: the client's own affair
        except asyncio.CancelledError:
            slot.leave()
            raise
