"""What has happened between two reports of one probe: on a live screen rates are those of the last moment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from gpu_tracker.cuda_probe.report import DeviceReport, ProcessReport

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_tracker.cuda_probe.report import CudaReport

Used = TypeVar('Used', ProcessReport, DeviceReport)


def recent(before: CudaReport | None, now: CudaReport) -> CudaReport:
    """Return ``now`` with the rates and shares of the time since ``before``; all other figures stay.

    A process that was not there before has those of all its time.
    """
    if before is None or now.seconds <= before.seconds:
        return now
    earlier = _by_run(before.processes)
    seconds = now.seconds - before.seconds
    processes = tuple(
        _process_since(earlier[run], process, seconds) if run in earlier else process
        for run, process in _by_run(now.processes).items()
    )
    return replace(now, processes=processes)


def _by_run(processes: Iterable[ProcessReport]) -> dict[tuple[int, int], ProcessReport]:
    """Return each process by its ID and how many before it had the same: by exec, one becomes another program."""
    runs: dict[tuple[int, int], ProcessReport] = {}
    seen: dict[int, int] = {}
    for process in processes:
        number = seen.get(process.pid, 0)
        seen[process.pid] = number + 1
        runs[process.pid, number] = process
    return runs


def _process_since(before: ProcessReport, now: ProcessReport, seconds: float) -> ProcessReport:
    earlier = {device.ordinal: device for device in before.devices}
    devices = tuple(
        _since(earlier[device.ordinal], device, seconds) if device.ordinal in earlier else device
        for device in now.devices
    )
    return replace(_since(before, now, seconds), devices=devices)


def _since(before: Used, now: Used, seconds: float) -> Used:
    return replace(
        now,
        launches_per_second=max(now.launches - before.launches, 0) / seconds,
        active_percent=_active_percent(before, now, seconds),
        used_cores=_used_cores(before, now, seconds),
    )


def _active_percent(before: Used, now: Used, seconds: float) -> float | None:
    if now.launch_to_sync_seconds is None or before.launch_to_sync_seconds is None:
        return None
    # A span that ends late may reach back over the earlier report.
    part = (now.launch_to_sync_seconds - before.launch_to_sync_seconds) / seconds
    return min(max(part, 0.0), 1.0) * 100


def _used_cores(before: Used, now: Used, seconds: float) -> float | None:
    so_far, until_then = _core_seconds(now), _core_seconds(before)
    return None if so_far is None or until_then is None else max(so_far - until_then, 0.0) / seconds


def _core_seconds(used: Used) -> float | None:
    if used.used_cores is None:
        return None
    if not used.launches_per_second:
        return 0.0  # nothing was launched that could fill a core
    # The time that it was seen is what its mean rate of launches tells.
    return used.used_cores * used.launches / used.launches_per_second
