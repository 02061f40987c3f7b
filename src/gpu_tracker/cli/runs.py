"""``gpu-tracker runs``: the runs that were killed with their trackers."""

from __future__ import annotations

import json
import shlex
import time
from typing import TYPE_CHECKING

from gpu_tracker import killed_runs
from gpu_tracker.cli import options, output, screen
from gpu_tracker.errors import RecordingError
from gpu_tracker.system.terminal_text import Column, printable, table
from gpu_tracker.units import text_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    from gpu_tracker.killed_runs import KilledRun

TEXT = """
Lists killed runs, the oldest first. Their tracker was killed, or ended without
stop().

Usage:
  gpu-tracker runs [options]

Options:
  --json                Print the list as JSON.
  -h --help             Print this text.
  -v --version          Print the version.

gpu-tracker show <ID> prints the result up to the last sample. The program may have
used more since, and may still run. The last 50 runs are kept, by default in
~/.local/state/gpu-tracker/runs (Linux).
"""

_COLUMNS = (
    Column('id', 'ID'),
    Column('pid', 'PID', is_number=True),
    Column('started', 'Started'),
    Column('duration', 'Duration', is_number=True),
    Column('max_ram', 'Max RAM', is_number=True),
    Column('command', 'Command', 16),
)


def run(values: options.Values) -> int:
    """List what ``values`` ask for, and return the exit code."""
    found = []
    for entry in killed_runs.found():
        if isinstance(entry, RecordingError):
            output.complain(printable(str(entry)))
        else:
            found.append(entry)
    found.sort(key=lambda run: run.started_unix)
    if values['--json']:
        return output.print_text(f'{json.dumps([_entry(run) for run in found], indent=1)}\n')
    return output.print_text(''.join(f'{line}\n' for line in _table(found, screen.width())) if found else '')


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
        raise RecordingError(f'{path} has no result: its run has ended well, or was never begun')
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
        'duration': usage.compute_time.time,
        'max_ram': usage.max_ram.combined.total_rss,
    }


def _heading(run: KilledRun) -> Iterator[str]:
    yield shlex.join(run.command)
    for name, text in (
        ('host', run.host),
        ('PID', str(run.pid)),
        ('started', _started(run)),
        (
            'tracking',
            'killed, or ended without a stop: figures are lower bounds' if run.tracking_has_ended else 'goes on',
        ),
        ('samples', f'{run.samples:,}, every {run.interval:g} s'),
        ('written by', run.program),
    ):
        yield f'  {name:<12}{text}'


def _started(run: KilledRun) -> str:
    return time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(run.started_unix))


def _table(runs: Sequence[KilledRun], width: int | None) -> Iterator[str]:
    rows = []
    for run in runs:
        entry = _entry(run)
        ram = entry['max_ram']
        rows.append({
            'id': run.id,
            'pid': str(run.pid),
            'started': _started(run),
            'duration': text_of(entry['duration'], 'seconds'),
            'max_ram': 'N/A' if ram is None else f'>={text_of(ram, "bytes")}',
            'command': printable(shlex.join(run.command)),
        })  # fmt: skip
    return table(_COLUMNS, rows, width, ('pid', 'started'))
