"""How much, and for how long, one client may occupy."""

from __future__ import annotations

from typing import NamedTuple

LAST_MOMENT = 0.5
"""Seconds that what is cancelled or cut off at the end has to note it."""


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
