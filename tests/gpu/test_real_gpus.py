"""The inventory and claims on real GPUs, beside what nvidia-smi says; run by naming it: python -m pytest tests/gpu."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import gpu_tracker as gput
from support.gpus.nvidia_smi import nvidia_smi

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
PROGRAM = [sys.executable, '-m', 'gpu_tracker']


@pytest.fixture(scope='module')
def told() -> list[list[str]]:
    """Return what nvidia-smi says of each GPU."""
    return nvidia_smi('index', 'uuid', 'name', 'memory.total', 'memory.used', 'power.limit', 'pci.bus_id')


def run(*arguments: str, claims: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != 'CUDA_VISIBLE_DEVICES'}
    return subprocess.run(
        [*PROGRAM, *arguments],
        env=environment | {'GPU_TRACKER_CLAIMS': str(claims)},
        check=False,
        capture_output=True,
        text=True,
    )


def test_json_says_what_nvidia_smi_says(told: list[list[str]], tmp_path: Path) -> None:
    done = run('gpus', '--json', claims=tmp_path)
    print(done.stdout)
    shown = json.loads(done.stdout)['gpus']
    assert len(shown) == len(told)
    for gpu, (index, uuid, name, total, used, limit, bus) in zip(shown, told, strict=True):
        assert (str(gpu['index']), gpu['uuid'], gpu['type'], gpu['pci_bus_id']) == (index, uuid, name, bus)
        assert gpu['memory_total_bytes'] // MIB == pytest.approx(float(total), abs=1)
        assert gpu['memory_used_bytes'] / MIB == pytest.approx(float(used), abs=64)
        assert gpu['power_limit_watts'] == pytest.approx(float(limit), abs=0.01)
        assert 0 <= gpu['utilization_percent'] <= 100
        assert 10 < gpu['temperature_celsius'] < 110
        assert 1e8 < gpu['sm_clock_hertz'] < 1e10


def test_table(told: list[list[str]], tmp_path: Path) -> None:
    done = run('gpus', claims=tmp_path)
    print(done.stdout)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) >= 1 + len(told)


def test_functions(told: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('GPU_TRACKER_CLAIMS', str(tmp_path))
    monkeypatch.delenv('CUDA_VISIBLE_DEVICES', raising=False)
    assert [(gpu['index'], gpu['uuid']) for gpu in gput.gpu_info()] == [(index, uuid) for index, uuid, *_ in told]
    free = gput.available_gpus(100)
    assert set(free) <= {index for index, *_ in told}
    with gput.claim_gpus(1, max_used_percent=100) as claimed:
        assert claimed == free[:1]
        assert claimed[0] not in gput.available_gpus(100)
    assert gput.available_gpus(100) == free


def test_a_command_on_a_free_gpu_sees_that_gpu_alone(told: list[list[str]], tmp_path: Path) -> None:
    count = (
        'import ctypes; cuda = ctypes.CDLL("libcuda.so.1"); cuda.cuInit(0); n = ctypes.c_int(); '
        'cuda.cuDeviceGetCount(ctypes.byref(n)); print(n.value)'
    )
    words = ('available', '-n', '1', '--max-used-percent=100', '--claim', '--', sys.executable, '-c', count)
    done = run(*words, claims=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, '1\n', '')
