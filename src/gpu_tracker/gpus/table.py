"""The table of GPUs as lines, which plain text, colours and pictures have in common, and as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.gpus import constraints
from gpu_tracker.gpus.claim import describe
from gpu_tracker.gpus.table_cells import COLUMNS, INDEX, LEFT_OUT_FIRST, MARK, ONLY_WHERE_USED, Row, rows
from gpu_tracker.system.terminal_text import GAP, cut, layout, padded, shortened, width_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpu_tracker.gpus.claim import Claim
    from gpu_tracker.gpus.model import GpuReading
    from gpu_tracker.system.terminal_text import Column

HEADER = 'header'
PLAIN = ''


class Span(NamedTuple):
    """A piece of a line, all in one tone."""

    text: str
    tone: str = PLAIN
    """A status, ``HEADER`` or ``PLAIN``."""


def table_lines(
    gpus: Sequence[GpuReading], *, width: int | None, now: float, user_name: Callable[[int], str]
) -> list[list[Span]]:
    """Return the table, with claims below it and why activity is unknown.

    No line ends in blanks, and none is wider than ``width``.
    """
    content = rows(gpus, now)
    unused = {name for name in ONLY_WHERE_USED if not any(row.cells.get(name) for row in content)}
    columns = [column for column in COLUMNS if column.name not in unused]
    titles = Row(HEADER, {column.name: column.title for column in columns})
    left_out_first = [name for name in LEFT_OUT_FIRST if name not in unused]
    places = layout(columns, _content_widths([titles, *content]), width, left_out_first)
    header = Span(''.join(span.text for span in _line(titles, places)), HEADER)
    table = [[header], *(_line(row, places) for row in content)]
    notes = [[Span(line)] for line in (*claim_lines(gpus, now, user_name), *activity_lines(gpus))]
    return [_fitted(_without_blank_end(line), width) for line in table + notes]


def _content_widths(content: Iterable[Row]) -> dict[str, int]:
    widths = dict.fromkeys((column.name for column in COLUMNS), 0)
    for row in content:
        for name, text in row.cells.items():
            widths[name] = max(widths[name], width_of(text))
    return widths


def _line(row: Row, places: Sequence[tuple[Column, int]]) -> list[Span]:
    line = []
    for column, width in places:
        if row.note is not None and column.name not in {INDEX, MARK}:
            line.append(Span(row.note, row.status))
            break
        text = shortened(row.cells.get(column.name, ''), width)
        line.append(
            Span(padded(text, width, to_the_right=column.is_number), row.status if column.name == MARK else PLAIN)
        )
        line.append(Span(' ' * GAP))
    return line


def _without_blank_end(line: list[Span]) -> list[Span]:
    while line and not line[-1].text.strip():
        line = line[:-1]
    return [*line[:-1], line[-1]._replace(text=line[-1].text.rstrip())] if line else []


def _fitted(line: list[Span], width: int | None) -> list[Span]:
    """Cut what is wider than the table may be: sentences, and all lines where even the least columns have no room."""
    if width is None or sum(width_of(span.text) for span in line) <= width:
        return line
    kept: list[Span] = []
    room = width
    for span in line:
        if width_of(span.text) >= room:
            return [*kept, span._replace(text=cut(span.text, room))]
        kept.append(span)
        room -= width_of(span.text)
    return kept


def claim_lines(gpus: Iterable[GpuReading], now: float, user_name: Callable[[int], str]) -> list[str]:
    """Return a line for each claim: ``GPU 1: claimed by alice (pid 4242, python train.py)``.

    :param now: Seconds since 1970.
    :param user_name: Returns the name of the user with an ID.
    """
    claimed: dict[Claim, list[str]] = {}
    for gpu in gpus:
        for part in gpu.devices():
            if part.claim is not None:
                claimed.setdefault(part.claim, []).append(part.label)
    return [f'{", ".join(labels)}: {describe(claim, now, user_name)}' for claim, labels in claimed.items()]


def activity_lines(gpus: Iterable[GpuReading]) -> list[str]:
    """Return a line for each reason why the activity of GPUs is not known."""
    found: dict[str, list[str]] = {}
    for gpu in gpus:
        for part in gpu.devices():
            if part.activity is not None and part.activity.problem is not None:
                found.setdefault(part.activity.problem, []).append(part.label)
    return [f'{", ".join(labels)}: activity N/A: {problem}' for problem, labels in found.items()]


def plain(lines: Iterable[Iterable[Span]]) -> str:
    """Return the text alone."""
    return '\n'.join(''.join(span.text for span in line) for line in lines)


def table_text(
    gpus: Sequence[GpuReading], *, width: int | None, now: float, user_name: Callable[[int], str], color: bool = False
) -> str:
    """Return the table, without a line break at its end.

    The text is the same with and without colours, and with and without rich.

    :param width: The columns of the terminal; None: a line may be as long as it is.
    :param now: Seconds since 1970.
    :param user_name: Returns the name of the user with an ID.
    :param color: Whether to colour it, where rich is installed.
    """
    lines = table_lines(gpus, width=width, now=now, user_name=user_name)
    if color:
        try:
            return _colored(lines)
        except ImportError:
            pass  # rich is an extra
    return plain(lines)


def _colored(lines: Iterable[Iterable[Span]]) -> str:
    """Return the text with the escape codes of its colours, those that every terminal has in its user's shades.

    Lines are complete before rich sees them. It adds escape codes, and neither wraps nor highlights anything.
    """
    from rich.color import ColorSystem  # noqa: PLC0415 - an extra, which costs 20 ms
    from rich.style import Style  # noqa: PLC0415 - as above

    styles = {
        HEADER: Style(bold=True),
        constraints.FREE: Style(color='green'),
        constraints.IN_USE: Style(color='blue'),
        constraints.IN_USE_UNSEEN: Style(color='red'),
        constraints.CLAIMED: Style(color='yellow'),
        constraints.UNKNOWN: Style(color='yellow'),
        constraints.UNREADABLE: Style(color='magenta'),
    }
    plain = Style()

    def shown(span: Span) -> str:
        style = styles.get(span.tone, plain)
        return style.render(span.text, color_system=ColorSystem.STANDARD) if style else span.text

    return '\n'.join(''.join(map(shown, line)) for line in lines)
