"""Puts a report together: its parts, its numbers, its style and its script in one text."""

from __future__ import annotations

import base64
import hashlib
import os
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from gpu_tracker import views
from gpu_tracker.errors import RecordingError
from gpu_tracker.system.terminal_text import printable
from gpu_tracker.views.panels import MOST_POINTS, panels_of
from gpu_tracker.views.report_page import sections
from gpu_tracker.views.report_page.chart_data import as_json
from gpu_tracker.views.report_page.elements import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from importlib.resources.abc import Traversable
    from xml.etree.ElementTree import Element

    from gpu_tracker.recording.reading.recording import Recording

GENERATOR = '<meta name="generator" content="gpu-tracker">'
"""Stands near the beginning of every page."""
_MOST_VALUES = 20_000
_LEAST_POINTS = 200
_LINES_OF_ALL = 14
_LINES_OF_A_GPU = 3
"""What a page may draw: points of all lines together, those that each line has at least, and lines there can be."""
_MOST_SPANS = 4_000
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
{generator}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>{scripts}
</body>
</html>
"""


def html_page(
    recordings: Sequence[Recording],
    *,
    start: float | None = None,
    stop: float | None = None,
    most: int = MOST_POINTS,
) -> str:
    """Return the page of one recording, or of several side by side with their differences to the first.

    :param start: From when on the charts show the runs, in seconds since their first samples; None: from these.
    :param stop: Up to when.
    :param most: Points of a line; zooming ends there. Where there are many lines, they have fewer.
    :raises RecordingError: where a recording cannot be read, or has no sample in that part.
    """
    names = _names([recording.path for recording in recordings])
    most = min(most, max(_LEAST_POINTS, _MOST_VALUES // _count_lines(recordings)))
    panels = [panels_of(recording, most, start, stop) for recording in recordings]
    part = _part(start, stop)
    if part and not any(panels):
        raise RecordingError(f'the recording has no samples {part}')
    found = [sections.region_lines(recording, _MOST_SPANS // len(recordings)) for recording in recordings]
    lines, left_out = [of_run for of_run, _ in found], sum(more for _, more in found)
    has_gpus = any(panel.key == 'gpu' for of_run in panels for panel in of_run)
    parts: list[Element | None] = [
        sections.heading(recordings, names),
        sections.advice(recordings, names),
        sections.figures(recordings, names),
        *_of_each(sections.gpus, 'GPUs', recordings, names),
        sections.charts(panels, names, part),
        sections.regions(lines, names, left_out, has_gpus=has_gpus),
        *_of_each(sections.processes, 'Processes', recordings, names),
        sections.sampling_of_all(recordings, names),
    ]
    spans = [[line.spans for line in of_run] for of_run in lines]
    numbers = as_json(zip(recordings, panels, spans, strict=True))
    folder = resources.files(__package__) / 'static'
    charts = resources.files(views) / 'uplot'
    style = _read(charts / 'uPlot.min.css') + _read(folder / 'report.css')
    # One module: the library's export is allowed in it, and its names are known, but not used up, in the block behind.
    script = f'{_read(charts / "uPlot.esm.js")}\n{{\n{_read(folder / "report.js")}}}\n'
    return document(_title(recordings, names), style, parts, script, numbers)


def document(title: str, style: str, parts: Iterable[Element | None], script: str = '', numbers: str = '') -> str:
    """Return a page that needs no other file, and whose policy lets a browser use its own style and script alone.

    :param script: A module; an empty text: there is none.
    :param numbers: What it draws, as JSON.
    """
    sources, scripts = '', ''
    if script:
        sources = f'script-src {_hash_of(script)}; '
        scripts = f'\n<script type="application/json" id="numbers">{numbers}</script>'
        scripts += f'\n<script type="module">{script}</script>'
    policy = f"default-src 'none'; style-src {_hash_of(style)}; {sources}base-uri 'none'; form-action 'none'"
    return _PAGE.format(
        policy=escape(policy),
        generator=GENERATOR,
        title=escape(printable(title)),
        style=style,
        body='\n'.join(text_of(part) for part in parts if part is not None),
        scripts=scripts,
    )


def _of_each(
    section: Callable[[Recording, str], Element | None],
    title: str,
    recordings: Sequence[Recording],
    names: Sequence[str],
) -> Iterator[Element | None]:
    """Yield a section of each run, with the name of the run in its title if there are several."""
    for recording, name in zip(recordings, names, strict=True):
        yield section(recording, f'{title} of {name}' if len(names) > 1 else title)


def _count_lines(recordings: Sequence[Recording]) -> int:
    """Return how many lines the page may have at most."""
    return sum(_LINES_OF_ALL + _LINES_OF_A_GPU * len(recording.gpus) for recording in recordings)


def _part(start: float | None, stop: float | None) -> str:
    """Return in words which part of the runs the charts show, or nothing for whole runs."""
    if start is None and stop is None:
        return ''
    end = 'the end' if stop is None else f'{stop:g} s'
    return f'from {start or 0.0:g} s to {end}'


def _names(paths: Sequence[str]) -> list[str]:
    """Return names by which the runs are told apart: those of their files, or the paths where these are the same."""
    names = [os.path.basename(path) for path in paths]
    return names if len(set(names)) == len(names) else list(paths)


def _title(recordings: Sequence[Recording], names: Sequence[str]) -> str:
    return sections.command_of(recordings[0].meta) if len(recordings) == 1 else ' and '.join(names)


def _read(file: Traversable) -> str:
    return file.read_text(encoding='utf-8')


def _hash_of(text: str) -> str:
    """Return a style or a script as a policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
