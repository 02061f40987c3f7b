"""The terminal that standard output may be."""

from __future__ import annotations

import os

from gpu_tracker.cli.output import STANDARD_OUTPUT

_HOME = '\x1b[H'
_CLEAR_REST_OF_LINE = '\x1b[K'
_CLEAR_BELOW = '\x1b[J'


def width() -> int | None:
    """Return how many columns the terminal has, None where standard output is none.

    The variable COLUMNS comes first, as in other programs.
    """
    if not os.isatty(STANDARD_OUTPUT):
        return None
    given = os.environ.get('COLUMNS', '')
    return int(given) if given.isdecimal() and int(given) else _size()[0]


def shows_colors() -> bool:
    """Tell whether standard output is a terminal on which colours are wanted, see no-color.org."""
    return not os.environ.get('NO_COLOR') and can_go_back()


def can_go_back() -> bool:
    """Tell whether standard output is a terminal that does more with text than to put it below the text before."""
    return os.environ.get('TERM') != 'dumb' and os.isatty(STANDARD_OUTPUT)


def in_place(text: str) -> str:
    """Return what shows ``text`` from the top of the terminal on, in the place of what was there.

    Lines that do not fit below each other are left out: they would make the terminal scroll.
    """
    lines = text.splitlines()[: _size()[1] - 1]
    return _HOME + ''.join(f'{line}{_CLEAR_REST_OF_LINE}\n' for line in lines) + _CLEAR_BELOW


def _size() -> tuple[int, int]:
    """Return columns and lines; a terminal that does not know them, as over a serial line, has 80 and 24."""
    columns, lines = os.get_terminal_size(STANDARD_OUTPUT)
    return columns or 80, lines or 24
