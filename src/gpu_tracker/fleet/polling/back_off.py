"""How long a host that fails is left alone."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = 30.0
"""Seconds: a host that comes back is seen by then."""

_MOST_DOUBLINGS = 16


class BackOff:
    """Doubles the pause of one host with each failure, by chance a little less: not all are asked in the same round.

    After the first failure it is asked in the next round.

    :param interval: Seconds between two rounds.
    :param longest: Seconds that no pause exceeds, unless ``interval`` does.
    :param chance: Tells numbers from 0 to 1.
    """

    __slots__ = ('_chance', '_due', '_failures', '_interval', '_longest')

    def __init__(self, interval: float, longest: float = LONGEST, chance: Callable[[], float] = random.random) -> None:
        self._interval = interval
        self._longest = longest
        self._chance = chance
        self._failures = 0
        self._due = 0.0

    def is_due(self, now: float) -> bool:
        """Tell whether the round that begins is the last one in which it can be asked in time.

        :param now: Monotonic seconds.
        """
        return not self._failures or now + self._interval > self._due

    def succeeded(self) -> None:
        """Have it asked in each round."""
        self._failures = 0

    def failed(self, now: float) -> None:
        """Have it left alone for a while.

        :param now: When it was asked, in monotonic seconds.
        """
        pause = min(self._interval * 2.0 ** min(self._failures, _MOST_DOUBLINGS), self._longest)
        self._failures += 1
        self._due = now + pause * (1 - self._chance() / 2)
