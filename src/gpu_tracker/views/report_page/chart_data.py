"""The numbers of a page's charts, as the JSON from which its script draws them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpu_tracker.views.bands import name_of, shading_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_tracker.recording.reading.recording import Recording
    from gpu_tracker.views.panels import Line, Panel

_DIGITS = 5
_MICROSECONDS = 6


def as_json(runs: Iterable[tuple[Recording, Sequence[Panel], Sequence[Sequence[tuple[float, float]]]]]) -> str:
    """Return what the script of the page reads.

    :param runs: Of each recording its panels, and the spans of time in which each line of its table of regions was
        open.
    """
    found = [_run(*run) for run in runs]
    text = json.dumps({'runs': found}, separators=(',', ':'), allow_nan=False)
    return text.replace('<', '\\u003c')  # nothing in it ends the element that it is in


def _run(
    recording: Recording, panels: Sequence[Panel], spans: Sequence[Sequence[tuple[float, float]]]
) -> dict[str, Any]:
    shading = shading_of(recording.regions)
    return {
        'panels': [_panel(panel) for panel in panels],
        'bands': [[name_of(band.name), _time(band.start), _time(band.stop)] for band in shading.bands],
        'more': shading.more,
        'spans': [[[_time(start), _time(stop)] for start, stop in of_line] for of_line in spans],
    }


def _panel(panel: Panel) -> dict[str, Any]:
    return {
        'key': panel.key,
        'unit': panel.unit,
        'steps': panel.is_rate,
        'begin': _time(panel.begin),
        'times': [_time(time) for time in panel.times],
        'limit': panel.limit if panel.shows_limit else None,
        'peak': panel.peak,
        'lines': [_line(line) for line in panel.lines],
    }


def _line(line: Line) -> dict[str, Any]:
    found: dict[str, Any] = {
        'name': line.name,
        'title': line.title,
        'role': line.role,
        'mean': _rounded(line.series.mean),
    }
    if line.dash:
        found['dash'] = line.dash
    if line.series.lowest != line.series.mean or line.series.highest != line.series.mean:
        found |= {'low': _rounded(line.series.lowest), 'high': _rounded(line.series.highest)}
    return found


def _rounded(values: Iterable[float | None]) -> list[float | None]:
    """Return the values with five digits: more than can be seen, and half of the page's size."""
    return [None if value is None else _short(float(f'{value:.{_DIGITS}g}')) for value in values]


def _time(seconds: float) -> float:
    return _short(round(seconds, _MICROSECONDS))


def _short(value: float) -> float:
    return int(value) if value.is_integer() else value
