"""Puts a report into the documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = '.. benchmarks-begin'
END = '.. benchmarks-end'


def replace_block(page: str, text: str) -> str:
    """Return the page with the text between the two markers.

    :raises ValueError: where the page does not have both, once each.
    """
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(END) < page.index(BEGIN):
        raise ValueError(f'The page needs the lines {BEGIN!r} and {END!r}, once each and in this order.')
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f'{before}{BEGIN}\n\n{text.strip()}\n\n{END}{after}'


def write(path: Path, text: str) -> None:
    """Put the text into the page at the path."""
    path.write_text(replace_block(path.read_text(encoding='utf-8'), text), encoding='utf-8')
