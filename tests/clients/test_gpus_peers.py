"""The GPU table beside nvitop and gpustat on the same simulated driver: memory, utilization by process, users."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.gpus.gpu_machine import GB, Machine, running, sees_all_processes
from support.simulated_nvml import Gpu, Process
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [sees_all_processes]

_VARIABLE = 'GPU_TRACKER_GPU_PEERS'
_USUAL = Path(__file__).resolve().parents[2] / '.venv-gpu-peers' / 'bin' / 'python'
_MEBIBYTE = 2**20

_NVITOP = """
import json, nvitop
print(json.dumps([
    [device.memory_used(), device.memory_total(), device.gpu_utilization(), sorted(
        [process.pid, process.gpu_memory(), process.gpu_sm_utilization(), process.username()]
        for process in device.processes().values()
    )]
    for device in nvitop.Device.all()
]))
"""
_GPUSTAT = """
import gpustat, json
print(json.dumps([
    [gpu.memory_used, gpu.memory_total, gpu.utilization, sorted(
        [process['pid'], process['gpu_memory_usage'], process['username']] for process in gpu.processes
    )]
    for gpu in gpustat.new_query()
]))
"""


def peer(machine: Machine, program: str) -> Any:
    """Return what a program prints that imports nvitop or gpustat; skip the test if they are not installed."""
    interpreter = os.environ.get(_VARIABLE) or str(_USUAL)
    if not os.path.exists(interpreter):
        pytest.skip(f'needs nvitop and gpustat in .venv-gpu-peers, or {_VARIABLE}')
    variables = machine.environment()
    variables.pop('PYTHONPATH', None)
    run = subprocess.run(
        [interpreter, '-c', program], env=variables, stdout=subprocess.PIPE, timeout=TIMEOUT, check=True
    )
    return json.loads(run.stdout)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Give three GPUs: with one process, with two, and free."""
    found = Machine(tmp_path)
    with running() as one, running() as other:
        total = {'total': 80 * GB, 'temperature': 40}
        both = [Process(one, memory=8 * GB, sm=18), Process(other, memory=20 * GB, sm=30)]
        found.write(
            gpus=[
                Gpu(**total, used=31 * GB, util=90, processes=[Process(one, memory=30 * GB, sm=90)]),
                Gpu(**total, used=28 * GB, util=50, processes=both),
                Gpu(**total),
            ]
        )
        yield found


def test_nvitop_has_the_same_figures(machine: Machine) -> None:
    ours = [
        [
            gpu['memory_used_bytes'],
            gpu['memory_total_bytes'],
            gpu['utilization_percent'],
            sorted(
                [process['pid'], process['memory_bytes'], process['utilization_percent'], process['user']]
                for process in gpu['processes']
            ),
        ]
        for gpu in machine.gpus()
    ]
    assert ours == peer(machine, _NVITOP)
    assert [percent for *_, processes in ours for _, _, percent, _ in processes] in ([90, 18, 30], [90, 30, 18])


def test_gpustat_has_the_same_figures(machine: Machine) -> None:
    assert [
        [
            gpu['memory_used_bytes'] // _MEBIBYTE,
            gpu['memory_total_bytes'] // _MEBIBYTE,
            gpu['utilization_percent'],
            sorted(
                [process['pid'], process['memory_bytes'] // _MEBIBYTE, process['user']] for process in gpu['processes']
            ),
        ]
        for gpu in machine.gpus()
    ] == peer(machine, _GPUSTAT)
