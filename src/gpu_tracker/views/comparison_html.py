"""A comparison as HTML: the same tables and notes as its text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.recording.comparing.comparison_text import WORDS, filled, notes, pairs_of
from gpu_tracker.views.html import MOST_ROWS, Title, cell, paragraph, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_tracker.recording.comparing.comparison import Comparison


def comparison_html(comparison: Comparison) -> str:
    """Return a comparison: what each group but the first has used beside the first, its regions, and the notes."""
    return ''.join(_parts(comparison))


def _parts(comparison: Comparison) -> Iterator[str]:
    for pair in pairs_of(comparison):
        yield paragraph(pair.heading)
        yield from map(_table, pair.tables())
    for note in notes(comparison):
        yield paragraph(note)


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows, of which the first has the titles; columns with nothing below their title are left out."""
    titles, *found = rows
    columns = filled(rows)
    cells = ([cell(row[index], is_number=index not in WORDS) for index in columns] for row in found[:MOST_ROWS])
    more = len(found) - MOST_ROWS
    return table([Title(titles[index], is_number=index not in WORDS) for index in columns], cells) + (
        paragraph(f'{more:,} more lines are left out') if more > 0 else ''
    )
