"""How much room a text takes in a terminal, and how it is made to fit."""

from __future__ import annotations

import unicodedata

_ELLIPSIS = '…'
_WIDE = {'W', 'F'}
_ON_TOP = {'Mn', 'Me'}
"""The categories of marks that stand on the character before them."""


def width_of(text: str) -> int:
    """Return how many columns a printable text takes."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def cut(text: str, width: int) -> str:
    """Return as much of the beginning as leaves room for an ellipsis, and the ellipsis; ``width`` is at least 1."""
    room = width - 1
    kept = ''
    for character in text:
        room -= _character_width(character)
        if room < 0:
            break
        kept += character
    return kept + _ELLIPSIS


def shortened(text: str, width: int) -> str:
    """Return the text, cut where it is wider than ``width``."""
    return text if width_of(text) <= width else cut(text, width)


def padded(text: str, width: int, *, to_the_right: bool) -> str:
    """Return the text with the blanks that it takes to fill ``width``."""
    blanks = ' ' * (width - width_of(text))
    return blanks + text if to_the_right else text + blanks


def _character_width(character: str) -> int:
    if unicodedata.category(character) in _ON_TOP:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1
