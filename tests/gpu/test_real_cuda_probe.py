"""The probe on a real GPU and the real runtime; run by naming it, as root: python -m pytest tests/gpu."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from support.cuda.cuda_toolkit import toolkit
from support.gpus.nvidia_smi import nvidia_smi

if TYPE_CHECKING:
    from pathlib import Path

LAUNCHES = 20_000
THREADS = 8 * 256
SMALL, LARGE = 10 << 20, 300 << 20

# The last allocation is more than any GPU has.
_SOURCE = f"""
#include <cuda_runtime.h>
#include <cstdio>
__global__ void scale(float *numbers, float factor) {{ numbers[blockIdx.x * blockDim.x + threadIdx.x] *= factor; }}
int main() {{
    cudaStream_t streams[2];
    float *small, *large, *none;
    for (auto &stream : streams)
        if (cudaStreamCreate(&stream)) return 1;
    if (cudaMalloc(&small, {SMALL}) || cudaMalloc(&large, {LARGE})) return 2;
    for (int i = 0; i < {LAUNCHES}; i++) {{
        scale<<<8, 256, 0, streams[i % 2]>>>(small, 1.5f);
        if (i % 100 == 99 && cudaStreamSynchronize(streams[i / 100 % 2])) return 3;
    }}
    if (cudaDeviceSynchronize() || cudaFree(large)) return 4;
    if (cudaMalloc(&none, 1ull << 60) != cudaErrorMemoryAllocation) return 5;
    puts("done");
    return 0;
}}
"""


@pytest.fixture(scope='module', params=['static', 'shared'])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toolkit().build(_SOURCE, tmp_path_factory.mktemp('cuda'), f'-cudart={request.param}', '-arch=native')


@pytest.fixture(scope='module')
def seen(program: Path) -> dict[str, Any]:
    """Return what is seen of the program."""
    command = [sys.executable, '-m', 'gpu_tracker', 'probe', '--json', '-o', f'{program}.json', '--', str(program)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    print(done.stderr)
    assert (done.returncode, done.stdout) == (0, 'done\n')
    with open(f'{program}.json', encoding='utf-8') as file:
        report: dict[str, Any] = json.load(file)
    print(json.dumps(report, indent=1))
    return report


def test_counts_are_those_of_the_program(seen: dict[str, Any]) -> None:
    (process,) = seen['processes']
    assert (process['launches'], process['streams'], process['allocations'], process['frees']) == (LAUNCHES, 2, 2, 1)
    assert process['memory_max_bytes'] == SMALL + LARGE
    assert process['memory_leaked_bytes'] == SMALL
    assert process['synchronisations'] == LAUNCHES // 100 + 1
    assert [(failure['error'], failure['count']) for failure in process['failures']] == [(2, 1)]


def test_nothing_is_lost(seen: dict[str, Any]) -> None:
    assert (seen['events_lost'], seen['notes']) == (0, [])


def test_time_lies_within_the_program(seen: dict[str, Any]) -> None:
    (process,) = seen['processes']
    assert 0 < process['launch_to_sync_seconds'] <= seen['seconds']
    assert 0 < process['active_percent'] <= 100
    assert 0 < process['used_cores'] <= 2 * THREADS  # kernels of both streams can run at once


def test_the_gpu_is_the_first(seen: dict[str, Any]) -> None:
    gpus = nvidia_smi('uuid', 'name', 'driver_version')
    if len(gpus) > 1:
        pytest.skip('this machine has several GPUs, so which is the first is uncertain')
    (process,) = seen['processes']
    assert [device['uuid'] for device in process['devices']] == [gpus[0][0]]
    (gpu,) = seen['devices']
    assert [gpu['uuid'], gpu['model'], gpu['driver']] == gpus[0]
    assert gpu['cores'] > 0


def test_the_kernel_has_its_name_and_figures(seen: dict[str, Any]) -> None:
    (kernel,) = seen['processes'][0]['kernels']
    assert kernel['name'] == 'scale(float*, float)'
    assert (kernel['launches'], kernel['mean_threads']) == (LAUNCHES, THREADS)
    assert kernel['variants'][0]['registers'] > 0
