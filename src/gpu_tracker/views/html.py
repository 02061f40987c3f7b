"""What runs used as small tables of HTML, which notebooks show in place of the text.

The tables have no script, no style sheet and no id: they stay as they are on GitHub, in nbviewer and in print.
Colors come from the page around them, so light and dark pages show them alike. Names and commands are written by
strangers, so every text is escaped.
"""

from __future__ import annotations

import shlex
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker import figures
from gpu_tracker.errors import RecordingError
from gpu_tracker.figures import GROUPS, rows
from gpu_tracker.recording.reading import shown
from gpu_tracker.recording.reading.recording import load
from gpu_tracker.system.terminal_text import printable, shortened
from gpu_tracker.views.sparklines import curves_of, sparkline

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpu_tracker.recording.reading.recording import Recording
    from gpu_tracker.result.usage import ResourceUsage
    from gpu_tracker.views.sparklines import Curve

MOST_ROWS = 50
"""Of a table; ``gpu-tracker show`` and the report have more."""
_MOST_MESSAGES = 5
_WIDEST = 300
"""Characters of a command, of a message or of a cell."""
_LINE = '1px solid rgba(128,128,128,0.35)'


class Title(NamedTuple):
    """The title of a column.

    :ivar hint: What a pointer over it shows.
    :ivar is_number: Below it are numbers.
    """

    text: str
    hint: str = ''
    is_number: bool = True


_TITLES = {
    'main': Title('Main', 'the tracked process itself'),
    'descendants': Title('Descendants', 'all that it has started'),
    'combined': Title('Combined', 'both together'),
}


_CURVES: dict[str, tuple[str, float]] = {
    'combined_total_rss': ('bytes', 1),
    'combined_cpu': ('percent', 100),
    'combined_gpu_ram': ('bytes', 1),
    'gpu_utilization': ('percent', 1),
    'gpu_sm_activity': ('percent', 1),
    'gpu_tensor_activity': ('percent', 1),
    'gpu_dram_activity': ('percent', 1),
    'combined_io_read': ('bytes/s', 1),
    'combined_io_written': ('bytes/s', 1),
    'gpu_energy': ('watts', 1),
    'cpu_package_energy': ('watts', 1),
}
"""Column -> the unit of its curve, and 1 of the curve in that unit; a counter's curve is its growth in a second."""

_GROWTHS = (
    ('RAM', 'max_ram.combined.total_rss', 'combined_total_rss'),
    ('GPU memory', 'max_gpu_ram.combined', 'combined_gpu_ram'),
)
"""What has grown: its name, the path of its peak, and the column of its samples."""

_REGION_HINTS = {
    'share': 'of the run',
    'thread_cpu': 'of the threads of the calls',
    'cpu': 'of all tracked processes meanwhile; ~: an estimate, >= and <=: bounds',
    'ram': 'the most of the process of a call; >= and <=: bounds',
    'gpu': 'of all GPUs; ~: known of a part of the time',
    'gpu_ram': 'the most of all tracked processes at any sample',
}


def usage_html(usage: ResourceUsage, curves: Mapping[str, Curve] | None = None) -> str:
    """Return a result as a table, with the size of each figure in the unit that fits it.

    :param curves: What there is to see over time, by the column of the recording.
    """
    known = curves or {}
    titles = [Title(''), *(_TITLES[group] for group in GROUPS)]
    if known:
        titles.append(Title('Over time', 'of all together, from 0 to the most', is_number=False))
    return table(titles, (_cells(usage, row, paths, known) for row, paths in rows(usage)))


def tracker_html(usage: ResourceUsage, path: str | None) -> str:
    """Return the result of a run that has ended, with what its recording has: sparklines and regions.

    :param path: The recording; None: there is none. It may be gone or unreadable, which the table does not depend on.
    """
    if path is None:
        return usage_html(usage)
    try:
        with load(path) as recording:
            return usage_html(usage, curves_of(recording, _CURVES)) + _regions(recording)
    except RecordingError:
        return usage_html(usage)


def growth(usage: ResourceUsage, recording: Recording) -> list[str]:
    """Return a line on RAM, and one on GPU memory if some was used: before, at the peak, and added."""
    first = next(iter(recording.samples), None)
    found = []
    for name, path, column in _GROWTHS:
        peak = figures.value(usage, path)
        before: float | None = getattr(first, column, None)
        if peak == 0:
            continue
        added = None if peak is None or before is None else max(0.0, peak - before)
        mark = figures.AT_LEAST if path in usage.lower_bounds and added is not None else ''
        found.append(
            f'{name}: before {figures.figure(before, "bytes")}, peak {figures.text(usage, path)}, '
            f'added {mark}{figures.figure(added, "bytes")}'
        )
    return found


def recording_html(recording: Recording) -> str:
    """Return a recording: which run it was, its result with sparklines, its regions and its messages."""
    parts: list[str] = []
    try:
        parts.append(_heading(recording))
        parts.append(usage_html(recording.summary(), curves_of(recording, _CURVES)))
        parts += [_regions(recording), _messages(recording)]
    except RecordingError as error:
        parts = [*(parts or [paragraph(recording.path)]), paragraph(str(error))]
    return ''.join(parts)


def table(titles: Sequence[Title], rows: Iterable[Iterable[str]]) -> str:
    """Return a table.

    :param titles: Of the columns.
    :param rows: Cells as :func:`cell` returns them.
    """
    head = ''.join(
        f'<th style="{_style(is_number=title.is_number)}"{_hint(title.hint)}>{escape(printable(title.text))}</th>'
        for title in titles
    )
    body = ''.join(f'<tr style="background:none;border:0;border-top:{_LINE}">{"".join(row)}</tr>' for row in rows)
    return (
        '<table style="border-collapse:collapse;border:0;margin:4px 0;font-size:13px;'
        'font-variant-numeric:tabular-nums">'
        f'<thead><tr style="background:none;border:0">{head}</tr></thead><tbody>{body}</tbody></table>'
    )


def cell(text: str, *, is_number: bool = True, hint: str = '', span: int = 1) -> str:
    """Return a cell with a text, which is escaped and cut as in :func:`paragraph`; blanks at its beginning are kept.

    :param hint: What a pointer over it shows.
    :param span: How many columns it takes.
    """
    return _raw_cell(escape(shortened(printable(text), _WIDEST)), is_number=is_number, hint=hint, span=span)


def paragraph(text: str) -> str:
    """Return a line of text, which is escaped and cut where nobody would read on."""
    return f'<div style="font-size:13px;margin:2px 0">{escape(shortened(printable(text), _WIDEST))}</div>'


def heading(text: str) -> str:
    """Return a line of text in bold, which is escaped and cut as in :func:`paragraph`."""
    return f'<div style="font-size:13px;margin:2px 0"><b>{escape(shortened(printable(text), _WIDEST))}</b></div>'


def _raw_cell(content: str, *, is_number: bool = True, hint: str = '', span: int = 1) -> str:
    columns = f' colspan="{span}"' if span > 1 else ''
    return f'<td style="{_style(is_number=is_number)}"{columns}{_hint(hint)}>{content}</td>'


def _style(*, is_number: bool) -> str:
    return f'text-align:{"right" if is_number else "left"};padding:2px 10px 2px 0;border:0;white-space:pre'


def _hint(text: str) -> str:
    return f' title="{escape(text)}"' if text else ''


def _cells(
    usage: ResourceUsage, row: figures.Figure, paths: Sequence[str], curves: Mapping[str, Curve]
) -> Iterator[str]:
    yield cell(row.label, is_number=False, hint=row.hint)
    for path in paths:
        yield cell(figures.text(usage, path), span=len(GROUPS) if len(paths) == 1 else 1)
    if curves:
        column = row.column.replace('{group}', 'combined').replace('{whose}', 'combined')
        curve = curves.get(column)
        yield _raw_cell('' if curve is None else sparkline(curve, _curve_title(row, column, curve)), is_number=False)


def _curve_title(row: figures.Figure, column: str, curve: Curve) -> str:
    unit, factor = _CURVES[column]
    most = figures.figure(factor * max(value for _, value in curve.points), unit)
    return (
        f'{row.label.removesuffix(", mean")} over {figures.figure(curve.duration, "seconds")}: samples from 0 to {most}'
    )


def _heading(recording: Recording) -> str:
    meta = recording.meta
    command = shlex.join(meta.command) if meta.command else f'process {meta.root_pid or "N/A"}'
    interval = '' if meta.interval is None else f' every {meta.interval:g} s'
    facts = [meta.host, meta.started, f'{len(recording.samples):,} samples{interval}', shown.ending(recording)]
    return f'{heading(command)}{paragraph(", ".join(fact for fact in facts if fact))}'


def _regions(recording: Recording) -> str:
    """Return the table of regions; nothing without any."""
    regions, _ = shown.region_figures(recording)
    if not regions:
        return ''
    rows = shown.region_rows(regions[:MOST_ROWS], has_gpus=shown.has_gpus(recording))
    columns = [column for column in shown.REGION_COLUMNS if any(row[column.name] for row in rows)]
    more = f'{len(regions) - MOST_ROWS:,} more lines are left out' if len(regions) > MOST_ROWS else ''
    cells = ([cell(row[column.name], is_number=column.is_number) for column in columns] for row in rows)
    titles = [Title(column.title, _REGION_HINTS.get(column.name, ''), is_number=column.is_number) for column in columns]
    return table(titles, cells) + (paragraph(more) if more else '')


def _messages(recording: Recording) -> str:
    found = ''.join(
        paragraph(f'{message.level}: {message.text}') for message in islice(recording.messages, _MOST_MESSAGES)
    )
    more = len(recording.messages) - _MOST_MESSAGES
    return found + (paragraph(f'{more:,} more messages') if more > 0 else '')
