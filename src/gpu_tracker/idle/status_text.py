"""The status of the monitor as a table of plain text."""

from __future__ import annotations

import textwrap
from math import ceil
from typing import TYPE_CHECKING

from gpu_tracker.idle.status import RUNNING, STOPPING, UNAVAILABLE, seconds_since_1970
from gpu_tracker.idle.wording import duration
from gpu_tracker.system.terminal_text import GAP, Column, layout, padded, printable, shortened, width_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpu_tracker.idle.status import GpuStatus, MonitorStatus, ProcessStatus, ProgramStatus, Status

_LEAST = 8
"""How narrow the column becomes that is cut."""
_INDENT = '  '
_UNKNOWN = 'N/A'
_REHEARSED = {RUNNING: 'would run', STOPPING: 'would stop'}
"""What programs in these states do in a dry run."""

_GPU_COLUMNS = (
    Column('gpu', 'GPU'),
    Column('state', 'state'),
    Column('since', 'since'),
    Column('use', 'used by / program', least=_LEAST),
    Column('seconds', 'idle time used'),
    Column('restarts', 'restarts', is_number=True),
)
_PROGRAM_COLUMNS = (
    Column('program', 'program', least=_LEAST),
    Column('gpus', 'GPUs'),
    Column('state', 'state'),
    Column('since', 'since'),
    Column('seconds', 'time run'),
    Column('restarts', 'restarts', is_number=True),
    Column('failures', 'failures', is_number=True),
)


def status_text(status: Status, now: float, width: int | None = None) -> str:
    """Return the text, without a line break at its end.

    :param now: Seconds since 1970.
    :param width: The columns of the terminal; None: a line may be as long as it is.
    :raises ValueError: if a moment in the document is none.
    """

    def ago(moment: str | None) -> str:
        return _UNKNOWN if moment is None else f'{duration(now - seconds_since_1970(moment))} ago'

    lines = [_header(status.monitor, now)]
    if status.active_users:
        users = (f'{user.user} at {user.terminal} ({duration(user.idle_seconds)} ago)' for user in status.active_users)
        lines += _wrapped('active users: ' + ', '.join(users), width, '')
    dry_run = status.monitor.dry_run
    lines += ['', *_gpu_lines(status.gpus, ago, width, dry_run=dry_run)]
    lines += ['', *_program_lines(status.programs, now, ago, width, dry_run=dry_run)]
    return '\n'.join(map(printable, lines))


def _header(monitor: MonitorStatus, now: float) -> str:
    running = duration(now - seconds_since_1970(monitor.started))
    dry_run = ', dry run' if monitor.dry_run else ''
    return f'monitor: pid {monitor.pid}, running for {running}, looks every {monitor.interval_seconds:g} s{dry_run}'


def _length(seconds: float | None) -> str:
    return _UNKNOWN if seconds is None else duration(seconds)


def _gpu_lines(
    gpus: Sequence[GpuStatus], ago: Callable[[str | None], str], width: int | None, *, dry_run: bool
) -> list[str]:
    if not gpus:
        return ['No GPU is there to be watched.']
    rows = [
        (
            gpu.gpu,
            gpu.state,
            ago(gpu.since),
            _used_by(gpu, dry_run=dry_run),
            _length(gpu.idle_seconds_used),
            str(gpu.restarts),
        )
        for gpu in gpus
    ]
    return _table(_GPU_COLUMNS, rows, width)


def _used_by(gpu: GpuStatus, *, dry_run: bool) -> str:
    """Return who else uses the GPU, or why it is not idle besides, and which of our programs has it."""
    users = ', '.join(map(_process, gpu.by))
    # The reason why a GPU is busy names its users already.
    parts = [gpu.reason, users] if gpu.state == UNAVAILABLE else [users or gpu.reason]
    if gpu.program is not None:
        pid = _UNKNOWN if gpu.program_pid is None else gpu.program_pid
        parts.append(f'{gpu.program} (would run)' if dry_run else f'{gpu.program} (pid {pid})')
    return '; '.join(part for part in parts if part)


def _process(process: ProcessStatus) -> str:
    user = f', {process.user}' if process.user else ''
    return f'{process.program} (pid {process.pid}{user})'


def _program_lines(
    programs: Sequence[ProgramStatus], now: float, ago: Callable[[str | None], str], width: int | None, *, dry_run: bool
) -> list[str]:
    if not programs:
        return ['No program is configured.']
    rows = [
        (
            program.name,
            program.gpus,
            _REHEARSED.get(program.state, program.state) if dry_run else program.state,
            ago(program.since),
            _length(program.seconds_run),
            str(program.restarts),
            str(program.failures),
        )
        for program in programs
    ]
    title, *lines = _table(_PROGRAM_COLUMNS, rows, width)
    shown = [title]
    for program, line in zip(programs, lines, strict=True):
        shown += [line, *_wrapped(_why(program, now), width, _INDENT)]
        if program.last_end is not None:
            shown += _wrapped(f'last end: {program.last_end}', width, _INDENT)
    return shown


def _why(program: ProgramStatus, now: float) -> str:
    parts = [program.reason]
    rest = 0 if program.next_start is None else ceil(seconds_since_1970(program.next_start) - now)
    if rest > 0:
        parts.append(f'not started again for {duration(rest)}')
    return '; '.join(part for part in parts if part)


def _wrapped(text: str, width: int | None, indent: str) -> list[str]:
    """Return the text in lines that fit, none where there is no text."""
    text = printable(text)
    if width is None:
        return [indent + text] if text else []
    width = max(width, len(_INDENT) + _LEAST)
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=_INDENT)


def _table(columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int | None) -> list[str]:
    """Return the lines of a table with its titles."""
    cells = [[column.title for column in columns], *([printable(cell) for cell in row] for row in rows)]
    by_column = zip(columns, zip(*cells, strict=True), strict=True)
    contents = {column.name: max(map(width_of, texts)) for column, texts in by_column}
    shown = layout(columns, contents, width, ())
    return [
        (' ' * GAP)
        .join(
            padded(shortened(cell, room), room, to_the_right=column.is_number)
            for (column, room), cell in zip(shown, row, strict=True)
        )
        .rstrip()
        for row in cells
    ]
