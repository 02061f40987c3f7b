"""The terminal on standard output, and the key ``q`` that ends a live screen."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Self

from gpu_tracker.cli.output import STANDARD_OUTPUT

if TYPE_CHECKING:
    from collections.abc import Callable

_LINE_UP = '\x1b[{}A'
_CLEAR_BELOW = '\x1b[J'
_MOST_DIGITS = 4


def width(handle: int = STANDARD_OUTPUT) -> int | None:
    """Return how many columns the terminal has; None if standard output, or ``handle``, is none.

    The variable COLUMNS comes first, as in other programs.
    """
    if not os.isatty(handle):
        return None
    given = os.environ.get('COLUMNS', '')
    is_usable = given.isdecimal() and len(given) <= _MOST_DIGITS and int(given) > 0
    return int(given) if is_usable else _size(handle)[0]


def shows_colors(handle: int = STANDARD_OUTPUT) -> bool:
    """Return whether standard output, or ``handle``, is a terminal on which colours are wanted, see no-color.org."""
    return not os.environ.get('NO_COLOR') and can_go_back(handle)


def can_go_back(handle: int = STANDARD_OUTPUT) -> bool:
    """Return whether this is a terminal that can move its cursor."""
    return os.environ.get('TERM') != 'dumb' and os.isatty(handle)


class Place:
    """A place on the terminal, below earlier output, for texts that replace each other."""

    def __init__(self) -> None:
        self._lines = 0

    def show(self, text: str) -> str:
        """Return the output that replaces the text before by ``text``.

        Lines that do not fit below each other are left out: they would make the terminal scroll.
        """
        lines = text.splitlines()[: _size()[1] - 1]
        back = _LINE_UP.format(self._lines) if self._lines else ''
        self._lines = len(lines)
        return back + _CLEAR_BELOW + ''.join(f'{line}\n' for line in lines)

    def leave(self) -> None:
        """Keep the current text. The next text appears below later output."""
        self._lines = 0

    @staticmethod
    def width() -> int:
        """Return the number of columns of a line. The terminal would wrap a longer one."""
        return min(width() or _size()[0], _size()[0])


def _size(handle: int = STANDARD_OUTPUT) -> tuple[int, int]:
    """Return columns and lines; 80 and 24 if unknown, as on a serial line."""
    columns, lines = os.get_terminal_size(handle)
    return columns or 80, lines or 24


_KEYBOARD = 0
_QUIT = b'q'
_LOOK_AGAIN = 0.1
"""Seconds, while the keyboard is somebody else's."""


class Keys:
    """Reads single keys without echo while this program is in the foreground; restores the terminal.

    :param wanted: Whether there is a screen that a key may end.
    """

    def __init__(self, wanted: bool) -> None:  # noqa: FBT001 - it is all that there is to say
        self._wanted = wanted
        self._before: list[int | list[bytes | int]] | None = None

    def __enter__(self) -> Self:
        """Take the keyboard."""
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the terminal."""
        self.give_back()

    def take(self) -> None:
        """Take the keyboard, if this process may read it and has not taken it."""
        if sys.platform != 'win32' and self._wanted and self._before is None and _has_keyboard():
            import termios  # noqa: PLC0415 - where there is a terminal

            self._before = termios.tcgetattr(_KEYBOARD)
            changed = termios.tcgetattr(_KEYBOARD)
            changed[3] &= ~(termios.ICANON | termios.ECHO)
            termios.tcsetattr(_KEYBOARD, termios.TCSADRAIN, changed)

    def give_back(self) -> None:
        """Restore the terminal. It may be taken again."""
        before, self._before = self._before, None
        if sys.platform != 'win32' and before is not None and _has_keyboard():
            import termios  # noqa: PLC0415 - as above

            termios.tcsetattr(_KEYBOARD, termios.TCSADRAIN, before)

    @property
    def watched(self) -> dict[int, Callable[[], bool]]:
        """Maps the keyboard to a function: it returns whether the key was pressed. Empty without keyboard."""
        return {} if self._before is None else {_KEYBOARD: _is_quit}


def _is_quit() -> bool:
    if not _has_keyboard():
        time.sleep(_LOOK_AGAIN)  # the input is for another process, and stays readable until that process reads it
        return False
    pressed = os.read(_KEYBOARD, 1024)
    return not pressed or _QUIT in pressed.lower()


def _has_keyboard() -> bool:
    """Return whether this process is in the foreground of the terminal on standard input."""
    if sys.platform == 'win32':
        return False
    try:
        return os.tcgetpgrp(_KEYBOARD) == os.getpgrp()
    except OSError:
        return False  # it is none, or not this session's
