"""What the figures are and are not, in sentences below the tables."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.display.table import fitted
from gpu_tracker.printable import printable

if TYPE_CHECKING:
    from gpu_tracker.cuda_probe.report import CudaReport

_TIME = (
    'Launch to sync is the time from the first launch on a stream to the synchronisation that waited for it. It is '
    'not time on the GPU: work may have been done long before, and the host may have come late. Active % is the part '
    'of the time in which launched work waited like that, and used cores are what it could fill at most.'
)
_MEMORY = (
    'Memory is what programs asked CUDA for: an allocator that pools, as that of PyTorch, shows what it has reserved. '
    'The kernels that CUDA graphs launch (cudaGraphLaunch) are not seen.'
)
_AUTHORITY = 'For GPU memory and utilization the driver (NVML) stays the authority: gpu-tracker gpus shows its figures.'

FOOTNOTES = (_TIME, _MEMORY, _AUTHORITY)
"""What every reader of figures has to know."""

_READABLE = 100
"""Columns of a sentence's line where more would fit."""
_LEAST = 20
_INDENT = '  '


def remark_lines(report: CudaReport, width: int | None, *, footnotes: bool) -> list[str]:
    """Return what is missing or inexact in this report.

    :param width: How wide a line may be; None: as wide as people read well.
    :param footnotes: Whether what its figures are comes after that.
    """
    said = [*report.notes, *(FOOTNOTES if footnotes else ())]
    longest = max(min(width or _READABLE, _READABLE), _LEAST)
    return [
        fitted(line, width)  # it may have characters that are two columns wide
        for sentence in said
        for line in textwrap.wrap(
            printable(sentence), longest, initial_indent='* ', subsequent_indent=_INDENT, break_on_hyphens=False
        )
    ]
