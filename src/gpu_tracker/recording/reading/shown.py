"""A recording as text and as JSON: which run it was, its result, its regions as a tree, its processes."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_tracker.errors import RecordingError
from gpu_tracker.job import place_in_job
from gpu_tracker.recording.reading import tree
from gpu_tracker.recording.reading.model import or_unknown
from gpu_tracker.recording.reading.plain import plain
from gpu_tracker.recording.schema import ABANDONED
from gpu_tracker.result import formats
from gpu_tracker.system.terminal_text import Column, printable, shortened, table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from gpu_tracker.recording.reading.model import Bounded
    from gpu_tracker.recording.reading.recording import Recording
    from gpu_tracker.recording.reading.tree import PathFigures
    from gpu_tracker.result.usage import Advice

_MEGA = 1e6
_MOST_ROWS = 200
"""Of a table as text; JSON has all."""
_WIDEST_NAME = 60
_NARROWEST_NAME = 16
_INDENT = 2

REGION_COLUMNS = (
    Column('name', 'Region', _NARROWEST_NAME),
    Column('calls', 'Calls', is_number=True),
    Column('time', 'Time s', is_number=True),
    Column('share', 'Share', is_number=True),
    Column('thread_cpu', 'CPU s', is_number=True),
    Column('cpu', 'All CPU s', is_number=True),
    Column('ram', 'RAM MB', is_number=True),
    Column('gpu', 'GPU %', is_number=True),
    Column('gpu_ram', 'GPU RAM MB', is_number=True),
    Column('raised', 'Raised', is_number=True),
    Column('not_ended', 'Not ended', is_number=True),
)
_REGIONS_LEFT_OUT_FIRST = ('thread_cpu', 'gpu_ram', 'gpu')
_PROCESS_COLUMNS = (
    Column('pid', 'PID', is_number=True),
    Column('parent', 'Parent', is_number=True),
    Column('name', 'Process', _NARROWEST_NAME),
    Column('first', 'Since s', is_number=True),
    Column('ram', 'RAM MB', is_number=True),
    Column('gpu_ram', 'GPU RAM MB', is_number=True),
    Column('cpu', 'CPU s', is_number=True),
)
_LEGEND = (
    'CPU s: of the threads of the calls. All CPU s: of all tracked processes meanwhile.',
    'RAM: the most of the process of a call. GPU RAM: the most of all tracked processes.',
)
_COARSE = 'GPU %: some calls are shorter than two samples, {:g} s apart. A smaller --sleep-time says more.'
_MARKS = '~: an estimate from samples around it; >=, <=: a lower and an upper bound.'


def as_text(
    recording: Recording,
    width: int | None = None,
    *units: str | None,
    adaptive: Collection[str] = (),
    advice: tuple[Advice, ...] = (),
) -> str:
    """Return what there is to see of a recording.

    :param width: How wide the tables may be; None: as wide as they are.
    :param units: Those of the result, as :meth:`Recording.summary` takes them.
    :param adaptive: Of what the result has each figure in the unit that suits it, see
        :func:`gpu_tracker.result.formats.as_text`.
    :param advice: What the run suggests.
    """
    result = _result(recording, units, adaptive, advice)
    blocks = [list(_heading(recording)), result]
    regions, left_out = region_figures(recording)
    if regions:
        interval = recording.meta.interval
        blocks.append(list(_region_lines(regions, left_out, width, has_gpus=has_gpus(recording), interval=interval)))
    processes = process_figures(recording)
    if processes:
        blocks.append(list(_process_lines(processes, width)))
    warnings = [
        f'{message.level}: {message.text}'
        for message in recording.messages
        if not any(line.endswith(message.text) for line in result)  # the result says it already
    ]
    if warnings:
        blocks.append(_shortened_list(warnings, 'messages'))
    return '\n\n'.join('\n'.join(printable(line) for line in block) for block in blocks if block)


def as_json(recording: Recording, *units: str | None, advice: tuple[Advice, ...] = ()) -> str:
    """Return the same as a JSON object, with all that the text leaves out, in base units.

    :param units: Those of the result, as :meth:`Recording.summary` takes them.
    :param advice: What the run suggests.
    """
    regions, left_out = region_figures(recording)
    meta, summary = recording.meta, _summary(recording, units, advice)
    found = {
        **with_run(summary, meta.command, meta.exit_code, meta.host, meta.program),
        'meta': plain(meta),
        'is_complete': meta.is_complete,
        'duration': recording.duration,
        'samples': len(recording.samples),
        'summary': summary,
        'regions': plain(regions),
        'regions_left_out': left_out,
        'processes': [process._asdict() for process in process_figures(recording)],
        'messages': plain(recording.messages),
    }
    return json.dumps(found, indent=1, allow_nan=False)


def with_run(
    summary: Mapping[str, Any] | None,
    command: Sequence[str] | None,
    exit_code: int | None,
    host: str | None,
    program: str | None,
) -> dict[str, Any]:
    """Return the sections of a result, with ``run``: which run it is of."""
    version = program and program.removeprefix('gpu-tracker ')
    return {
        'run': {'command': command, 'exit_code': exit_code, 'host': host, 'version': version},
        **(summary or {}),
    }


def region_figures(recording: Recording) -> tuple[list[PathFigures], int]:
    """Return what each path of regions used, in the order of the tree, and how many calls lie too deep to be in it."""
    nodes, left_out = tree.merged(recording.regions)
    if not nodes:
        return [], left_out
    return [tree.figures_of(node, recording.span_figures, recording.duration) for node in nodes], left_out


class ProcessFigures(NamedTuple):
    """What one process used.

    :ivar last_t: When it was last seen.
    :ivar max_rss: The most RSS at any sample in bytes.
    :ivar max_gpu_ram: The most memory on all GPUs together at any sample in bytes.
    :ivar cpu: Its CPU time at its last sample in seconds.
    """

    pid: int
    parent: int
    name: str
    first_t: float
    last_t: float
    max_rss: int | None
    max_gpu_ram: int | None
    cpu: float | None


def process_figures(recording: Recording) -> list[ProcessFigures]:
    """Return what each process used, where processes were recorded."""
    last: dict[int, float] = {}
    largest: dict[int, int] = {}
    on_gpus: dict[int, int] = {}
    cpu: dict[int, float] = {}
    for sample in recording.process_samples() if recording.processes else ():
        last[sample.process] = sample.t
        if sample.rss is not None:
            largest[sample.process] = max(sample.rss, largest.get(sample.process, 0))
        if sample.gpu_ram is not None:
            on_gpus[sample.process] = max(sample.gpu_ram, on_gpus.get(sample.process, 0))
        if sample.cpu is not None:
            cpu[sample.process] = sample.cpu
    return [
        ProcessFigures(
            pid=one.pid,
            parent=one.parent,
            name=one.name,
            first_t=one.first_t,
            last_t=max(last.get(one.id, one.first_t), one.first_t),
            max_rss=largest.get(one.id),
            max_gpu_ram=on_gpus.get(one.id),
            cpu=cpu.get(one.id),
        )
        for one in recording.processes
    ]


def _summary(recording: Recording, units: Sequence[str | None], advice: tuple[Advice, ...]) -> dict[str, Any] | None:
    try:
        return replace(recording.summary(*units), advice=advice).to_dict()
    except RecordingError:
        return None


def _heading(recording: Recording) -> Iterator[str]:
    meta = recording.meta
    yield meta.title
    system = ' '.join(part for part in (meta.system, meta.machine) if part)
    details = ', '.join(part for part in (system, f'Python {meta.python}' if meta.python else '') if part)
    host = f'{or_unknown(meta.host)} ({details})' if details else or_unknown(meta.host)
    yield _line('host', host)
    if meta.job is not None:
        yield _line('job', place_in_job(meta.job))
    if meta.folder:
        yield _line('folder', meta.folder)
    yield _line('started', or_unknown(meta.started))
    yield _line('ended', ending(recording))
    samples = len(recording.samples)
    interval = '' if meta.interval is None else f', every {meta.interval:g} s'
    yield _line('samples', f'{samples:,} in {recording.duration or 0.0:,.3f} s{interval}')
    yield _line('written by', or_unknown(meta.program))
    if meta.region_lines_lost:
        yield _line('lost', f'{meta.region_lines_lost:,} lines of the log of regions')
    if meta.samples_lost:
        yield _line('lost', f'{meta.samples_lost:,} samples')


def ending(recording: Recording) -> str:
    """Return how the run of a recording has ended, or that it has not."""
    meta = recording.meta
    if meta.is_complete:
        return meta.exit_in_words or 'when it was stopped'
    if meta.ended == ABANDONED:
        return 'not complete: the tracker was gone before the end of the run'
    return 'not complete: the run still goes on, or its sampler was killed'


def _result(
    recording: Recording, units: Sequence[str | None], adaptive: Collection[str], advice: tuple[Advice, ...]
) -> list[str]:
    try:
        return formats.as_text(replace(recording.summary(*units), advice=advice), adaptive).splitlines()
    except RecordingError as error:
        return [str(error)]


def _line(name: str, text: str) -> str:
    return f'{"":{_INDENT}}{name:<12}{text}'


def has_gpus(recording: Recording) -> bool:
    """Return whether the machine has GPUs, or may have some."""
    gpu = (recording.meta.totals or {}).get('gpu')
    return not isinstance(gpu, dict) or gpu.get('count') != 0


def _region_lines(
    regions: Sequence[PathFigures], left_out: int, width: int | None, *, has_gpus: bool, interval: float | None
) -> Iterator[str]:
    rows = region_rows(regions[:_MOST_ROWS], has_gpus=has_gpus)
    yield from table(REGION_COLUMNS, rows, width, _REGIONS_LEFT_OUT_FIRST)
    if len(regions) > _MOST_ROWS:
        yield f'{len(regions) - _MOST_ROWS:,} more lines are left out: -f json has them'
    if left_out:
        yield f'{left_out:,} calls that lie more than {tree.MOST_LEVELS} levels deep are left out'
    yield ''
    yield from _LEGEND
    if any(cell[:1] in {'~', '>', '<'} for row in rows for name, cell in row.items() if name != 'name'):
        yield _MARKS
    if interval is not None and any(
        one.gpu_utilization is not None and tree.has_short_calls(one, interval) for one in regions
    ):
        yield _COARSE.format(interval)


def region_rows(regions: Sequence[PathFigures], *, has_gpus: bool) -> list[dict[str, str]]:
    """Return what there is in the columns of :data:`REGION_COLUMNS`, by their names; nothing of GPUs without any."""
    rows = [_region_cells(figures) for figures in regions]
    if has_gpus or any(figures.gpu_utilization or figures.gpu_ram for figures in regions):
        return rows
    return [row | {'gpu': '', 'gpu_ram': ''} for row in rows]


def _region_cells(figures: PathFigures) -> dict[str, str]:
    name = f'{"":{_INDENT * (len(figures.path) - 1)}}{printable(figures.path[-1])}'
    time = f'{figures.wall_time:.3f}'
    gpu = '' if figures.gpu_utilization is None else f'{figures.gpu_utilization:.1f}'
    return {
        'name': shortened(name, _WIDEST_NAME),
        'calls': f'{figures.calls:,}',
        'time': f'>={time}' if figures.not_ended else time,
        'share': '' if figures.share is None else f'{figures.share:.1%}',
        'thread_cpu': '' if figures.thread_cpu is None else f'{figures.thread_cpu:.3f}',
        'cpu': bounded(figures.cpu, lambda seconds: f'{seconds:.2f}'),
        'ram': bounded(figures.ram, lambda size: f'{size / _MEGA:.1f}'),
        'gpu': f'~{gpu}' if gpu else '',
        'gpu_ram': '' if figures.gpu_ram is None else f'>={figures.gpu_ram / _MEGA:.1f}',
        'raised': f'{figures.errors:,}' if figures.errors else '',
        'not_ended': f'{figures.not_ended:,}' if figures.not_ended else '',
    }


def bounded(found: Bounded | None, worded: Callable[[float], str], marks: Sequence[str] = ('~', '>=', '<=')) -> str:
    """Return a figure as it is known: the value, or else its lower bound, or else its upper bound if that says more.

    :param worded: Makes a text of a number.
    :param marks: Stand before an estimate, a lower bound and an upper bound.
    """
    if found is None:
        return ''
    value, lower, upper = (None if one is None else worded(one) for one in (found.value, found.lower, found.upper))
    if value is not None:
        return value if lower == upper else f'{marks[0]}{value}'
    if found.lower:
        return f'{marks[1]}{lower}'
    return '' if upper is None else f'{marks[2]}{upper}'


def _process_lines(processes: Sequence[ProcessFigures], width: int | None) -> Iterator[str]:
    used_gpus = any(process.max_gpu_ram for process in processes)
    rows = [
        {
            'pid': str(process.pid),
            'parent': str(process.parent),
            'name': shortened(printable(process.name), _WIDEST_NAME),
            'first': f'{process.first_t:.3f}',
            'ram': '' if process.max_rss is None else f'>={process.max_rss / _MEGA:.1f}',
            'gpu_ram': '' if process.max_gpu_ram is None or not used_gpus else f'>={process.max_gpu_ram / _MEGA:.1f}',
            'cpu': '' if process.cpu is None else f'>={process.cpu:.2f}',
        }
        for process in islice(processes, _MOST_ROWS)
    ]
    yield from table(_PROCESS_COLUMNS, rows, width, ('parent', 'first'))
    if len(processes) > _MOST_ROWS:
        yield f'{len(processes) - _MOST_ROWS:,} more lines are left out: -f json has them'


def _shortened_list(lines: Sequence[str], what: str) -> list[str]:
    more = len(lines) - _MOST_ROWS
    return [*lines[:_MOST_ROWS], *([f'{more:,} more {what} are left out: -f json has them'] if more > 0 else [])]
