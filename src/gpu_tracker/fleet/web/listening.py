"""The sockets on which a server listens, and the URLs that lead to them."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from gpu_tracker import sockets

if TYPE_CHECKING:
    from collections.abc import Sequence

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
