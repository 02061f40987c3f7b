"""Tables in reStructuredText, which read well on a terminal too."""

from __future__ import annotations

from dataclasses import dataclass, field

DASH = '—'
_THOUSAND = 1000


@dataclass
class Table:
    """A table.

    :ivar title: What it shows, with its unit.
    :ivar columns: The heads.
    :ivar rows: The cells; the first of a row is never empty.
    :ivar text: What a reader has to know, a paragraph or nothing.
    :ivar notes: Why cells have dashes.
    """

    title: str
    columns: list[str]
    rows: list[list[str]]
    text: str = ''
    notes: list[str] = field(default_factory=list)

    def render(self) -> str:
        """Return it as reStructuredText."""
        widths = [max(len(row[i]) for row in (self.columns, *self.rows)) for i in range(len(self.columns))]
        rule = '  '.join('=' * width for width in widths)

        def line(cells: list[str]) -> str:
            return '  '.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()

        blocks = [f'**{self.title}**', '\n'.join([rule, line(self.columns), rule, *map(line, self.rows), rule])]
        if self.text:
            blocks.insert(1, self.text)
        if self.notes:
            blocks.append('\n'.join(f'* {note}' for note in self.notes))
        return '\n\n'.join(blocks)


def number(value: float) -> str:
    """Return a number with three digits."""
    if value == 0:
        return '0'
    if abs(value) >= _THOUSAND:
        return f'{value:,.0f}'
    digits = 2
    size = abs(value)
    while size >= 10:  # noqa: PLR2004 - the base of our numbers
        size /= 10
        digits -= 1
    while size < 1:
        size *= 10
        digits += 1
    return f'{value:.{max(0, min(digits, 4))}f}'


def fraction(ratio: float) -> str:
    """Return a ratio as targets are written: 1/40, or as a number where it is about 1 or more."""
    return f'1/{number(1 / ratio)}' if 0 < ratio < 0.8 else number(ratio)  # noqa: PLR2004 - 1/1.3 says little
