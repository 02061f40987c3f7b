"""A state as the lines of a screen. Pure.

Where the screen is small, columns and whole parts are left out, from below; no line is ever broken.
"""

from __future__ import annotations

from itertools import chain
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.system.terminal_text import padded, shortened, width_of
from gpu_tracker.views.live.quantities import BLOCKS, BYTES, PERCENT, UNKNOWN, amount, amount_of, bar, duration, line
from gpu_tracker.views.live.series import columns_of, window_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_tracker.views.live.model import LiveFigure, ProcessState, RegionState, State
    from gpu_tracker.views.live.quantities import Symbols

PLAIN, TITLE, HEADER, LOW, MIDDLE, HIGH, LINE, DIM = '', 'title', 'header', 'low', 'middle', 'high', 'line', 'dim'
_CODES = {TITLE: '1', HEADER: '1', LOW: '32', MIDDLE: '33', HIGH: '31', LINE: '36', DIM: '2'}
"""Select Graphic Rendition of ECMA-48; the colours are those that every terminal has in its user's shades."""
_MIDDLE_FROM, _HIGH_FROM = 0.7, 0.9
"""Shares of what there is at most from which a bar is coloured so."""

_GAP = 2
_NAME, _AMOUNT, _AMOUNT_OF = 10, 9, 18
"""Columns of a figure's name, of an amount with its unit, and of one with what there is at most."""
_LEAST_BAR, _MOST_BAR = 6, 30
_BAR_SHARE = 6
"""A bar takes the sixth part of the screen."""
_LEAST_LINE = 8
_WIDE_ENOUGH = 60
"""Columns from which it is said what there is of a figure at most."""
_TITLES = 3
"""Lines of titles above the figures."""
_PAGE_SECONDS = 5
"""How long GPUs are shown that do not fit on the screen all at once."""
_MOST_ROWS = 10
"""Processes and regions that are shown where there is no end to the screen."""
_LEAST_ROWS = 3
"""Processes that are shown even where there are many regions."""
_INDENT = 2
_LEAST_NAME = 30
"""Columns that the names of a table take, so that the numbers stay where they are when short names come."""
_LEAST_COMMAND = 40


class Span(NamedTuple):
    """A piece of a line, all in one tone."""

    text: str
    tone: str = PLAIN


Line = list[Span]


def screen_lines(
    state: State, width: int, height: int | None, *, symbols: Symbols = BLOCKS, footer: str = ''
) -> list[Line]:
    """Return the lines of a screen; none ends in blanks, and none is wider than ``width``.

    :param height: How many there may be; None: any number.
    :param footer: What the last line says, where there is room.
    """
    room = None if height is None else height - _TITLES - len(state.figures) - (_GAP if footer else 0)
    gpus, note = _page(state.gpus, room and room - (_GAP + _LEAST_ROWS if state.processes else 0), state.seconds)
    figures = [*state.figures, *chain.from_iterable(gpus)]
    lines = [_title(state, width), [], *_figures(figures, state, width, symbols), *note]
    room = None if height is None else height - len(lines) - (_GAP if footer else 0)
    for block in _blocks(state, width, room, symbols):
        lines += [[], *block]
    fitted = [_fitted(one, width) for one in lines]
    if footer:
        fitted += [[], _fitted([Span(footer, DIM)], width)]
    return fitted if height is None else fitted[:height]


def plain(lines: Iterable[Line]) -> list[str]:
    """Return the texts alone."""
    return [''.join(span.text for span in one) for one in lines]


def colored(lines: Iterable[Line]) -> list[str]:
    """Return the texts with the escape codes of their colours."""
    return [''.join(map(_colored, one)) for one in lines]


def _colored(span: Span) -> str:
    return f'\x1b[{_CODES[span.tone]}m{span.text}\x1b[0m' if span.tone else span.text


def _title(state: State, width: int) -> Line:
    elapsed = 'no sample yet' if state.seconds is None else duration(state.seconds)
    right = f'{state.place}, {elapsed}'
    if width_of(right) > width // 2:
        right = elapsed
    room = width - width_of(right) - _GAP
    if room < 1:
        return [Span(state.title, TITLE)]
    left = shortened(state.title, room)
    return [Span(padded(left, room + _GAP, to_the_right=False), TITLE), Span(right)]


def _page(
    gpus: Sequence[Sequence[LiveFigure]], rows: int | None, seconds: float | None
) -> tuple[Sequence[Sequence[LiveFigure]], list[Line]]:
    """Return the GPUs whose turn it is, and a line that says which they are if not all fit into ``rows``."""
    if not gpus or rows is None or sum(map(len, gpus)) <= rows:
        return gpus, []
    pages = ceil(len(gpus) / max(1, (rows - 1) // len(gpus[0])))
    count = ceil(len(gpus) / pages)  # pages of one height, so that what stands below stays where it is
    page = int((seconds or 0.0) / _PAGE_SECONDS) % pages
    note = f'{len(gpus)} GPUs, page {page + 1} of {pages}, {_PAGE_SECONDS} s each'
    return gpus[page * count : (page + 1) * count], [[Span(note, DIM)]]


class _Layout(NamedTuple):
    """How wide the columns of figures are; 0 for those that are left out."""

    now: int
    bar: int
    line: int
    has_peak: bool

    @classmethod
    def of(cls, width: int) -> _Layout:
        now = _AMOUNT if width < _WIDE_ENOUGH else _AMOUNT_OF
        left = width - _NAME - _GAP - now
        has_peak = left >= _GAP + _AMOUNT
        left -= _GAP + _AMOUNT if has_peak else 0
        bar = min(_MOST_BAR, max(_LEAST_BAR, width // _BAR_SHARE))
        bar = bar if left >= bar + 1 else 0
        left -= bar + 1 if bar else 0
        return cls(now, bar, left - _GAP if left >= _GAP + _LEAST_LINE else 0, has_peak)


def _figures(figures: Sequence[LiveFigure], state: State, width: int, symbols: Symbols) -> list[Line]:
    layout = _Layout.of(width)
    window = window_of(state.seconds or 0.0)
    until = state.seconds or 0.0
    now = 'now' if state.ending is None else 'last'
    header = _row('', ' ' * layout.bar, now, f'last {duration_of_window(window)}', 'peak', layout)
    lines = [[Span(''.join(span.text for span in header), HEADER)]]
    for figure in figures:
        value = figure.now if state.ending is None else figure.last_known
        share = None if value is None or not figure.whole else value / figure.whole
        tone = LOW if share is None or share < _MIDDLE_FROM else MIDDLE if share < _HIGH_FROM else HIGH
        whole = figure.whole or figure.peak
        values = columns_of(figure.points, until, window, layout.line) if layout.line else []
        lines.append(
            _row(
                figure.name,
                bar(value, whole, layout.bar, symbols) if layout.bar else '',
                amount_of(value, figure.whole, figure.unit) if layout.now > _AMOUNT else amount(value, figure.unit),
                line(values, figure.peak, symbols),
                amount(figure.peak, figure.unit),
                layout,
                tone,
            )
        )
    return lines


def duration_of_window(seconds: float) -> str:
    """Return how much time a line shows: ``30 s`` or ``5 min``."""
    return f'{seconds / 60:.0f} min' if seconds > 60 else f'{seconds:.0f} s'  # noqa: PLR2004 - a minute


def _row(name: str, bar: str, now: str, points: str, peak: str, layout: _Layout, tone: str = PLAIN) -> Line:
    spans = [Span(padded(shortened(name, _NAME), _NAME + _GAP, to_the_right=False))]
    if layout.bar:
        spans += [Span(bar, tone), Span(' ')]
    spans.append(Span(padded(now, layout.now, to_the_right=True)))
    if layout.line:
        cut = shortened(points, layout.line)
        spans += [Span(' ' * _GAP), Span(padded(cut, layout.line, to_the_right=False), LINE)]
    if layout.has_peak:
        spans += [Span(' ' * _GAP), Span(padded(peak, _AMOUNT, to_the_right=True))]
    return spans


def _blocks(state: State, width: int, room: int | None, symbols: Symbols) -> Iterable[list[Line]]:
    """Yield what stands below the figures; each takes its lines and an empty one before them."""
    processes, regions = state.processes, state.regions
    left = _Room(room)
    if processes is not None:
        wanted = len(regions) + _GAP if regions else 0
        rows = left.rows(len(processes), keep=wanted)
        if rows:
            yield left.take(_processes(processes[:rows], state, width))
    if regions:
        rows = left.rows(len(regions))
        if rows:
            yield left.take(_regions(regions, rows, width))
    if state.other_gpus:
        rows = left.rows(sum(map(len, state.other_gpus)))
        if rows >= len(state.other_gpus[0]):
            gpus, note = _page(state.other_gpus, rows, state.seconds)
            lines = _figures([*chain.from_iterable(gpus)], state, width, symbols)
            yield left.take([[Span('GPUs that the run has not used', HEADER)], *lines[1:], *note])


class _Room:
    """The lines that are left on a screen; None: there is no end to it."""

    def __init__(self, lines: int | None) -> None:
        self._lines = lines

    def rows(self, wanted: int, keep: int = 0) -> int:
        """Return how many rows a table gets, which has an empty line and a line of titles before them.

        :param keep: Lines that the tables after this one would take.
        """
        if self._lines is None:
            return min(wanted, _MOST_ROWS)
        most = self._lines - _GAP
        return max(0, min(wanted, most, max(most - keep, _LEAST_ROWS, most // 2)))

    def take(self, table: list[Line]) -> list[Line]:
        """Return the table, whose lines are taken."""
        if self._lines is not None:
            self._lines -= 1 + len(table)
        return table


def _processes(processes: Sequence[ProcessState], state: State, width: int) -> list[Line]:
    count = state.process_count
    title = f'Processes ({len(processes)} of {count:,})' if count > len(processes) else 'Processes'
    titles = [title, 'PID', 'CPU', 'RAM']
    rows = [[one.name, str(one.pid), amount(one.cpu, PERCENT), amount(one.rss, BYTES)] for one in processes]
    if state.gpus and any(one.gpu_ram is not None for one in processes):
        titles.append('GPU RAM')
        for row, one in zip(rows, processes, strict=True):
            row.append(amount(one.gpu_ram, BYTES))
    has_commands = any(one.command for one in processes)
    commands = ['Command', *(one.command or UNKNOWN for one in processes)] if has_commands else []
    return _table(titles, rows, width, commands)


def _regions(regions: Sequence[RegionState], rows: int, width: int) -> list[Line]:
    title = f'Open regions ({rows} of {len(regions):,})' if rows < len(regions) else 'Open regions'
    shown = [(f'{"":{_INDENT * one.level}}{one.name}', duration(one.seconds)) for one in regions[:rows]]
    return _table((title, 'open for'), shown, width)


def _table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], width: int, commands: Sequence[str] = ()
) -> list[Line]:
    """Return a table of names and numbers; numbers stand at the right of their columns, and names make room.

    :param commands: A last column, with its title, for the columns that are left; a narrow screen has no room for it.
    """
    texts = [titles, *rows]
    widths = [max(_AMOUNT, *(width_of(row[place]) for row in texts)) for place in range(1, len(titles))]
    room = width - sum(widths) - _GAP * len(widths)
    name = max(1, min(room, max(_LEAST_NAME, *(width_of(row[0]) for row in texts))))
    left = room - name - _GAP
    last = [shortened(text, left) for text in commands] if left >= _LEAST_COMMAND else []
    lines = []
    for number, (first, *numbers) in enumerate(texts):
        cells = [padded(shortened(first, name), name, to_the_right=False)]
        cells += [padded(text, wide, to_the_right=True) for text, wide in zip(numbers, widths, strict=True)]
        cells += last[number : number + 1]
        lines.append([Span((' ' * _GAP).join(cells), PLAIN if number else HEADER)])
    return lines


def _fitted(one: Line, width: int) -> Line:
    """Return the line without blanks at its end, and cut where it is too wide."""
    kept: Line = []
    room = width
    for span in one:
        if width_of(span.text) > room:
            if room > 0:
                kept.append(span._replace(text=shortened(span.text, room)))
            break
        kept.append(span)
        room -= width_of(span.text)
    while kept and not kept[-1].text.strip():
        kept.pop()
    return [*kept[:-1], kept[-1]._replace(text=kept[-1].text.rstrip())] if kept else []
