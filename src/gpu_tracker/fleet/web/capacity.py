"""Room for so many clients: who gets a slot, and who gives one up where there is none left."""

from __future__ import annotations

import ipaddress
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Limits(NamedTuple):
    """Bounds for clients; times are seconds."""

    connections: int = 512
    """At a time; where one more comes, the one is closed that has waited longest for a request."""
    connections_of_an_address: int = 64
    """At a time from one IPv4 address or one /64 of IPv6; loopback has no such bound: proxies come from there."""
    head_time: float = 10.0
    """From the first byte, or the connection, until a whole request head is there; also for a TLS handshake."""
    idle_time: float = 75.0
    """Without a request on a connection kept alive: longer than the minute at which Prometheus asks by default."""
    stranger_idle_time: float = 5.0
    """The same for a client that has asked for nothing yet but what is open to everybody."""
    unread_time: float = 30.0
    """In which a client takes nothing of its answer."""
    head_size: int = 32 * 1024
    """Bytes of a request head: browsers send the cookies of all services of a host, whatever their port."""
    target_size: int = 4096
    """Bytes of path and query."""
    end_time: float = 1.0
    """Between the wish to end and that what is being answered is cut off."""


class NoCapacityError(Exception):
    """Nobody can be taken in; the text says why."""


class Slot:
    """What one connection takes, from its first moment: one in a TLS handshake takes a slot as well.

    :param now: The time at which it comes, in seconds of the event loop.
    """

    def __init__(self, capacity: Capacity, peer: str, now: float) -> None:
        self.peer = peer
        self.may_read = False
        """Whether its client has shown that it may read."""
        self.waiting_since: float | None = now
        """Since when it has waited for a request; None: it is being answered, and its client may read."""
        self.give_up: Callable[[], None] = _nothing
        """Closes the connection."""
        self._capacity: Capacity | None = capacity

    def leave(self) -> None:
        """Give the slot back; who says so first, and again, does not matter."""
        if self._capacity:
            self._capacity.remove(self)
            self._capacity = None


class Capacity:
    """The slots for all connections.

    :param complain: Takes lines about clients whose connection is closed.
    """

    def __init__(self, limits: Limits, complain: Callable[[str], None]) -> None:
        self._limits = limits
        self._complain = complain
        self._taken: set[Slot] = set()
        self._of_address: Counter[str] = Counter()

    def __len__(self) -> int:
        """Return how many are taken."""
        return len(self._taken)

    def take(self, peer: str, now: float) -> Slot:
        """Return a slot for a new connection; where all are taken, that of who has waited longest for a request.

        Those who have not shown that they may read give theirs up first, and those who are being answered never.

        :raises NoCapacityError: All are taken, or the client's address has as many as one may have.
        """
        address = counted_address(peer)
        if address and self._of_address[address] >= self._limits.connections_of_an_address:
            raise NoCapacityError(f'it has {self._of_address[address]} connections')
        if len(self) >= self._limits.connections:
            self._make_room()
        slot = Slot(self, peer, now)
        self._taken.add(slot)
        self._of_address[address] += 1
        return slot

    def remove(self, slot: Slot) -> None:
        """Take a slot back; called by the slot itself."""
        address = counted_address(slot.peer)
        self._taken.discard(slot)
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]

    def _make_room(self) -> None:
        waiting = [(one.may_read, one.waiting_since, one) for one in self._taken if one.waiting_since is not None]
        if not waiting:
            raise NoCapacityError(f'there are {len(self)} connections')
        *_, slot = min(waiting, key=lambda found: found[:2])
        self._complain(
            f'there are {len(self)} connections: that of a client at {slot.peer}, which waited longest, was closed'
        )
        slot.leave()
        slot.give_up()


def counted_address(peer: str) -> str:
    """Return that by which a client is counted: an IPv6 client has a whole /64 to choose from; nothing for loopback."""
    address = ipaddress.ip_address(peer.partition('%')[0])
    if address.is_loopback:
        return ''
    return (
        str(ipaddress.ip_network((address, 64), strict=False)) if isinstance(address, ipaddress.IPv6Address) else peer
    )


def _nothing() -> None:
    pass
