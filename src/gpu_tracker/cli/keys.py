"""The key that ends a live screen."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

_KEYBOARD = 0
_QUIT = b'q'
_LOOK_AGAIN = 0.1
"""Seconds, while the keyboard is somebody else's."""


class Keys:
    """Has each key arrive at once and unseen, while this program has a terminal to itself; puts all back at the end.

    :param wanted: Whether there is a screen that a key may end.
    """

    def __init__(self, wanted: bool) -> None:  # noqa: FBT001 - it is all that there is to say
        self._wanted = wanted
        self._before: list[int | list[bytes | int]] | None = None

    def __enter__(self) -> Self:
        """Take the keyboard."""
        if self._wanted and _has_keyboard():
            import termios  # noqa: PLC0415 - where there is a terminal

            self._before = termios.tcgetattr(_KEYBOARD)
            changed = termios.tcgetattr(_KEYBOARD)
            changed[3] &= ~(termios.ICANON | termios.ECHO)
            termios.tcsetattr(_KEYBOARD, termios.TCSADRAIN, changed)
        return self

    def __exit__(self, *_: object) -> None:
        """Put all back."""
        if self._before is not None and _has_keyboard():
            import termios  # noqa: PLC0415 - as above

            termios.tcsetattr(_KEYBOARD, termios.TCSADRAIN, self._before)

    @property
    def watched(self) -> dict[int, Callable[[], bool]]:
        """What is to be asked when there is something to read: whether the key was pressed. Empty without keyboard."""
        return {} if self._before is None else {_KEYBOARD: _is_quit}


def _is_quit() -> bool:
    if not _has_keyboard():
        time.sleep(_LOOK_AGAIN)  # what was typed is not for us, and stays there to be read until its reader takes it
        return False
    pressed = os.read(_KEYBOARD, 1024)
    return not pressed or _QUIT in pressed.lower()


def _has_keyboard() -> bool:
    """Tell whether standard input is a terminal that is ours now: in the background, a touch would stop us."""
    try:
        return os.tcgetpgrp(_KEYBOARD) == os.getpgrp()
    except OSError:
        return False  # it is none, or not this session's
