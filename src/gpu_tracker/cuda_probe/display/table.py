"""A table of plain text, as narrow as it has to be."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from gpu_tracker.printable import printable
from gpu_tracker.table_layout import GAP, layout
from gpu_tracker.terminal_text import padded, shortened, width_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tracker.table_layout import Column

    Rows = Sequence[Mapping[str, str]]


def table(columns: Sequence[Column], rows: Rows, width: int | None, left_out_first: Sequence[str] = ()) -> list[str]:
    """Return the titles, a line for each row, and one that says how many columns are left out; none ends in blanks.

    :param rows: Cells by the names of their columns; those that are missing are empty.
    :param width: How wide a line may be; None: as wide as it is.
    :param left_out_first: The columns that may be left out where there is no room, in that order.
    """
    titles = {column.name: column.title for column in columns}
    cells = [titles, *({name: printable(text) for name, text in row.items()} for row in rows)]
    contents = {name: max(width_of(row.get(name, '')) for row in cells) for name in titles}
    places = layout(columns, contents, width, left_out_first)
    lines = [fitted(_line(row, places), width) for row in cells]
    left_out = len(columns) - len(places)
    if left_out:
        lines += wrapped(f'({left_out} column{"s" * (left_out > 1)} left out: widen the terminal, or --json)', width)
    return lines


def wrapped(text: str, width: int | None) -> list[str]:
    """Return a text in as many lines as it takes."""
    lines = [text] if width is None else textwrap.wrap(text, width, break_on_hyphens=False)
    return [fitted(line, width) for line in lines]  # it may have characters that are two columns wide


def fitted(line: str, width: int | None) -> str:
    """Return the line without blanks at its end, cut where it is wider than ``width``."""
    line = line.rstrip()
    return line if width is None else shortened(line, width)


def _line(row: Mapping[str, str], places: Sequence[tuple[Column, int]]) -> str:
    return (' ' * GAP).join(
        padded(shortened(row.get(column.name, ''), width), width, to_the_right=column.is_number)
        for column, width in places
    )
