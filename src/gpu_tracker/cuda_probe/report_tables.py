"""The tables of a report in plain text, fitted to the width of the terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from gpu_tracker.system.terminal_text import GAP, Column, layout, padded, printable, shortened, width_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpu_tracker.cuda_probe.cuda_report import CudaReport, KernelReport, ProcessReport
    from gpu_tracker.result.cuda_usage import CUDADevice, CUDAGpu

    Rows = Sequence[Mapping[str, str]]

UNKNOWN = 'N/A'

_SIZES = ('B', 'kB', 'MB', 'GB', 'TB', 'PB')
_STEP = 1000
_TIMES = (('s', 1.0), ('ms', 1e-3), ('µs', 1e-6))
_LEAST_DECIMAL = 0.05
"""The least that one decimal still distinguishes from 0."""
_MOST_WITH_DECIMAL = 99.95
"""From here on a decimal adds nothing."""


def size(size_bytes: float | None) -> str:
    """Return ``1.2 GB`` for 1,234,567,890 bytes; units are decimal."""
    if size_bytes is None:
        return UNKNOWN
    if size_bytes < _STEP:
        return f'{size_bytes} B'
    value = float(size_bytes)
    unit = 0
    while round(value, 1) >= _STEP and unit < len(_SIZES) - 1:
        value /= _STEP
        unit += 1
    return f'{value:,.1f} {_SIZES[unit]}'


def count(number: int | None) -> str:
    """Return ``12,345``."""
    return UNKNOWN if number is None else f'{number:,}'


def amount(number: float | None) -> str:
    """Return a rate, a share or a mean: ``12,345``, ``87.3``, ``0``, and ``<0.1`` for what is almost nothing."""
    if number is None:
        return UNKNOWN
    if 0 < number < _LEAST_DECIMAL:
        return '<0.1'
    return '0' if number == 0 else f'{number:,.1f}' if number < _MOST_WITH_DECIMAL else f'{number:,.0f}'


def duration(seconds: float | None) -> str:
    """Return ``1,234.5 s``, ``12.3 ms`` or ``4.5 µs``."""
    if seconds is None:
        return UNKNOWN
    if seconds == 0:
        return '0 s'
    for unit, length in _TIMES:
        if round(seconds / length, 1) >= 1:
            return f'{seconds / length:,.1f} {unit}'
    return '<1 µs'


def ordinal(device: CUDADevice) -> str:
    """Return a process' own number of a GPU, ``?`` where it is not known which that is."""
    return '?' if device.ordinal is None else str(device.ordinal)


_PROCESS_COLUMNS = (
    Column('pid', 'pid', is_number=True),
    Column('program', 'program', least=8),
    Column('launches', 'launches', is_number=True),
    Column('graphs', 'graphs', is_number=True),
    Column('rate', 'launches/s', is_number=True),
    Column('active', 'active %', is_number=True),
    Column('cores', 'used cores', is_number=True),
    Column('streams', 'streams', is_number=True),
    Column('memory', 'memory', is_number=True),
    Column('most', 'max memory', is_number=True),
    Column('leaked', 'leaked', is_number=True),
    Column('pinned', 'max page-locked', is_number=True),
    Column('failed', 'failed', is_number=True),
)
_PROCESS_ONLY_WHERE_USED = ('graphs', 'pinned')
_PROCESS_LEFT_OUT_FIRST = (
    'failed',
    'pinned',
    'graphs',
    'streams',
    'cores',
    'rate',
    'most',
    'active',
    'leaked',
    'launches',
)
"""Failed calls have a table of their own."""
_LONGEST_PROGRAM = 60
"""Columns that a command line may take also where a line may be of any length."""
_KERNEL_COLUMNS = (
    Column('pid', 'pid', is_number=True),
    Column('launches', 'launches', is_number=True),
    Column('time', 'launch to sync', is_number=True),
    Column('threads', 'threads', is_number=True),
    Column('kernel', 'kernel', least=10),
)
_KERNEL_LEFT_OUT_FIRST = ('threads', 'pid')
_FAILURE_COLUMNS = (
    Column('pid', 'pid', is_number=True),
    Column('count', 'failed', is_number=True),
    Column('function', 'call'),
    Column('error', 'error', least=10),
)
_GPU_COLUMNS = (
    Column('gpu', 'GPU'),
    Column('model', 'model', least=14),
    Column('driver', 'driver'),
    Column('mig', 'MIG'),
    Column('users', 'used as', least=10),
)
_GPU_LEFT_OUT_FIRST = ('driver', 'mig', 'model')
_NONE_KNOWN = 'Which GPUs were used is not known.'
_OTHERS_UNKNOWN = 'Which GPUs were used beside these is not known.'


def process_lines(processes: Sequence[ProcessReport], width: int | None) -> list[str]:
    """Return the lines of the table.

    :param width: How wide a line may be; None: as wide as it is.
    """
    rows = [row for process in processes for row in _process_rows(process, program(process))]
    unused = {name for name in _PROCESS_ONLY_WHERE_USED if not any(row.get(name) for row in rows)}
    columns = [column for column in _PROCESS_COLUMNS if column.name not in unused]
    lines = table(columns, rows, None)
    if width is None or max(map(width_of, lines)) <= width:
        return lines
    # A path says less than the arguments behind it.
    rows = [row for process in processes for row in _process_rows(process, _without_folder(program(process)))]
    return table(columns, rows, width, [name for name in _PROCESS_LEFT_OUT_FIRST if name not in unused])


def program(process: ProcessReport) -> str:
    """Return the command line of a process, the kernel's name of it where that is not known."""
    return process.command or process.name


def _without_folder(command: str) -> str:
    """Return a command line with the base name of its program alone."""
    path, blank, arguments = command.partition(' ')
    return path.rpartition('/')[2] + blank + arguments


def _process_rows(process: ProcessReport, name: str) -> Iterator[dict[str, str]]:
    name = shortened(name, _LONGEST_PROGRAM)
    yield _process_figures(process) | {
        'pid': str(process.pid),
        'program': f'{name} (ended)' if process.ended else name,
        'streams': count(process.streams),
        'failed': count(sum(failure.count for failure in process.failures)),
        'graphs': count(process.graph_launches) if process.graph_launches else '',
        'pinned': size(process.host_memory_max) if process.host_memory_max else '',
    }
    if len(process.devices) > 1:
        for device in process.devices:
            yield _process_figures(device) | {'program': f'  GPU {ordinal(device)}'}


def _process_figures(used: ProcessReport | CUDADevice) -> dict[str, str]:
    return {
        'launches': count(used.launches),
        'rate': amount(used.launches_per_second),
        'active': amount(used.active_percent),
        'cores': amount(used.used_cores),
        'memory': size(used.memory_current),
        'most': size(used.memory_max),
        'leaked': size(used.memory_leaked),
    }


def kernel_lines(processes: Sequence[ProcessReport], top: int, width: int | None) -> list[str]:
    """Return the lines of the table; none where no kernel was launched or ``top`` is 0.

    :param top: Of each process, so many kernels with the most launches, and so many with the most time.
    :param width: How wide a line may be; None: as wide as it is.
    """
    rows = []
    for process in processes:
        shown = top_kernels(process.kernels, top)
        rows += [_kernel_row(process.pid, kernel) for kernel in shown]
        left = process.kernels_total - len(shown)
        if shown and left:
            launches = max(process.launches - sum(kernel.launches for kernel in shown), 0)
            rows.append({'pid': str(process.pid), 'launches': count(launches), 'kernel': f'({left:,} more)'})
    return table(_KERNEL_COLUMNS, rows, width, _KERNEL_LEFT_OUT_FIRST) if rows else []


def top_kernels(kernels: Sequence[KernelReport], top: int) -> list[KernelReport]:
    """Return the ``top`` kernels by launches together with those by time, the most launched first."""
    by_launches = sorted(kernels, key=lambda kernel: -kernel.launches)
    by_time = sorted(kernels, key=lambda kernel: -(kernel.span_seconds or 0.0))
    # By identity: two functions of one name, or one at two addresses, are two kernels.
    chosen = {id(kernel) for kernel in [*by_launches[:top], *by_time[:top]]}
    return [kernel for kernel in by_launches if id(kernel) in chosen]


def _kernel_row(pid: int, kernel: KernelReport) -> dict[str, str]:
    return {
        'pid': str(pid),
        'launches': count(kernel.launches),
        'time': duration(kernel.span_seconds),
        'threads': amount(kernel.mean_threads),
        'kernel': kernel.name,
    }


def failure_lines(processes: Sequence[ProcessReport], width: int | None) -> list[str]:
    """Return the lines of the table; none where no call has failed.

    :param width: How wide a line may be; None: as wide as it is.
    """
    rows = [
        {
            'pid': str(process.pid),
            'count': count(failure.count),
            'function': failure.function,
            'error': f'{failure.error_name} ({failure.error})',
        }
        for process in processes
        for failure in process.failures
    ]
    return table(_FAILURE_COLUMNS, rows, width) if rows else []


def gpu_lines(report: CudaReport, width: int | None) -> list[str]:
    """Return the lines of the table, and what to say of GPUs that are not in it; none where no GPU was used.

    :param width: How wide a line may be; None: as wide as it is.
    """
    users: dict[str | None, list[str]] = {}
    for process in report.processes:
        for device in process.devices:
            users.setdefault(device.uuid, []).append(f'{ordinal(device)} by {process.pid}')
    tags = {device.uuid: device for device in report.devices}
    rows = [_gpu_row(uuid, tags.get(uuid), used) for uuid, used in users.items() if uuid is not None]
    lines = table(_GPU_COLUMNS, rows, width, _GPU_LEFT_OUT_FIRST) if rows else []
    if None in users:
        lines.append(fitted(_OTHERS_UNKNOWN if rows else _NONE_KNOWN, width))
    return lines


def _gpu_row(uuid: str, tags: CUDAGpu | None, users: Sequence[str]) -> dict[str, str]:
    row = {'gpu': uuid, 'users': ', '.join(dict.fromkeys(users))}
    if tags is None:
        return row | {'model': UNKNOWN, 'driver': UNKNOWN, 'mig': UNKNOWN}
    return row | {'model': tags.model or UNKNOWN, 'driver': tags.driver or UNKNOWN, 'mig': tags.mig or ''}


def table(columns: Sequence[Column], rows: Rows, width: int | None, left_out_first: Sequence[str] = ()) -> list[str]:
    """Return the titles, a line for each row, and one that says how many columns are left out; none ends in blanks.

    :param rows: Cells by the names of their columns; those that are missing are empty.
    :param width: How wide a line may be; None: as wide as it is.
    :param left_out_first: The columns that may be left out where there is no room, in that order.
    """
    titles = {column.name: column.title for column in columns}
    cells = [titles, *({name: printable(text) for name, text in row.items()} for row in rows)]
    contents = {name: max(width_of(row.get(name, '')) for row in cells) for name in titles}
    fitting = layout(columns, contents, width, left_out_first)
    lines = [fitted(_line(row, fitting), width) for row in cells]
    left_out = len(columns) - len(fitting)
    if left_out:
        lines += wrapped(f'({left_out} column{"s" * (left_out > 1)} left out: widen the terminal, or --json)', width)
    return lines


def wrapped(text: str, width: int | None) -> list[str]:
    """Return a text in as many lines as it takes."""
    lines = [text] if width is None else textwrap.wrap(text, width, break_on_hyphens=False)
    return [fitted(line, width) for line in lines]  # it may have characters that are two columns wide


def fitted(line: str, width: int | None) -> str:
    """Return the line without blanks at its end, cut where it is wider than ``width``."""
    line = line.rstrip()
    return line if width is None else shortened(line, width)


def _line(row: Mapping[str, str], fitting: Sequence[tuple[Column, int]]) -> str:
    return (' ' * GAP).join(
        padded(shortened(row.get(column.name, ''), width), width, to_the_right=column.is_number)
        for column, width in fitting
    )
