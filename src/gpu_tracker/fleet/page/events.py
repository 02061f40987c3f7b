"""The fleet as server-sent events: everything first, then whatever changes.

What is sent is asked for when the last has gone out, and goes out in pieces, each when there is room for it. So a
reader who is slow, or asleep, gets the newest state when it reads again, and there is no queue that grows.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from gpu_tracker.fleet.hosts.fleet import Fleet
    from gpu_tracker.fleet.page.encoded import EncodedFleet, EncodedObject

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
