"""``gpu-tracker runs``: kept and killed runs."""

from __future__ import annotations

import json
import shlex
import time
from typing import TYPE_CHECKING

from gpu_tracker import killed_runs
from gpu_tracker.cli import options, output, screen
from gpu_tracker.errors import ParameterError, RecordingError
from gpu_tracker.limits import KILLED, exit_code_in_words
from gpu_tracker.recording.reading.recording import load
from gpu_tracker.running import numbered_runs
from gpu_tracker.sampler import kept_run
from gpu_tracker.system.terminal_text import Column, printable, table
from gpu_tracker.units import text_of
from gpu_tracker.views.short_report import bound_says_nothing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    from gpu_tracker.killed_runs import KilledRun
    from gpu_tracker.result.usage import ResourceUsage

TEXT = """
Lists kept and killed runs. The run that ended last comes last.

Usage:
  gpu-tracker runs [options]

Options:
  --json                Print the list as JSON.
  --sort=<column>       Sort the runs by time (duration), ram or gpu-ram, the
                        largest first.
  --remove=<runs>       Remove the runs with these numbers or IDs, separated by
                        commas. The word all removes all runs.
  -h --help             Print this text.
  -v --version          Print the version.

gpu-tracker report, show, plot, export and compare accept the number or ID of a run.
gpu-tracker COMMAND keeps each run, except with --no-keep. The result of a killed run
ends with the last sample. The program may have used more later, and may still run.
The last 50 runs are kept, by default in ~/.local/state/gpu-tracker/runs (Linux).
"""

_COLUMNS = (
    Column('id', 'Run'),
    Column('started', 'Started'),
    Column('duration', 'Time', is_number=True),
    Column('exit', 'Exit'),
    Column('max_ram', 'Max RAM', is_number=True),
    Column('max_gpu_ram', 'GPU RAM', is_number=True),
    Column('command', 'Command', 16),
)
_RAM = 'max_ram.combined.total_rss'
_ALL = 'all'
_SORTED_BY = {'time': 'duration', 'ram': 'max_ram', 'gpu-ram': 'max_gpu_ram'}


def run(values: options.Values) -> int:
    """List or remove what ``values`` ask for, and return the exit code."""
    if values['--remove'] is not None:
        return _remove(str(values['--remove']))
    column = values['--sort']
    if column is not None and column not in _SORTED_BY:
        raise ParameterError('--sort', column, 'time, ram or gpu-ram')
    found = sorted(_entries(), key=lambda entry: (entry['started_unix'] or 0.0) + (entry['duration'] or 0.0))
    if column is not None:
        found.sort(key=lambda entry: -(entry[_SORTED_BY[str(column)]] or 0.0))
    if values['--json']:
        return output.print_text(f'{json.dumps(found, indent=1)}\n')
    return output.print_text(''.join(f'{line}\n' for line in _table(found, screen.width())) if found else '')


def _entries() -> Iterator[dict[str, Any]]:
    """Yield an entry for each run. Unreadable files are reported."""
    for number, path in numbered_runs.found().items():
        try:
            yield _entry_of_kept(str(number), path)
        except RecordingError as error:
            output.complain(printable(str(error)))
    for entry in killed_runs.found():
        if isinstance(entry, RecordingError):
            output.complain(printable(str(entry)))
        else:
            yield _entry(entry)


def _remove(name: str) -> int:
    """Remove the runs with these numbers or IDs, or all."""
    paths = {str(number): path for number, path in numbered_runs.found().items()}
    paths |= {run.id: run.path for run in killed_runs.found() if not isinstance(run, RecordingError)}
    chosen = list(paths) if name == _ALL else name.split(',')
    for run_id in chosen:
        if run_id not in paths:
            raise RecordingError(f'there is no run {run_id}: list the runs with "gpu-tracker runs"')
    for run_id in chosen:
        kept_run.remove(paths[run_id])
    output.say(f'Removed: {", ".join(chosen) or "nothing"}')
    return 0


def show(path: str, name: str, output_path: str | None, units: Sequence[str | None], adaptive: Collection[str]) -> int:
    """Show the run in a file, and return the exit code.

    :param name: The format: text, json or summary.
    :param output_path: The file to write it to; None: standard output.
    :param units: Of the result, as :meth:`KilledRun.usage` takes them.
    """
    from dataclasses import replace  # noqa: PLC0415 - the list does without

    from gpu_tracker.advice import advice_of  # noqa: PLC0415 - as above
    from gpu_tracker.result.formats import as_summary, as_text  # noqa: PLC0415 - as above

    run = killed_runs.load(path)
    if run is None:
        raise RecordingError(f'{path} has nothing to show, because its run ended normally or never started')
    usage = run.usage(*units)
    usage = replace(usage, advice=advice_of(usage, run.totals, None))
    if name == 'json':
        from gpu_tracker.recording.reading.shown import with_run  # noqa: PLC0415 - the list does without

        summary = usage.to_dict()
        sections = with_run(summary, run.command, None, run.host, run.program)
        text = json.dumps({**_entry(run), **sections, 'summary': summary, 'messages': run.messages}, indent=1)
    elif name == 'summary':
        text = as_summary(usage)
    else:
        lines = [*_heading(run), '', *as_text(usage, adaptive).splitlines()]
        lines += ['', *(f'{level}: {message}' for level, message in run.messages)] if run.messages else []
        text = '\n'.join(map(printable, lines))
    return output.deliver(text, output_path)


def _entry(run: KilledRun) -> dict[str, Any]:
    usage = run.usage('bytes', 'bytes', 'seconds')
    return {
        'id': run.id,
        'path': run.path,
        'program': run.program,
        'host': run.host,
        'pid': run.pid,
        'command': list(run.command),
        'started_unix': run.started_unix,
        'tracking_has_ended': run.tracking_has_ended,
        'exit_code': None,
        **_figures(usage),
    }


def _entry_of_kept(number: str, path: str) -> dict[str, Any]:
    """Return the entry of a kept run.

    :raises RecordingError: It cannot be read.
    """
    with load(path) as recording:
        meta = recording.meta
        return {
            'id': number,
            'path': path,
            'program': meta.program,
            'host': meta.host,
            'pid': meta.root_pid,
            'command': None if meta.command is None else list(meta.command),
            'started_unix': None if meta.start_unix_us is None else meta.start_unix_us / 1e6,
            'tracking_has_ended': True,
            'exit_code': meta.exit_code,
            **_figures(recording.summary('bytes', 'bytes', 'seconds')),
        }


def _figures(usage: ResourceUsage) -> dict[str, Any]:
    return {
        'termination_reason': usage.termination_reason,
        'duration': usage.compute_time.time,
        'max_ram': usage.max_ram.combined.total_rss,
        'max_gpu_ram': usage.max_gpu_ram.combined,
        'lower_bounds': sorted(usage.lower_bounds),
    }


def _heading(run: KilledRun) -> Iterator[str]:
    yield shlex.join(run.command)
    for name, text in (
        ('host', run.host),
        ('PID', str(run.pid)),
        ('started', _date(run.started_unix)),
        (
            'tracking',
            'killed, or ended without a stop: figures are lower bounds' if run.tracking_has_ended else 'goes on',
        ),
        ('samples', f'{run.samples:,}, every {run.interval:g} s'),
        ('written by', run.program),
    ):
        yield f'  {name:<12}{text}'


def _date(unix: float | None) -> str:
    return 'N/A' if unix is None else time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(unix))


def _table(entries: Sequence[dict[str, Any]], width: int | None) -> Iterator[str]:
    rows = [
        {
            'id': entry['id'],
            'started': _date(entry['started_unix']),
            'duration': _figure(entry, 'duration', 'compute_time.time', 'seconds'),
            'exit': _ending(entry),
            'max_ram': 'too short' if _is_too_short(entry) else _figure(entry, 'max_ram', _RAM, 'bytes'),
            'max_gpu_ram': _figure(entry, 'max_gpu_ram', 'max_gpu_ram.combined', 'bytes'),
            'command': printable(shlex.join(entry['command'] or ())),
        }
        for entry in entries
    ]
    return table(_COLUMNS, rows, width, ('max_gpu_ram', 'started'))


def _figure(entry: dict[str, Any], name: str, path: str, unit: str) -> str:
    if entry[name] is None:
        return 'N/A'
    return f'{">=" if path in entry["lower_bounds"] else ""}{text_of(entry[name], unit)}'


def _is_too_short(entry: dict[str, Any]) -> bool:
    return _RAM in entry['lower_bounds'] and bound_says_nothing(entry['duration'], entry['max_ram'])


def _ending(entry: dict[str, Any]) -> str:
    """Return how a run has ended, in one word or two."""
    reason, code = entry['termination_reason'], entry['exit_code']
    if reason is not None:
        return KILLED if reason == KILLED else reason.replace('_', ' ')
    return 'N/A' if code is None else exit_code_in_words(code).rpartition(' ')[2]
