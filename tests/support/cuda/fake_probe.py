"""A CUDA probe that tells what it is given. Light: samplers and agents under test import it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_tracker.result.cuda_usage import CUDAFailure, CUDAGpu
from support.cuda import cuda_reports

if TYPE_CHECKING:
    from gpu_tracker.cuda_probe.cuda_report import CudaReport, ProcessReport
    from gpu_tracker.result.cuda_usage import CUDADevice

MB = 1_000_000
UUID = 'GPU-00000001-0001-0001-0001-000000000001'
TAGS = CUDAGpu(UUID, 'nvidia', 'NVIDIA H200', '570.86', None, 16_896, 150_000 * MB)
UNUSED = CUDAGpu('GPU-unused', 'nvidia', 'NVIDIA H200', '570.86', None, 16_896, 150_000 * MB)

_FIGURES: dict[str, Any] = {
    'launches': 1000,
    'launches_per_second': 100.0,
    'active_percent': 25.0,
    'used_cores': 512.0,
    'mean_threads': 1024.0,
    'synchronisations': 10,
    'synchronising_seconds': 0.5,
    'copies': 6,
    'launch_to_sync_seconds': 2.5,
    'allocations': 4,
    'frees': 3,
    'allocated': 4 * MB,
    'freed': 3 * MB,
    'memory_current': MB,
    'memory_max': 2 * MB,
}


def device(ordinal: int = 0, uuid: str | None = UUID, **changes: Any) -> CUDADevice:
    """Return what a process did on one GPU."""
    return cuda_reports.device(ordinal, uuid, **(_FIGURES | changes))


def process(pid: int, **changes: Any) -> ProcessReport:
    """Return what a process did: on one GPU, with one kernel, and one call that failed twice."""
    described = {
        'name': 'train',
        'command': 'train --epochs=3',
        'streams': 2,
        'devices': (device(),),
        'kernels': (cuda_reports.kernel('saxpy(float*, int)', 1000, 2.5, file='/srv/train'),),
        'failures': (CUDAFailure('cudaMalloc', 2, 'cudaErrorMemoryAllocation', 2),),
    }
    return cuda_reports.process(pid, **(_FIGURES | described | changes))


def report(*processes: ProcessReport, **changes: Any) -> CudaReport:
    """Return what a probe has seen in ten seconds on a machine with two GPUs."""
    return cuda_reports.report(*processes, **({'devices': (TAGS, UNUSED)} | changes))


class StandInProbe:
    """Stands in for ``gpu_tracker.cuda_probe.probe_session.Probe``.

    :param reports: What it tells, one after the other, the last again and again; where there is none, it tells a
        process for each that it follows.
    :param gone: Processes that have ended before it can follow them.
    :param problem: What goes wrong, and in which call.
    """

    def __init__(
        self,
        *reports: CudaReport,
        gone: frozenset[int] = frozenset(),
        problem: tuple[str, Exception] | None = None,
    ) -> None:
        self._reports = list(reports)
        self._gone = gone
        self._problem = problem
        self.followed: list[int] = []
        self.calls: list[str] = []

    def open(self) -> None:
        self._call('open')

    def follow(self, pid: int) -> None:
        if pid in self._gone:
            raise ProcessLookupError(pid)
        self.followed.append(pid)

    def start(self) -> None:
        self._call('start')

    def report(self) -> CudaReport:
        self._call('report')
        if not self._reports:
            return report(*(process(pid) for pid in self.followed))
        return self._reports.pop(0) if len(self._reports) > 1 else self._reports[0]

    def close(self) -> None:
        self._call('close')

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self._problem is not None and self._problem[0] == name:
            raise self._problem[1]
