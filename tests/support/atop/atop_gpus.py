"""Two GPUs with two processes, of which each version of atop's protocol tells something else."""

from __future__ import annotations

from support.gpus.gpu_machine import GIB, NO_SUCH_PROCESS
from support.simulated_nvml import Failure, Gpu, Process

NOT_SUPPORTED = 3

ONE = NO_SUCH_PROCESS
OTHER = NO_SUCH_PROCESS - 1

H200 = Gpu(
    name='NVIDIA H200',
    pci='00000000:17:00.0',
    total=80 * GIB,
    used=4 * GIB,
    util=75,
    memory_util=40,
    accounting=0,
    processes=[Process(ONE, memory=3 * GIB, sm=70, memory_util=35), Process(OTHER, memory=GIB, sm=5, types='CG')],
)
OLD = Gpu(
    name='NVIDIA GeForce GT 710',
    pci='00000000:65:00.0',
    total=2 * GIB,
    used=GIB // 2,
    util=None,
    memory_util=None,
    processes=[Process(ONE, memory=GIB // 4, sm=10, memory_util=5)],
)
COMPUTE_ONLY = Failure('nvmlDeviceGetGraphicsRunningProcesses*', NOT_SUPPORTED, gpu=1)
"""The second GPU does not tell which processes draw on it."""
