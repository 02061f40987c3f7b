"""The table of processes: a row for each program run, and below it one for each GPU where it used several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.display.figures import amount, count, ordinal, size
from gpu_tracker.cuda_probe.display.table import table
from gpu_tracker.table_layout import Column
from gpu_tracker.terminal_text import shortened, width_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_tracker.cuda_probe.report import ProcessReport
    from gpu_tracker.cuda_usage import CUDADevice

_COLUMNS = (
    Column('pid', 'pid', is_number=True),
    Column('program', 'program', least=8),
    Column('launches', 'launches', is_number=True),
    Column('rate', 'launches/s', is_number=True),
    Column('active', 'active %', is_number=True),
    Column('cores', 'used cores', is_number=True),
    Column('streams', 'streams', is_number=True),
    Column('memory', 'memory', is_number=True),
    Column('most', 'max memory', is_number=True),
    Column('leaked', 'leaked', is_number=True),
    Column('failed', 'failed', is_number=True),
)
_LEFT_OUT_FIRST = ('failed', 'streams', 'cores', 'rate', 'most', 'active', 'leaked', 'launches')
"""Failed calls have a table of their own."""
_LONGEST_PROGRAM = 60
"""Columns that a command line may take also where a line may be of any length."""


def process_lines(processes: Sequence[ProcessReport], width: int | None) -> list[str]:
    """Return the lines of the table.

    :param width: How wide a line may be; None: as wide as it is.
    """
    rows = [row for process in processes for row in _rows(process, program(process))]
    lines = table(_COLUMNS, rows, None)
    if width is None or max(map(width_of, lines)) <= width:
        return lines
    # A path says less than the arguments behind it.
    rows = [row for process in processes for row in _rows(process, _without_folder(program(process)))]
    return table(_COLUMNS, rows, width, _LEFT_OUT_FIRST)


def program(process: ProcessReport) -> str:
    """Return the command line of a process, the kernel's name of it where that is not known."""
    return process.command or process.name


def _without_folder(command: str) -> str:
    """Return a command line with the base name of its program alone."""
    path, blank, arguments = command.partition(' ')
    return path.rpartition('/')[2] + blank + arguments


def _rows(process: ProcessReport, name: str) -> Iterator[dict[str, str]]:
    name = shortened(name, _LONGEST_PROGRAM)
    yield _figures(process) | {
        'pid': str(process.pid),
        'program': f'{name} (ended)' if process.ended else name,
        'streams': count(process.streams),
        'failed': count(sum(failure.count for failure in process.failures)),
    }
    if len(process.devices) > 1:
        for device in process.devices:
            yield _figures(device) | {'program': f'  GPU {ordinal(device)}'}


def _figures(used: ProcessReport | CUDADevice) -> dict[str, str]:
    return {
        'launches': count(used.launches),
        'rate': amount(used.launches_per_second),
        'active': amount(used.active_percent),
        'cores': amount(used.used_cores),
        'memory': size(used.memory_current),
        'most': size(used.memory_max),
        'leaked': size(used.memory_leaked),
    }
