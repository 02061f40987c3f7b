"""Prints the short report of a command on standard error."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from gpu_tracker.cli import output, screen
from gpu_tracker.figures import place_of
from gpu_tracker.views.live.quantities import ASCII, symbols_of
from gpu_tracker.views.short_report import NOT_RECORDED, Part, Recorded, Surface, ending, has_failed, short_report

if TYPE_CHECKING:
    from gpu_tracker.cli.request import Request
    from gpu_tracker.recording.reading.recording import Recording
    from gpu_tracker.recording.reading.tree import PathFigures
    from gpu_tracker.result.usage import ResourceUsage

_LEAST_COVERAGE = 0.9
"""Smallest share of a part with known GPU utilization."""
_LEAST_OWN = 0.25
"""Smallest share of an outer region outside its inner regions for which the outer region is listed."""
_CURVE = 12
"""Characters."""


def print_report(
    usage: ResourceUsage,
    request: Request,
    exit_code: int | None,
    *,
    recorded: Recorded | None = None,
    recording: str | None = None,
    kept: int | None = None,
) -> None:
    """Print the report of an ended command.

    :param usage: The result, with its advice.
    :param recorded: What its recording adds, from :func:`read_recorded`; None: nothing is known of it.
    :param recording: The path of the recording that was asked for; None: none was.
    :param kept: The number of the kept run; None: it was not kept.
    """
    text = short_report(
        usage,
        request.words,
        exit_code,
        units=_units(usage, request),
        recorded=recorded or NOT_RECORDED,
        advice=[one.text for one in usage.advice],
        kept=kept,
        recording=None if recording is None or request.values['--tf'] is None else _shortest(recording),
        surface=_surface(),
    )
    output.say(text)


def print_failure(usage: ResourceUsage, request: Request, exit_code: int | None) -> None:
    """Print how the command has failed, in one line; nothing if it has not."""
    if has_failed(usage, exit_code):
        units = _units(usage, request) if request.format is None else {}
        output.say(ending(usage, request.words, exit_code, units=units, surface=_surface()))


def _units(usage: ResourceUsage, request: Request) -> dict[str, str]:
    """Return the units given as options. Other figures choose their unit."""
    units = {'ram': usage.max_ram.unit, 'gpu_ram': usage.max_gpu_ram.unit, 'time': usage.compute_time.unit}
    return {kind: unit for kind, unit in units.items() if kind not in request.adaptive}


def _seconds_of(found: PathFigures, recording: Recording) -> float:
    """Return the time with at least one open call. Simultaneous calls count once."""
    if found.share is None or recording.duration is None:
        return found.wall_time
    return min(found.wall_time, found.share * recording.duration)


def _gpu_percent(found: PathFigures) -> float | None:
    return found.gpu_utilization if found.gpu_coverage >= _LEAST_COVERAGE else None


def _shortest(path: str) -> str:
    try:
        return min(path, os.path.relpath(path), key=len)
    except (OSError, ValueError):
        return path  # the working folder was removed, or is on another drive of Windows


def _surface() -> Surface:
    symbols = symbols_of(os.environ)
    if sys.stderr is not None and sys.stderr.encoding.lower().replace('-', '') != 'utf8':
        symbols = ASCII
    return Surface(screen.width(output.STANDARD_ERROR), symbols, screen.shows_colors(output.STANDARD_ERROR))


def read_recorded(recording: Recording, usage: ResourceUsage) -> Recorded:
    """Return the innermost regions, and the curves of the GPUs that the run has used.

    An outer region is a part with its own time if that is a large share.
    """
    from gpu_tracker.recording.reading import tree  # noqa: PLC0415 - most runs have no recording

    nodes, _ = tree.merged(recording.regions)
    figures = {node.path: tree.figures_of(node, recording.span_figures, recording.duration) for node in nodes}
    inner: dict[tuple[str, ...], float] = {}
    for path, found in figures.items():
        inner[path[:-1]] = inner.get(path[:-1], 0.0) + _seconds_of(found, recording)
    parts: dict[str, Part] = {}
    for path, found in figures.items():
        own = _seconds_of(found, recording) - inner.get(path, 0.0)
        if path in inner and own < _LEAST_OWN * _seconds_of(found, recording):
            continue
        is_judged = usage.gpus and path not in inner and not tree.has_short_calls(found, recording.meta.interval)
        percent = _gpu_percent(found) if is_judged else None
        before = parts.get(path[-1])
        parts[path[-1]] = Part(path[-1], own, percent) if before is None else Part(path[-1], before.seconds + own)
    places = {gpu.uuid: place_of(gpu) for gpu in usage.gpus or ()}
    numbers = {gpu.id: places[gpu.uuid] for gpu in recording.gpus if gpu.uuid in places}
    curves = recording.samples.of_each_gpu(list(numbers), _CURVE)
    return Recorded(
        sorted(parts.values(), key=lambda part: -part.seconds),
        {numbers[number]: found.series['utilization'].mean for number, found in curves.items()},
    )
