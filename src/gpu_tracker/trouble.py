"""What is wrong with one thing that is looked at again and again, told when it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BETWEEN = 60.0
"""Seconds between two lines of one trouble: what comes and goes with each look must not fill a log."""


class Trouble:
    """Tells what is wrong, then that something else is, and that it is over; a minute is between two lines at least.

    A change within this minute is told after it, unless it has passed by then.

    :param tell: Called with a text for people.
    :param over: Says that nothing is wrong any more.
    :param clock: Monotonic seconds.
    """

    def __init__(self, tell: Callable[[str], None], over: str, clock: Callable[[], float]) -> None:
        self._tell = tell
        self._over = over
        self._clock = clock
        self._told: str | None = None
        self._next = clock()

    def is_now(self, text: str | None) -> None:
        """Take what is wrong now; None: nothing."""
        if text != self._told and self._clock() >= self._next:
            self._told = text
            self._next = self._clock() + BETWEEN
            self._tell(self._over if text is None else text)
