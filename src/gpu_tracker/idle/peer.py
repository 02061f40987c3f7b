"""Who is at the other end of a Unix socket."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.users import user_name

if TYPE_CHECKING:
    from collections.abc import Callable

_CREDENTIALS = struct.Struct('iII')
"""struct ucred of unix(7): the IDs of process, user and group."""


class Peer(NamedTuple):
    """The process at the other end: of a connection that was asked for, the one that listens."""

    pid: int | None
    """None where it is not to be seen from here, as the process of another container."""
    user_id: int
    """Whose it is."""

    def in_words(self, name_of: Callable[[int], str] = user_name) -> str:
        """Return it as it stands in a message: ``pid 17, alice``.

        :param name_of: Tells the name of the user with an ID.
        """
        user = name_of(self.user_id)
        return user if self.pid is None else f'pid {self.pid}, {user}'


def peer_of(connected: socket.socket) -> Peer:
    """Return who is at the other end of a connected Unix socket.

    :raises OSError: if the system does not tell.
    """
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user_id, _ = _CREDENTIALS.unpack(credentials)
    return Peer(pid or None, user_id)
