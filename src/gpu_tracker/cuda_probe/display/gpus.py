"""The table of the GPUs that were used: which of this machine's each process' own number means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.display.figures import UNKNOWN, ordinal
from gpu_tracker.cuda_probe.display.table import fitted, table
from gpu_tracker.table_layout import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.cuda_probe.report import CudaReport
    from gpu_tracker.cuda_usage import CUDAGpu

_COLUMNS = (
    Column('gpu', 'GPU'),
    Column('model', 'model', least=14),
    Column('driver', 'driver'),
    Column('mig', 'MIG'),
    Column('users', 'used as', least=10),
)
_LEFT_OUT_FIRST = ('driver', 'mig', 'model')
_NONE_KNOWN = 'Which GPUs were used is not known.'
_OTHERS_UNKNOWN = 'Which GPUs were used beside these is not known.'


def gpu_lines(report: CudaReport, width: int | None) -> list[str]:
    """Return the lines of the table, and what to say of GPUs that are not in it; none where no GPU was used.

    :param width: How wide a line may be; None: as wide as it is.
    """
    users: dict[str | None, list[str]] = {}
    for process in report.processes:
        for device in process.devices:
            users.setdefault(device.uuid, []).append(f'{ordinal(device)} by {process.pid}')
    tags = {device.uuid: device for device in report.devices}
    rows = [_row(uuid, tags.get(uuid), used) for uuid, used in users.items() if uuid is not None]
    lines = table(_COLUMNS, rows, width, _LEFT_OUT_FIRST) if rows else []
    if None in users:
        lines.append(fitted(_OTHERS_UNKNOWN if rows else _NONE_KNOWN, width))
    return lines


def _row(uuid: str, tags: CUDAGpu | None, users: Sequence[str]) -> dict[str, str]:
    row = {'gpu': uuid, 'users': ', '.join(dict.fromkeys(users))}
    if tags is None:
        return row | {'model': UNKNOWN, 'driver': UNKNOWN, 'mig': UNKNOWN}
    return row | {'model': tags.model or UNKNOWN, 'driver': tags.driver or UNKNOWN, 'mig': tags.mig or ''}
