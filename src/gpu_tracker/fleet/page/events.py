"""The fleet as server-sent events: everything first, then whatever changes.

What is sent is asked for when the last has gone out. So a reader who is slow, or asleep, gets the newest state when it
reads again, and there is no queue that grows.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gpu_tracker.fleet.hosts.fleet import Fleet
    from gpu_tracker.fleet.page.encoded import EncodedFleet

SILENCE = 15.0
"""Seconds after which something is said even if nothing has changed: so the page knows that it is connected."""

_RETRY = 2000
"""Milliseconds after which a browser comes back when the stream has broken."""


async def events(fleet: Fleet, encoded: EncodedFleet, silence: float = SILENCE) -> AsyncIterator[bytes]:
    """Yield the events of one reader until the fleet is closed.

    :param silence: Seconds.
    """
    seen = encoded.version
    yield b'retry: %d\n' % _RETRY + _event(b'fleet', encoded.everything())
    while not fleet.is_closed:
        try:
            async with asyncio.timeout(silence):
                await fleet.change(seen.changes)
        except TimeoutError:
            yield b': still here\n' + _event(b'hosts', encoded.nothing_new())
            continue
        if fleet.is_closed:
            return
        before, seen = seen, encoded.version
        if before.removals == seen.removals:
            yield _event(b'hosts', encoded.changes(before))
        else:  # there is no event for hosts that are no more
            yield _event(b'fleet', encoded.everything())


def _event(name: bytes, data: bytes) -> bytes:
    return b'event: ' + name + b'\ndata: ' + data + b'\n\n'
