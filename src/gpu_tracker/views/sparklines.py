"""Sparklines: columns of a recording over time, drawn as SVG images within HTML.

An image in a ``data:`` address is shown where elements of SVG are taken away: JupyterLab does so in notebooks that are
not trusted (https://github.com/jupyterlab/jupyterlab/issues/10464), and GitHub.
"""

from __future__ import annotations

from base64 import b64encode
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.resources import COUNTER

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gpu_tracker.recording.reading.recording import Recording

_WIDTH = 120
"""Pixels, each of which is a point."""
_HEIGHT = 24
_MARGIN = 2
"""Above and below a curve, for the width of its line."""
_COLOR = '#4a8fd8'
"""Seen well on white and on black."""


class Curve(NamedTuple):
    """A figure over time.

    :ivar points: Seconds since the first sample, and the figure then, in the order of time.
    :ivar duration: Seconds from the first sample to the last.
    """

    points: Sequence[tuple[float, float]]
    duration: float


def curves_of(recording: Recording, names: Collection[str]) -> dict[str, Curve]:
    """Return the curves of those columns of ``names`` that the recording has, if they are known at two moments.

    Of a gauge the most in each pixel is shown. A counter becomes a rate: units a second.

    :raises RecordingError: where the samples cannot be read.
    """
    duration = recording.duration
    if duration is None or duration <= 0:
        return {}
    found: dict[str, Curve] = {}
    gauges, counters = (
        [column.name for column in recording.columns if column.name in names and (column.kind == COUNTER) == is_counter]
        for is_counter in (False, True)
    )
    if gauges:
        buckets = recording.samples.buckets(gauges, _WIDTH)
        for name, series in buckets.series.items():
            found[name] = Curve(_known(buckets.times, series.highest), duration)
    if counters:
        buckets = recording.samples.rates(counters, _WIDTH, recording.meta.interval or 0.0)
        for name, series in buckets.series.items():
            # Each rate is that before its time.
            found[name] = Curve(_known([buckets.begin, *buckets.times], [*series.mean[:1], *series.mean]), duration)
    return {name: curve for name, curve in found.items() if len(curve.points) > 1}


def sparkline(curve: Curve, title: str) -> str:
    """Return a curve as an image; its axis begins at 0 and ends at its largest value.

    :param title: What a pointer over it shows, and a screen reader reads.
    """
    largest = max(value for _, value in curve.points) or 1.0
    room = _HEIGHT - 2 * _MARGIN
    line = 'L'.join(
        f'{_WIDTH * min(1.0, max(0.0, t / curve.duration)):.1f},'
        f'{_HEIGHT - _MARGIN - room * min(1.0, max(0.0, value / largest)):.1f}'
        for t, value in curve.points
    )
    first, last = (line.split('L')[place].split(',')[0] for place in (0, -1))
    bottom = _HEIGHT - _MARGIN
    image = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}">'
        f'<path d="M{first},{bottom}L{line}L{last},{bottom}Z" fill="{_COLOR}" fill-opacity="0.2"/>'
        f'<path d="M{line}" fill="none" stroke="{_COLOR}" stroke-width="1.5" stroke-linejoin="round"/></svg>'
    )
    address = f'data:image/svg+xml;base64,{b64encode(image.encode()).decode()}'
    name = escape(title)
    return (
        f'<img src="{address}" width="{_WIDTH}" height="{_HEIGHT}" alt="{name}" title="{name}" style="display:block">'
    )


def _known(times: Sequence[float], values: Sequence[float | None]) -> list[tuple[float, float]]:
    return [(t, value) for t, value in zip(times, values, strict=False) if value is not None]
