"""Says what goes wrong with clients, in so few lines that no client can fill a disk with them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gpu_tracker.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 500
"""Characters of a line."""


class Complaints:
    """Lets the first lines of each period through and counts the others.

    :param say: Takes a line.
    :param most: Lines of a period.
    :param period: Seconds.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        most: int = 5,
        period: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say = say
        self._most = most
        self._period = period
        self._clock = clock
        self._began = clock()
        self._count = 0

    def __call__(self, line: str) -> None:
        """Say a line, without what could command a terminal, or only count it."""
        now = self._clock()
        if now - self._began >= self._period:
            if self._count > self._most:
                self._say(f'{self._count - self._most} more messages of this kind were left out')
            self._began, self._count = now, 0
        self._count += 1
        if self._count <= self._most:
            self._say(printable(line[:_LONGEST]))
