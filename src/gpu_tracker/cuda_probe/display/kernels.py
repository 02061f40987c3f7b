"""The table of kernels: of each process those that it launched most, and those that took the most time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.display.figures import amount, count, duration
from gpu_tracker.cuda_probe.display.table import table
from gpu_tracker.table_layout import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.cuda_probe.report import KernelReport, ProcessReport

_COLUMNS = (
    Column('pid', 'pid', is_number=True),
    Column('launches', 'launches', is_number=True),
    Column('time', 'launch to sync', is_number=True),
    Column('threads', 'threads', is_number=True),
    Column('kernel', 'kernel', least=10),
)
_LEFT_OUT_FIRST = ('threads', 'pid')


def kernel_lines(processes: Sequence[ProcessReport], top: int, width: int | None) -> list[str]:
    """Return the lines of the table; none where no kernel was launched or ``top`` is 0.

    :param top: Of each process, so many kernels with the most launches, and so many with the most time.
    :param width: How wide a line may be; None: as wide as it is.
    """
    rows = []
    for process in processes:
        shown = top_kernels(process.kernels, top)
        rows += [_row(process.pid, kernel) for kernel in shown]
        left = process.kernels_total - len(shown)
        if shown and left:
            launches = max(process.launches - sum(kernel.launches for kernel in shown), 0)
            rows.append({'pid': str(process.pid), 'launches': count(launches), 'kernel': f'({left:,} more)'})
    return table(_COLUMNS, rows, width, _LEFT_OUT_FIRST) if rows else []


def top_kernels(kernels: Sequence[KernelReport], top: int) -> list[KernelReport]:
    """Return the ``top`` kernels by launches together with those by time, the most launched first."""
    by_launches = sorted(kernels, key=lambda kernel: -kernel.launches)
    by_time = sorted(kernels, key=lambda kernel: -(kernel.span_seconds or 0.0))
    # By identity: two functions of one name, or one at two addresses, are two kernels.
    chosen = {id(kernel) for kernel in [*by_launches[:top], *by_time[:top]]}
    return [kernel for kernel in by_launches if id(kernel) in chosen]


def _row(pid: int, kernel: KernelReport) -> dict[str, str]:
    return {
        'pid': str(pid),
        'launches': count(kernel.launches),
        'time': duration(kernel.span_seconds),
        'threads': amount(kernel.mean_threads),
        'kernel': kernel.name,
    }
