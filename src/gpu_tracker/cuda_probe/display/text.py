"""A report as text, the same in a file, in a pipe and on a terminal but for its width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.display.failures import failure_lines
from gpu_tracker.cuda_probe.display.figures import duration
from gpu_tracker.cuda_probe.display.gpus import gpu_lines
from gpu_tracker.cuda_probe.display.kernels import kernel_lines
from gpu_tracker.cuda_probe.display.processes import process_lines
from gpu_tracker.cuda_probe.display.remarks import remark_lines
from gpu_tracker.cuda_probe.display.table import fitted, wrapped
from gpu_tracker.printable import printable

if TYPE_CHECKING:
    from gpu_tracker.cuda_probe.report import CudaReport


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
        remark_lines(report, width, footnotes=footnotes and bool(report.processes)),
    ]
    return '\n\n'.join('\n'.join(part) for part in parts if part)


def problem_text(problem: str) -> str:
    """Return what stands in place of a report where the probe could not look."""
    return printable(problem)


def _title(report: CudaReport, rates_of: float | None) -> str:
    title = f'CUDA calls, seen for {duration(report.seconds)} through {printable(report.engine)}'
    return title if rates_of is None else f'{title}; rates of the last {duration(rates_of)}'
