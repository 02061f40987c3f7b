"""Runs over each other as one figure of matplotlib: a colour for each group, and one line a run in each panel."""

from __future__ import annotations

import textwrap
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_tracker.errors import RecordingError
from gpu_tracker.system.terminal_text import printable
from gpu_tracker.views.panels import COMBINED, KEYS, panels_of
from gpu_tracker.views.plot import (
    COLORS,
    POINTS,
    WIDTH_OF_TEXT,
    arrange,
    draw_line,
    empty_figure,
    keys_of,
    origin,
    plain,
    scale_of,
    span_of,
    write_around,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpu_tracker.recording.reading.recording import Recording
    from gpu_tracker.views.panels import Line, Panel

_MOST_ORIGINS = 6


class _Drawn(NamedTuple):
    """The line of one run in one panel."""

    group: str
    panel: Panel
    line: Line


def overlay(
    groups: Mapping[str, Sequence[Recording]],
    only: Iterable[str] | None = None,
    start: float | None = None,
    stop: float | None = None,
) -> Any:  # noqa: ANN401 - the package need not be there
    """Return a ``matplotlib.figure.Figure`` of runs, each from its own start: of all processes, or of the fullest GPU.

    :param groups: By name, the recordings of each.
    :param only: See :func:`gpu_tracker.views.plot.plot`; the others too.
    """
    keys = keys_of(KEYS if only is None else only)
    by_key: dict[str, list[_Drawn]] = {key: [] for key in keys}
    for name, recordings in groups.items():
        for recording in recordings:
            for panel in panels_of(recording, POINTS, start, stop, keys):
                by_key[panel.key] += [_Drawn(name, panel, line) for line in panel.lines if line.role == COMBINED][:1]
    shown = [lines for lines in by_key.values() if lines]
    if not shown:
        raise RecordingError(f'the recordings have no data to plot for {", ".join(keys)}')
    drawn, axes, divisor = empty_figure(len(shown), *span_of([one.panel for lines in shown for one in lines]))
    colors = dict(zip(groups, cycle(COLORS.values()), strict=False))
    for axis, lines in zip(axes, shown, strict=True):
        _draw(axis, lines, divisor, colors)
    handles = {artist.get_gid(): artist for axis in axes for artist in (*axis.lines, *axis.patches)}
    known = [name for name in groups if name in handles]
    write_around(drawn, [handles[name] for name in known], list(map(plain, known)), _caption(groups), _title(groups))
    return drawn


def _draw(axis: Any, lines: Sequence[_Drawn], divisor: float, colors: Mapping[str, str]) -> None:  # noqa: ANN401 - as above
    highest = max(one.line.series.largest or 0.0 for one in lines)
    panel = lines[0].panel
    scale, unit = scale_of(highest, panel.unit)
    for one in lines:
        style = {'color': colors[one.group], 'linewidth': 1.4, 'gid': one.group}
        draw_line(axis, one.panel, one.line, divisor, scale, style)
    titles = dict.fromkeys(one.line.title for one in lines)
    arrange(axis, f'{panel.title}\n({unit})', highest / scale)
    axis.set_title(plain(' or '.join(titles)), fontsize=7, loc='right', pad=2)


def _title(groups: Mapping[str, Sequence[Recording]]) -> str:
    commands = dict.fromkeys(printable(run.meta.title) for runs in groups.values() for run in runs)
    return plain(textwrap.shorten('; '.join(commands), WIDTH_OF_TEXT, placeholder=' …'))


def _caption(groups: Mapping[str, Sequence[Recording]]) -> str:
    lines = [f'{name}: {origin(run)}' for name, runs in groups.items() for run in runs]
    more = [f'and {len(lines) - _MOST_ORIGINS:,} more'] if len(lines) > _MOST_ORIGINS else []
    return '\n'.join(plain(line) for line in [*lines[:_MOST_ORIGINS], *more])
