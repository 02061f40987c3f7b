"""The lines of a table with colours; the only module that imports rich, and imported where colours are wanted.

Lines are complete before rich sees them. It adds escape codes, and neither wraps nor highlights anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.color import ColorSystem
from rich.style import Style

from gpu_tracker.gpus import constraints as status
from gpu_tracker.gpus.table import HEADER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_tracker.gpus.table import Span

_STYLES = {
    HEADER: Style(bold=True),
    status.FREE: Style(color='green'),
    status.IN_USE: Style(color='blue'),
    status.IN_USE_UNSEEN: Style(color='red'),
    status.CLAIMED: Style(color='yellow'),
    status.UNKNOWN: Style(color='yellow'),
    status.UNREADABLE: Style(color='magenta'),
}
"""The colours that every terminal has, in the shades that its user has chosen."""


def colored(lines: Iterable[Iterable[Span]]) -> str:
    """Return the text with the escape codes of its colours."""
    return '\n'.join(''.join(map(_colored_span, line)) for line in lines)


def _colored_span(span: Span) -> str:
    style = _STYLES.get(span.tone)
    return span.text if style is None else style.render(span.text, color_system=ColorSystem.STANDARD)
