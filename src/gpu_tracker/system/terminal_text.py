"""Text for a terminal: what may reach it, how much room that takes, and which columns of a table fit."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def printable(text: str) -> str:
    """Replace by ``?`` what is not to be printed: command lines are written by strangers.

    Control characters could command the terminal, and those of bidirectional text could turn a whole line around.
    """
    if text.isprintable():
        return text
    return ''.join(character if character.isprintable() else '?' for character in text)


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


GAP = 2
"""Blanks between two columns."""


class Column(NamedTuple):
    """A column of a table."""

    name: str
    title: str
    least: int | None = None
    """How narrow it may become; None: it is never narrower than its contents."""
    is_number: bool = False
    """Numbers stand at the right of their column."""


def layout(
    columns: Sequence[Column], contents: Mapping[str, int], width: int | None, left_out_first: Sequence[str]
) -> list[tuple[Column, int]]:
    """Return the columns that are shown, in their order, each with its width.

    First columns that may become narrower do, then columns are left out. What remains cannot be made to fit.

    :param contents: How wide the title and the cells of each column are.
    :param width: How wide the table may be; None: as wide as it is.
    :param left_out_first: The columns that may be left out, in that order.
    """
    shown = {column.name: column for column in columns}
    if width is None:
        return [(column, contents[name]) for name, column in shown.items()]
    widths = {name: _least(column, contents[name]) for name, column in shown.items()}
    for name in left_out_first:
        if _total(widths) <= width:
            break
        del shown[name], widths[name]
    _widen(widths, contents, width - _total(widths))
    return [(column, widths[name]) for name, column in shown.items()]


def table(
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, str]],
    width: int | None,
    left_out_first: Sequence[str] = (),
) -> Iterator[str]:
    """Yield a line of titles and the rows, by the names of the columns; a column without a single value is left out."""
    used = [column for column in columns if any(row[column.name] for row in rows)]
    lines = [{column.name: column.title for column in used}, *rows]
    contents = {column.name: max(width_of(line[column.name]) for line in lines) for column in used}
    shown = layout(used, contents, width, [name for name in left_out_first if name in contents])
    for line in lines:
        cells = [
            padded(shortened(line[column.name], space), space, to_the_right=column.is_number) for column, space in shown
        ]
        yield (' ' * GAP).join(cells).rstrip()


def _least(column: Column, content: int) -> int:
    return content if column.least is None else min(column.least, content)


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def _widen(widths: dict[str, int], contents: Mapping[str, int], spare: int) -> None:
    """Hand out what is left, always to the narrowest column that lacks some: a long list leaves room for the others."""
    for _ in range(spare):
        short = [name for name in widths if widths[name] < contents[name]]
        if not short:
            break
        widths[min(short, key=widths.__getitem__)] += 1
