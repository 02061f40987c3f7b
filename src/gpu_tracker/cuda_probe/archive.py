"""The totals of program runs, also of those that have ended and are no longer in the kernel's maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_tracker.cuda_probe.readings import DeviceTotals, FailureTotals, KernelTotals, ProcessTotals, Totals


class RunTotals(NamedTuple):
    """All totals of one program run."""

    process: ProcessTotals
    devices: Mapping[int, DeviceTotals]
    """By the run's own number of the GPU."""
    together: DeviceTotals | None
    """The memory of all GPUs together."""
    kernels: tuple[KernelTotals, ...]
    failures: tuple[FailureTotals, ...]


class Archive:
    """Keeps the totals of runs that have ended and are no longer in the kernel.

    :param most: So many runs are kept; more, and the one that ended first is left out.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._runs: dict[int, RunTotals] = {}
        self.left_out = 0
        """Runs that were dropped."""

    def add(self, runs: Iterable[RunTotals]) -> list[int]:
        """Keep runs that have ended; return the numbers of those that were dropped for them."""
        dropped = []
        for run in sorted(runs, key=lambda run: run.process.ended or 0):
            self._runs[run.process.process] = run
            if len(self._runs) > self._most:
                oldest = next(iter(self._runs))
                del self._runs[oldest]
                dropped.append(oldest)
        self.left_out += len(dropped)
        return dropped

    def with_living(self, living: Iterable[RunTotals]) -> list[RunTotals]:
        """Return all runs in the order of their first CUDA calls."""
        runs = {**self._runs, **{run.process.process: run for run in living}}
        return sorted(runs.values(), key=lambda run: run.process.began)


def by_run(totals: Totals) -> list[RunTotals]:
    """Sort what the kernel has by program runs."""
    devices: dict[int, dict[int, DeviceTotals]] = {}
    together: dict[int, DeviceTotals] = {}
    kernels: dict[int, list[KernelTotals]] = {}
    failures: dict[int, list[FailureTotals]] = {}
    for device in totals.devices:
        if device.device is None:
            together[device.process] = device
        else:
            devices.setdefault(device.process, {})[device.device] = device
    for kernel in totals.kernels:
        kernels.setdefault(kernel.process, []).append(kernel)
    for failure in totals.failures:
        failures.setdefault(failure.process, []).append(failure)
    return [
        RunTotals(
            process,
            dict(sorted(devices.get(process.process, {}).items())),
            together.get(process.process),
            tuple(kernels.get(process.process, ())),
            tuple(failures.get(process.process, ())),
        )
        for process in totals.processes
    ]
