"""A report as text: its tables, and notes on what is missing or inexact."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gpu_tracker.cuda_probe.cuda_report import ProcessReport
from gpu_tracker.cuda_probe.report_tables import (
    duration,
    failure_lines,
    fitted,
    gpu_lines,
    kernel_lines,
    process_lines,
    wrapped,
)
from gpu_tracker.result.cuda_usage import CUDADevice
from gpu_tracker.system.terminal_text import printable

if TYPE_CHECKING:
    from gpu_tracker.cuda_probe.cuda_report import CudaReport

Used = TypeVar('Used', ProcessReport, CUDADevice)


class _Times(NamedTuple):
    """Seconds that a program was seen until one report, until the next, and between the two reports."""

    before: float
    now: float
    between: float


def recent(before: CudaReport | None, now: CudaReport) -> CudaReport:
    """Return ``now`` with the rates and shares of the time since ``before``; all other figures stay.

    A program that was not there before has those of all its time.
    """
    if before is None or now.seconds <= before.seconds:
        return now
    earlier = {process.run: process for process in before.processes}
    between = now.seconds - before.seconds
    processes = tuple(
        _process_since(earlier[process.run], process, between) if process.run in earlier else process
        for process in now.processes
    )
    return replace(now, processes=processes)


def _process_since(before: ProcessReport, now: ProcessReport, between: float) -> ProcessReport:
    times = _Times(before.seconds, now.seconds, between)
    earlier = {device.ordinal: device for device in before.devices}
    devices = tuple(
        _since(earlier[device.ordinal], device, times) if device.ordinal in earlier else device
        for device in now.devices
    )
    return replace(_since(before, now, times), devices=devices)


def _since(before: Used, now: Used, times: _Times) -> Used:
    return replace(
        now,
        launches_per_second=max(now.launches - before.launches, 0) / times.between,
        active_percent=_active_percent(before, now, times),
        used_cores=_used_cores(before, now, times),
    )


def _active_percent(before: Used, now: Used, times: _Times) -> float | None:
    if now.launch_to_sync_seconds is None or before.launch_to_sync_seconds is None:
        return None
    # A span that ends late may reach back over the earlier report.
    part = (now.launch_to_sync_seconds - before.launch_to_sync_seconds) / times.between
    return min(max(part, 0.0), 1.0) * 100


def _used_cores(before: Used, now: Used, times: _Times) -> float | None:
    if now.used_cores is None or before.used_cores is None:
        return None
    return max(now.used_cores * times.now - before.used_cores * times.before, 0.0) / times.between


_TIME = (
    'Launch to sync is the time from the first launch on a stream to the next call that waits for this stream. It is '
    'not GPU time: the GPU may have finished earlier. Active % is the share of the run with launch to sync. Used cores '
    'is an upper limit of the GPU cores in use.'
)
_MEMORY = 'Memory is the GPU memory that a program allocated. With PyTorch, it is the size of the memory pool.'
_AUTHORITY = 'gpu-tracker gpus shows GPU memory and utilization as the GPU driver reports them.'
FOOTNOTES = (_TIME, _MEMORY, _AUTHORITY)
"""Explain the figures of every report."""
_READABLE = 100
"""Columns of a sentence's line where more would fit."""
_LEAST = 20
_INDENT = '  '


def report_text(
    report: CudaReport,
    *,
    top: int,
    width: int | None = None,
    rates_of: float | None = None,
    footnotes: bool = True,
) -> str:
    """Return the text, without a line break at its end.

    :param top: Of each process, so many kernels with the most launches, and so many with the most time.
    :param width: The columns of the terminal; None: a line may be as long as it is.
    :param rates_of: Of how many seconds rates and shares are; None: of all.
    :param footnotes: Whether to say also what every reader of figures has to know.
    """
    parts = [
        wrapped(_title(report, rates_of), width),
        process_lines(report.processes, width) if report.processes else [fitted('No CUDA call was seen.', width)],
        kernel_lines(report.processes, top, width),
        failure_lines(report.processes, width),
        gpu_lines(report, width),
        note_lines(report, width, footnotes=footnotes and bool(report.processes)),
    ]
    return '\n\n'.join('\n'.join(part) for part in parts if part)


def problem_text(problem: str) -> str:
    """Return what replaces a report where nothing could be probed."""
    return printable(problem)


def _title(report: CudaReport, rates_of: float | None) -> str:
    title = f'CUDA calls, seen for {duration(report.seconds)} through {printable(report.engine)}'
    return title if rates_of is None else f'{title}; rates of the last {duration(rates_of)}'


def note_lines(report: CudaReport, width: int | None, *, footnotes: bool) -> list[str]:
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
