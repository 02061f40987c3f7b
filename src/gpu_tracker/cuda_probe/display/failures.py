"""The table of failed calls, with the CUDA error of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.display.figures import count
from gpu_tracker.cuda_probe.display.table import table
from gpu_tracker.table_layout import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.cuda_probe.report import ProcessReport

_COLUMNS = (
    Column('pid', 'pid', is_number=True),
    Column('count', 'failed', is_number=True),
    Column('function', 'call'),
    Column('error', 'error', least=10),
)


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
    return table(_COLUMNS, rows, width) if rows else []
