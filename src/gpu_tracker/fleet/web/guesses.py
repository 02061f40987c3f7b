"""How long a client waits until its secret is compared, so that nobody finds one by trying."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Value = TypeVar('Value')

DELAY = 1.0
"""Seconds before a secret is compared where too many were wrong."""
MEMORY = 60.0
"""Seconds in which wrong secrets are counted, from the first one on."""
MOST_OF_AN_ADDRESS = 5
"""Wrong secrets in that time, above which a client of the same address waits."""
MOST_OF_ALL = 100
"""Wrong secrets in that time, above which clients of all addresses wait that have not shown a right one lately."""
MOST_WAITING = 8
"""Clients of one address that wait at a time; another one is refused and has to come again."""
_KNOWN_FOR = 3600.0
"""Seconds for which an address that has shown a right secret does not wait because of the others."""
_MOST_ADDRESSES = 4096


class _Count:
    """Wrong secrets since a time."""

    __slots__ = ('begun', 'wrong')

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.wrong = 0


class Guesses:
    """Counts wrong secrets, by address and in all.

    Right and wrong secrets wait alike, so that no quick answer gives one away. Nobody is refused for what others have
    tried from elsewhere, and a client that has shown a right secret does not wait again on the same connection: the
    connection itself knows that.

    Addresses are those of :func:`gpu_tracker.fleet.web.capacity.counted_address`.

    :param clock: Monotonic seconds.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._all = _Count(clock())
        self._of_address: dict[str, _Count] = {}
        self._known: dict[str, float] = {}
        self._waiting: Counter[str] = Counter()

    async def wait(self, address: str) -> bool:
        """Wait as long as a client at this address has to; return False, at once, where too many of them wait."""
        delay = self.delay(address)
        if not delay:
            return True
        if self._waiting[address] >= MOST_WAITING:
            return False
        self._waiting[address] += 1
        try:
            await self._sleep(delay)
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]
        return True

    def delay(self, address: str) -> float:
        """Return how many seconds a client at this address has to wait."""
        now = self._clock()
        count = self._of_address.get(address)
        if count is not None and now - count.begun < MEMORY and count.wrong >= MOST_OF_AN_ADDRESS:
            return DELAY
        is_known = now - self._known.get(address, -_KNOWN_FOR) < _KNOWN_FOR
        if not is_known and now - self._all.begun < MEMORY and self._all.wrong >= MOST_OF_ALL:
            return DELAY
        return 0.0

    def was_right(self, address: str) -> None:
        """Take note of a right secret."""
        _keep(self._known, address, self._clock())

    def was_wrong(self, address: str) -> None:
        """Take note of a wrong secret."""
        now = self._clock()
        if now - self._all.begun >= MEMORY:
            self._all = _Count(now)
        self._all.wrong += 1
        count = self._of_address.get(address)
        if count is None or now - count.begun >= MEMORY:
            count = _Count(now)
            _keep(self._of_address, address, count)
        count.wrong += 1


def _keep(kept: dict[str, Value], address: str, value: Value) -> None:
    """Keep what is known of an address, as the newest; the oldest goes where there are too many."""
    kept.pop(address, None)
    while len(kept) >= _MOST_ADDRESSES:
        del kept[next(iter(kept))]
    kept[address] = value
