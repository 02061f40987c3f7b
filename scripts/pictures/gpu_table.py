"""The table that ``gpu-tracker gpus`` prints for the GPUs of ``support.gpus.example_gpus``, drawn as SVG."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from gpu_tracker.gpus import constraints
from gpu_tracker.gpus.table import HEADER, Span, table_lines
from support.gpus.example_gpus import GPUS, NOW, user_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COLUMNS = 120
CHARACTER_WIDTH = 8.4
LINE_HEIGHT = 20
FONT_SIZE = 14
FONTS = "'DejaVu Sans Mono', Menlo, Consolas, monospace"
MARGIN = 14
CORNER = 6

TONES = {
    HEADER: ' font-weight="bold" fill="#ffffff"',
    constraints.FREE: ' fill="#5fd07a"',
    constraints.IN_USE: ' fill="#74b0ff"',
    constraints.IN_USE_UNSEEN: ' fill="#ff7b72"',
    constraints.CLAIMED: ' fill="#e8c04a"',
    constraints.UNREADABLE: ' fill="#dd8df2"',
}


def picture() -> str:
    """Return the picture as SVG, which fetches no font."""
    table = table_lines(GPUS, width=COLUMNS, now=NOW, user_name=user_name)
    lines = [[Span('$ gpu-tracker gpus')], *table]
    width = round(2 * MARGIN + COLUMNS * CHARACTER_WIDTH)
    height = 2 * MARGIN + len(lines) * LINE_HEIGHT
    return '\n'.join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            '<title>The table that gpu-tracker gpus prints</title>',
            f'<rect width="{width}" height="{height}" rx="{CORNER}" fill="#1c2128"/>',
            f'<g font-family="{FONTS}" font-size="{FONT_SIZE}" fill="#d8dee6">',
            *(text for number, line in enumerate(lines) for text in _texts(line, number)),
            '</g>',
            '</svg>',
            '',
        ]
    )


def _texts(line: list[Span], number: int) -> Iterator[str]:
    """Draw the cells of a line one by one, each as long as its characters are many: no font moves a column."""
    y = MARGIN + number * LINE_HEIGHT + FONT_SIZE
    column = 0
    for span in line:
        for cell in re.finditer(r'\S+(?: \S+)*', span.text):
            x = MARGIN + (column + cell.start()) * CHARACTER_WIDTH
            length = len(cell[0]) * CHARACTER_WIDTH
            text = escape(cell[0], quote=False)
            yield f'<text x="{x:.1f}" y="{y}" textLength="{length:.1f}"{TONES.get(span.tone, "")}>{text}</text>'
        column += len(span.text)


def write(file: Path) -> None:
    """Write the picture."""
    file.write_text(picture(), encoding='utf-8')
