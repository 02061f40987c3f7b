"""The lines of a table as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_tracker.fleet.display.lines import Span


def plain(lines: Iterable[Iterable[Span]]) -> str:
    """Return the text alone."""
    return '\n'.join(''.join(span.text for span in line) for line in lines)
