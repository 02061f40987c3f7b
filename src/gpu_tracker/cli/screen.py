"""The terminal that standard output may be."""

from __future__ import annotations

import os

from gpu_tracker.cli.output import STANDARD_OUTPUT

_LINE_UP = '\x1b[{}A'
_CLEAR_BELOW = '\x1b[J'
_MOST_DIGITS = 4


def width() -> int | None:
    """Return how many columns the terminal has, None where standard output is none.

    The variable COLUMNS comes first, as in other programs.
    """
    if not os.isatty(STANDARD_OUTPUT):
        return None
    given = os.environ.get('COLUMNS', '')
    is_usable = given.isdecimal() and len(given) <= _MOST_DIGITS and int(given) > 0
    return int(given) if is_usable else _size()[0]


def shows_colors() -> bool:
    """Tell whether standard output is a terminal on which colours are wanted, see no-color.org."""
    return not os.environ.get('NO_COLOR') and can_go_back()


def can_go_back() -> bool:
    """Tell whether standard output is a terminal that does more with text than to put it below the text before."""
    return os.environ.get('TERM') != 'dumb' and os.isatty(STANDARD_OUTPUT)


class Place:
    """A place on the terminal, below what stands there already, where one text follows the other."""

    def __init__(self) -> None:
        self._lines = 0

    def show(self, text: str) -> str:
        """Return what shows ``text`` in the place of the text before.

        Lines that do not fit below each other are left out: they would make the terminal scroll.
        """
        lines = text.splitlines()[: _size()[1] - 1]
        back = _LINE_UP.format(self._lines) if self._lines else ''
        self._lines = len(lines)
        return back + _CLEAR_BELOW + ''.join(f'{line}\n' for line in lines)

    def leave(self) -> None:
        """Let what stands there stay: the next text comes below whatever is printed until then."""
        self._lines = 0

    @staticmethod
    def width() -> int:
        """Return how wide a line may be: one that the terminal breaks would be two."""
        return min(width() or _size()[0], _size()[0])


def _size() -> tuple[int, int]:
    """Return columns and lines; a terminal that does not know them, as over a serial line, has 80 and 24."""
    columns, lines = os.get_terminal_size(STANDARD_OUTPUT)
    return columns or 80, lines or 24
