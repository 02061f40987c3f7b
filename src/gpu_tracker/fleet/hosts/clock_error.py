"""Moments that a host tells by its own clock, brought to this machine's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.fleet.hosts import untrusted

if TYPE_CHECKING:
    from gpu_tracker.fleet.hosts.report import ClaimReport, GpuReport, HostReport, ProcessReport

_TOLERANCE = 2.0
"""Seconds: an answer may be as long under way, and what is seen of a process shall not change with each."""
_MOST = 1e10
"""Seconds, some 300 years: no clock is that wrong, and sums beyond all numbers cannot be told to a browser."""


def error_of(report: HostReport, now: float, known: float) -> float:
    """Return by how many seconds a host's clock is behind this machine's, which is negative where it is ahead.

    :param now: Seconds since 1970 by this machine's clock, when the report came in.
    :param known: What was returned for the report before, 0 at first; it stays so where it is about right.
    """
    if report.time is None or report.age is None:
        return known
    error = now - report.age - report.time
    return float(round(error)) if abs(error - known) > _TOLERANCE and abs(error) < _MOST else known


def corrected(report: HostReport, error: float) -> HostReport:
    """Return a report whose processes and claims have moments by this machine's clock."""
    if not error or report.gpus is None:
        return report
    return report._replace(gpus=tuple(_gpu(gpu, error) for gpu in report.gpus))


def _gpu(gpu: GpuReport, error: float) -> GpuReport:
    return gpu._replace(
        processes=None if gpu.processes is None else tuple(_process(process, error) for process in gpu.processes),
        claim=None if gpu.claim is None else _claim(gpu.claim, error),
        mig_devices=None if gpu.mig_devices is None else tuple(_gpu(part, error) for part in gpu.mig_devices),
    )


def _process(process: ProcessReport, error: float) -> ProcessReport:
    return process._replace(started=_moment(process.started, error))


def _claim(claim: ClaimReport, error: float) -> ClaimReport:
    return claim._replace(made=_moment(claim.made, error), expires=_moment(claim.expires, error))


def _moment(told: float | None, error: float) -> float | None:
    return None if told is None else untrusted.number(told + error)
