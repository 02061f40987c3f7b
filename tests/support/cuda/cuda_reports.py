"""Reports of a probe, for what shows them: each figure that a test does not name has a value that means nothing."""

from __future__ import annotations

from typing import Any

from gpu_tracker.cuda_probe.cuda_report import CudaReport, KernelReport, KernelVariant, ProcessReport
from gpu_tracker.result.cuda_usage import CUDADevice, CUDAFailure, CUDAGpu

UUID = 'GPU-8a9e5b0c-1111-2222-3333-444455556666'

_FIGURES = {
    'launches': 0,
    'launches_per_second': 0.0,
    'active_percent': None,
    'used_cores': None,
    'mean_threads': None,
    'synchronisations': 0,
    'synchronising_seconds': 0.0,
    'copies': 0,
    'launch_to_sync_seconds': None,
    'allocations': 0,
    'frees': 0,
    'allocated': 0,
    'freed': 0,
    'memory_current': 0,
    'memory_max': 0,
    'memory_leaked': None,
}


def process(pid: int, **figures: Any) -> ProcessReport:
    usual = {'run': pid, 'name': 'python', 'command': None, 'ended': False, 'seconds': 10.0, 'streams': 1}
    usual |= {'devices': (), 'kernels': (), 'failures': (), 'graph_launches': 0}
    usual |= {'control_group': None, 'container': None}
    usual |= {'host_allocations': 0, 'host_memory_current': 0, 'host_memory_max': 0}
    usual['kernels_total'] = len(figures.get('kernels', ()))
    return ProcessReport(pid=pid, **(usual | _FIGURES | figures))


def device(ordinal: int | None, uuid: str | None = None, **figures: Any) -> CUDADevice:
    return CUDADevice(ordinal=ordinal, uuid=uuid, **(_FIGURES | figures))


def kernel(name: str, launches: int, span_seconds: float | None = None, **known: Any) -> KernelReport:
    usual = {'symbol': None, 'file': None, 'address': 4096, 'mean_threads': 256.0}
    return KernelReport(name=name, launches=launches, span_seconds=span_seconds, **(usual | known))


def report(*processes: ProcessReport, **known: Any) -> CudaReport:
    usual = {'seconds': 10.0, 'engine': 'uprobe.multi', 'devices': (), 'events': 0, 'events_lost': 0, 'notes': ()}
    return CudaReport(processes=processes, **(usual | known))


TRAINING = report(
    process(
        4242,
        run=1,
        command='python -u train.py',
        launches=123_456,
        launches_per_second=12_345.6,
        active_percent=87.31,
        used_cores=4210.4,
        mean_threads=65_536.0,
        streams=2,
        synchronisations=10,
        synchronising_seconds=1.5,
        copies=3,
        launch_to_sync_seconds=8.731,
        allocations=5,
        frees=2,
        allocated=5_000_000_000,
        freed=1_000_000_000,
        memory_current=1_234_567_890,
        memory_max=3_400_000_000,
        devices=(device(0, UUID, launches=123_456),),
        kernels=(
            kernel(
                'saxpy(int, float, float*)',
                120_000,
                0.0125,
                symbol='_Z5saxpyifPf',
                file='/srv/saxpy',
                variants=(KernelVariant(90, '', 12, 384, 0, 544),),
            ),
            kernel('scale(float*)', 3_000, 8.7185),
            kernel('fill(float*)', 456),
        ),
        failures=(CUDAFailure('cudaMalloc', 2, 'cudaErrorMemoryAllocation', 2),),
    ),
    devices=(CUDAGpu(UUID, 'nvidia', 'NVIDIA H100 80GB HBM3', '570.86', None, 16_896, 80_000_000_000),),
    events=200_000,
)
"""One program on one GPU."""
