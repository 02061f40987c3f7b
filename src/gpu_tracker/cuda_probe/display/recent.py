"""The difference between two reports of one probe: a live screen shows rates of the last interval."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gpu_tracker.cuda_probe.report import ProcessReport
from gpu_tracker.cuda_usage import CUDADevice

if TYPE_CHECKING:
    from gpu_tracker.cuda_probe.report import CudaReport

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
