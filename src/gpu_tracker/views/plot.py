"""A recording as a figure of matplotlib, to be printed: panels below each other on one axis of time.

The only module that imports matplotlib, which is an extra. Figures are made without ``pyplot``, so that nothing is kept
and no window is opened, also in a program that has windows of its own.
"""

from __future__ import annotations

import colorsys
import textwrap
import warnings
from io import BytesIO
from typing import TYPE_CHECKING, Any

from gpu_tracker.errors import ParameterError, RecordingError
from gpu_tracker.figures import figure as worded
from gpu_tracker.recording.reading.model import or_unknown
from gpu_tracker.system.terminal_text import printable
from gpu_tracker.views.bands import name_of, shading_of
from gpu_tracker.views.panels import COMBINED, DESCENDANTS, KEYS, LESSER, MAIN, OTHER, SYSTEM, panels_of, stacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpu_tracker.recording.reading.recording import Recording
    from gpu_tracker.views.bands import Band
    from gpu_tracker.views.panels import Line, Panel

FORMATS = ('png', 'svg', 'pdf')
GENERATOR = 'drawn by gpu-tracker'
"""At the beginning of each PNG file."""

COLORS = {
    COMBINED: '#0072b2',
    MAIN: '#c1440e',
    DESCENDANTS: '#00815f',
    SYSTEM: '#7c8792',
    OTHER: '#b0297e',
    LESSER: '#8a6d00',
}
"""As in ``report.css``: people who see no red or no green can tell them apart."""
_MOST_BANDS = 5
"""Names of regions that are shaded."""
_AREA = 0.33
"""How dense the areas of the main process and its descendants are."""
_WIDTH = 7.2
_PANEL_HEIGHT = 1.55
_REST = 1.15
"""Inches: a column and a half of a journal, each panel, and what stands above and below them."""
_DOTS = 200
POINTS = 2000
_LINES_OF_A_COLUMN = 8
WIDTH_OF_TEXT = 110
"""Characters in a line of the caption."""
_MINUTES_FROM, _HOURS_FROM, _DAYS_FROM = 180, 7200, 172_800
_SIZES = ((1e12, 'TB'), (1e9, 'GB'), (1e6, 'MB'), (1e3, 'kB'), (1.0, 'B'))


def plot(
    recording: Recording,
    only: Iterable[str] | None = None,
    start: float | None = None,
    stop: float | None = None,
) -> Any:  # noqa: ANN401 - the package need not be there
    """Return a ``matplotlib.figure.Figure`` of a recording.

    :param only: The panels that are wanted: ``ram``, ``cpu``, ``gpu_ram``, ``gpu``, ``gpu_activity``, ``io``,
        ``power``. None: all of which something is known.
    :param start: From when on, in seconds since the first sample.
    :param stop: Up to when.
    :raises ParameterError: where there is no such panel.
    :raises RecordingError: where matplotlib is not installed, or nothing of what is wanted was recorded.
    """
    keys = keys_of(KEYS if only is None else only)
    panels = panels_of(recording, POINTS, start, stop, keys)
    if not panels:
        raise RecordingError(f'{recording.path} has no data to plot for {", ".join(keys)}')
    begin, end = span_of(panels)
    drawn, axes, divisor = empty_figure(len(panels), begin, end)
    shading = shading_of(recording.regions)
    bands = [band for band in shading.bands if band.stop > begin and band.start < end]
    for axis, panel in zip(axes, panels, strict=True):
        _draw_bands(axis, bands, divisor)
        _draw_panel(axis, panel, divisor)
    write_around(drawn, *_named_bands(axes[0], bands, shading.more), _caption(recording))
    return drawn


def span_of(panels: Sequence[Panel]) -> tuple[float, float]:
    """Return when the first value of panels begins, and when the last one ends."""
    return min(panel.begin for panel in panels), max(panel.times[-1] for panel in panels)


def empty_figure(panels: int, begin: float, end: float) -> tuple[Any, Any, float]:
    """Return a figure for panels over a span of seconds, their axes, and by what times are to be divided."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - takes a third of a second
    except ImportError as error:
        from gpu_tracker.installation import install_command  # noqa: PLC0415 - only where the package is missing

        raise RecordingError(f'a plot needs the package matplotlib: {install_command("plot")}') from error
    divisor, unit = _time_unit(end - begin)
    drawn = Figure(figsize=(_WIDTH, _REST + _PANEL_HEIGHT * panels), dpi=_DOTS, layout='constrained')
    axes = drawn.subplots(panels, 1, sharex=True, squeeze=False)[:, 0]
    axes[-1].set_xlim(begin / divisor, max(end, begin + 1e-6) / divisor)
    axes[-1].set_xlabel(f'Time since the start ({unit})', fontsize=8)
    return drawn, axes, divisor


def write_around(
    drawn: Any,  # noqa: ANN401 - as above
    handles: Sequence[Any],
    names: Sequence[str],
    caption: str,
    title: str | None = None,
) -> None:
    """Write a legend with its title above a figure, if it has names, and the caption below it."""
    if names:
        drawn.legend(
            handles,
            names,
            title=title,
            loc='outside upper center',
            ncols=min(4, len(names)),
            fontsize=8,
            title_fontsize=10,
            frameon=False,
        )
    drawn.supxlabel(caption, fontsize=7, color='#444444', x=0.01, ha='left')


def keys_of(wanted: Iterable[str]) -> list[str]:
    """Return the panels that are wanted, in the order in which they are drawn.

    :raises ParameterError: where there is no such panel.
    """
    found = {key.strip().replace('-', '_') for key in wanted}
    for key in found:
        if key not in KEYS:
            raise ParameterError('only', key, f'some of {", ".join(KEYS)}')
    return [key for key in KEYS if key in found]


def picture(drawn: Any, kind: str) -> bytes:  # noqa: ANN401 - as above
    """Return a figure as a file: the same figure is always the same file.

    :param kind: ``png``, ``svg`` or ``pdf``.
    """
    import matplotlib as mpl  # noqa: PLC0415 - as above

    metadata = {'png': {'Software': GENERATOR}, 'svg': {'Date': None}, 'pdf': {'CreationDate': None}}
    file = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings('ignore', message='Glyph')  # the font lacks letters of some language: boxes are drawn
        with mpl.rc_context({'svg.hashsalt': 'gpu-tracker', 'svg.fonttype': 'none', 'pdf.fonttype': 42}):
            drawn.savefig(file, format=kind, metadata=metadata[kind])
    return file.getvalue()


def _draw_bands(axis: Any, bands: Sequence[Band], divisor: float) -> None:  # noqa: ANN401 - as above
    names = _drawn_names(bands)
    for band in bands:
        if band.name in names:
            color = colorsys.hls_to_rgb(_hue(name_of(band.name)) / 360, 0.5, 0.6)
            span = (band.start / divisor, band.stop / divisor)
            axis.axvspan(*span, color=color, alpha=0.22, linewidth=0, label=f'_{band.name}')


def _hue(name: str) -> int:
    """Return the hue of a region, in degrees, as ``hue`` in ``report.js`` does."""
    total = 7
    for letter in name:
        total = (total * 31 + ord(letter)) % 360
    return total


def _drawn_names(bands: Sequence[Band]) -> list[str]:
    """Return the names that take most time, as many as are shaded."""
    seconds: dict[str, float] = {}
    for band in bands:
        seconds[band.name] = seconds.get(band.name, 0.0) + band.stop - band.start
    longest = sorted(seconds, key=lambda name: -seconds[name])[:_MOST_BANDS]
    return [name for name in seconds if name in longest]


def _named_bands(axis: Any, bands: Sequence[Band], shorter: int) -> tuple[list[Any], list[str]]:  # noqa: ANN401 - as above
    """Return a patch for each name of a region that is drawn, and the names.

    :param shorter: How many names have no band.
    """
    found: dict[str, Any] = {}
    for patch in axis.patches:
        if patch.get_label().startswith('_'):
            found.setdefault(patch.get_label()[1:], patch)
    names = [plain(name_of(name)) for name in found]
    more = len({band.name for band in bands}) - len(names) + shorter
    if more > 0 and names:
        names[-1] += f' (and {more:,} more that are not shaded)'
    return list(found.values()), names


def _draw_panel(axis: Any, panel: Panel, divisor: float) -> None:  # noqa: ANN401 - as above
    highest = max(panel.largest, panel.limit or 0.0) if panel.shows_limit else panel.largest
    scale, unit = scale_of(highest, panel.unit)
    areas = stacked(panel)
    for line in panel.lines:
        area = areas.get(line.name)
        if area is not None:
            _draw_area(axis, panel, line, area, divisor, scale)
        if area is None or line.role != DESCENDANTS:
            style = {
                'color': COLORS[line.role],
                'linestyle': (0, line.dash) if line.dash else '-',
                'linewidth': 2.4 if line.name.startswith('combined_') else 1.0,  # what lies on it can be seen with it
                'label': plain(line.title),
            }
            draw_line(axis, panel, line, divisor, scale, style)
    if panel.shows_limit and panel.limit is not None:
        axis.axhline(panel.limit / scale, color='#b8232f', linestyle=(0, (1, 2)), linewidth=1, label=panel.limit_title)
    if panel.peak is not None:
        title = f'peak, {worded(panel.peak, panel.unit)}'
        axis.axhline(panel.peak / scale, color=COLORS[COMBINED], linestyle=(0, (1, 2)), linewidth=1, label=title)
    arrange(axis, f'{panel.title}\n({unit})', highest / scale)
    columns = 1 + (len(axis.get_legend_handles_labels()[0]) - 1) // _LINES_OF_A_COLUMN
    axis.legend(
        fontsize=7, frameon=False, loc='upper left', bbox_to_anchor=(1.0, 1.02), borderaxespad=0.2, ncols=columns
    )


def draw_line(
    axis: Any,  # noqa: ANN401 - as above
    panel: Panel,
    line: Line,
    divisor: float,
    scale: float,
    style: Mapping[str, Any],
) -> None:
    """Draw one line of a panel, with what lies between its lowest and highest values.

    :param divisor: By what times are divided.
    :param scale: By what values are divided.
    """
    ends = [time / divisor for time in panel.times]
    values, low, high = (
        [float('nan') if value is None else value / scale for value in part]
        for part in (line.series.mean, line.series.lowest, line.series.highest)
    )
    between = {'color': style['color'], 'alpha': 0.25, 'linewidth': 0}
    if panel.is_rate:  # each value is that of the whole time since the one before
        edges = [panel.begin / divisor, *ends]
        axis.stairs(values, edges, baseline=None, **style)
        if low != high:
            axis.stairs(high, edges, baseline=low, fill=True, **between)
    else:
        axis.plot(ends, values, marker='o' if len(ends) == 1 else None, **style)
        if low != high:
            axis.fill_between(ends, low, high, **between)


def arrange(axis: Any, title: str, highest: float) -> None:  # noqa: ANN401 - as above
    """Set the title of an axis, its end above the highest value, and how it looks."""
    axis.set_ylim(0, 1.08 * highest or 1)
    axis.set_ylabel(title, fontsize=8)
    axis.tick_params(labelsize=8)
    axis.grid(visible=True, color='#dddddd', linewidth=0.5)
    axis.set_axisbelow(True)
    for side in ('top', 'right'):
        axis.spines[side].set_visible(False)


def _draw_area(
    axis: Any,  # noqa: ANN401 - as above
    panel: Panel,
    line: Line,
    area: tuple[list[float | None], list[float | None]],
    divisor: float,
    scale: float,
) -> None:
    """Draw the area of a line; that of the descendants stands alone, and so in the legend."""
    ends = [time / divisor for time in panel.times]
    lower, upper = ([float('nan') if value is None else value / scale for value in part] for part in area)
    title = plain(line.title) if line.role == DESCENDANTS else ''
    options: dict[str, Any] = {'color': COLORS[line.role], 'alpha': _AREA, 'linewidth': 0, 'label': title}
    if panel.is_rate:
        axis.stairs(upper, [panel.begin / divisor, *ends], baseline=lower, fill=True, **options)
    else:
        axis.fill_between(ends, lower, upper, **options)


def scale_of(highest: float, unit: str) -> tuple[float, str]:
    """Return by what values are divided, and in which unit they are then."""
    if unit not in {'bytes', 'bytes/s'}:
        return 1.0, {'percent': '%', 'watts': 'W'}[unit]
    size, name = next(((size, name) for size, name in _SIZES if highest >= size), _SIZES[-1])
    return size, f'{name}{unit.removeprefix("bytes")}'


def _time_unit(seconds: float) -> tuple[float, str]:
    if seconds < _MINUTES_FROM:
        return 1.0, 's'
    if seconds < _HOURS_FROM:
        return 60.0, 'min'
    return (3600.0, 'h') if seconds < _DAYS_FROM else (86_400.0, 'd')


def _caption(recording: Recording) -> str:
    lines = textwrap.wrap(printable(recording.meta.title), WIDTH_OF_TEXT, max_lines=2, placeholder=' …')
    return '\n'.join(plain(line) for line in [*lines, origin(recording)])


def origin(recording: Recording) -> str:
    """Return where, when, how long and by what a run was recorded."""
    meta = recording.meta
    interval = '' if meta.interval is None else f', sampled every {meta.interval:g} s'
    duration = worded(recording.duration, 'seconds')
    return f'{or_unknown(meta.host)}, {or_unknown(meta.started)[:10]}, {duration}{interval}, {or_unknown(meta.program)}'


def plain(text: str) -> str:
    """Return a text in which nothing is read as a formula."""
    return printable(text).replace('$', r'\$')
