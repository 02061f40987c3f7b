"""The fleet as JSON, encoded once for all who look at it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.fleet.hosts.host import host_as_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from gpu_tracker.fleet.hosts.fleet import Fleet
    from gpu_tracker.fleet.hosts.host import HostState

PIECE = 65536
"""Bytes that are sent at once: what a reader who does not read keeps of its own."""


class Version(NamedTuple):
    """Which state of the fleet somebody has seen."""

    changes: int
    removals: int


class EncodedObject(NamedTuple):
    """An object in JSON."""

    beginning: bytes
    """With the time at which it was asked for."""
    rest: bytes
    """The same one for all who ask for it until something changes."""

    def pieces(self, before: bytes = b'', after: bytes = b'') -> Iterator[bytes]:
        """Yield it and what stands around it, as one piece if it is small."""
        before += self.beginning
        if len(before) + len(self.rest) + len(after) <= PIECE:
            yield before + self.rest + after
            return
        yield before
        for begin in range(0, len(self.rest), PIECE):
            yield self.rest[begin : begin + PIECE]
        if after:
            yield after


class EncodedFleet:
    """Encodes a host when it has changed and an answer when it is a new one, however many wait for it.

    It belongs to the fleet's event loop.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._hosts: dict[str, tuple[HostState, bytes]] = {}
        self._everything: tuple[Version, bytes] | None = None
        self._changes: tuple[Version, Version, bytes] | None = None

    @property
    def version(self) -> Version:
        """The fleet's state now."""
        return Version(self._fleet.version, self._fleet.removals)

    def everything(self) -> EncodedObject:
        """Return ``time``, ``totals``, ``hosts`` and ``interval_seconds``."""
        now = self.version
        if self._everything is None or self._everything[0] != now:
            states = self._states()
            self._everything = now, self._rest(states, {'interval_seconds': self._fleet.interval})
        return self._at_this_time(self._everything[1])

    def pieces(self) -> Iterator[bytes]:
        """Yield what :meth:`everything` returns host by host, as they are now."""
        states = self._states()
        fleet = self._fleet
        fields = {'time': fleet.now(), 'totals': fleet.totals()._asdict(), 'interval_seconds': fleet.interval}
        before = _json(fields)[:-1] + b',"hosts":['
        for state in states:
            yield before + self._host(state)
            before = b','
        yield b']}' if before == b',' else before + b']}'

    def _states(self) -> tuple[HostState, ...]:
        """Return all hosts, and forget what others were encoded as."""
        states = self._fleet.states()
        self._hosts = {state.id: self._hosts[state.id] for state in states if state.id in self._hosts}
        return states

    def changes(self, since: Version) -> EncodedObject:
        """Return ``time``, ``totals``, and as ``hosts`` those that have changed; none may have been removed since."""
        now = self.version
        if self._changes is None or self._changes[:2] != (since, now):
            self._changes = since, now, self._rest(self._fleet.changed_since(since.changes), {})
        return self._at_this_time(self._changes[2])

    def nothing_new(self) -> EncodedObject:
        """Return what :meth:`changes` does where no host has changed: what time it is."""
        return self._at_this_time(self._rest((), {}))

    def _at_this_time(self, rest: bytes) -> EncodedObject:
        """Complete an object: what is kept of it holds until something changes, and the time goes on."""
        return EncodedObject(b'{"time":' + _json(self._fleet.now()) + b',', rest)

    def _rest(self, states: Iterable[HostState], others: dict[str, object]) -> bytes:
        fields = {'totals': self._fleet.totals()._asdict(), **others}
        hosts = b','.join(map(self._host, states))
        return b''.join([_json(fields)[1:-1], b',"hosts":[', hosts, b']}'])

    def _host(self, state: HostState) -> bytes:
        kept = self._hosts.get(state.id)
        if kept is None or kept[0] is not state:
            kept = self._hosts[state.id] = state, _json(host_as_json(state))
        return kept[1]


def _json(value: object) -> bytes:
    """Encode in ASCII, without a line break: both can stand in an event as they are."""
    return json.dumps(value, separators=(',', ':'), allow_nan=False).encode('ascii')


SILENCE = 15.0
"""Seconds after which something is said even if nothing has changed: so the page knows that it is connected."""

_RETRY = 2000
"""Milliseconds after which a browser comes back when the stream has broken."""


async def events(fleet: Fleet, encoded: EncodedFleet, silence: float = SILENCE) -> AsyncIterator[bytes]:
    """Yield the events of one reader, in pieces, until the fleet is closed.

    :param silence: Seconds.
    """
    seen = encoded.version
    for piece in _event(b'fleet', encoded.everything(), b'retry: %d\n' % _RETRY):
        yield piece
    while not fleet.is_closed:
        try:
            async with asyncio.timeout(silence):
                await fleet.change(seen.changes)
        except TimeoutError:
            for piece in _event(b'hosts', encoded.nothing_new(), b': still here\n'):
                yield piece
            continue
        if fleet.is_closed:
            return
        before, seen = seen, encoded.version
        if before.removals == seen.removals:
            event = _event(b'hosts', encoded.changes(before))
        else:  # there is no event for hosts that are no more
            event = _event(b'fleet', encoded.everything())
        for piece in event:
            yield piece


def _event(name: bytes, data: EncodedObject, before: bytes = b'') -> Iterator[bytes]:
    return data.pieces(before + b'event: ' + name + b'\ndata: ', b'\n\n')
