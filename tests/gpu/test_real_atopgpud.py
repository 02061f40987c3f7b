"""The daemon for atop on real GPUs, beside what nvidia-smi says; run by naming it: python -m pytest tests/gpu."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING

import pytest

from support.atop.atop_client import connected
from support.gpus.nvidia_smi import nvidia_smi
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.atop.atop_client import AtopClient

MIB_IN_KIB = 1 << 10
PROGRAM = [sys.executable, '-m', 'gpu_tracker', 'atopgpud']

# Holds memory of the first GPU, with the driver's own API, until its standard input ends.
_HOLD = """
import ctypes, sys
cuda, device, context, address = ctypes.CDLL('libcuda.so.1'), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64 << 20)) == 0
print(1, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope='module')
def told() -> list[list[str]]:
    """Return what nvidia-smi says of each GPU."""
    return nvidia_smi('pci.bus_id', 'name', 'memory.total', 'memory.used')


@pytest.fixture
def client(told: list[list[str]]) -> Iterator[AtopClient]:
    """Return a client of a daemon that runs for the test."""
    name = f'test-{uuid.uuid4()}'
    with subprocess.Popen([*PROGRAM, '--port=0', f'--socket={name}', '--interval=0.2']) as daemon:

        def ask() -> AtopClient | None:
            assert daemon.poll() is None
            asking = socket.socket(socket.AF_UNIX)
            try:
                return connected(asking, f'\0{name}', 2)
            except ConnectionRefusedError:
                asking.close()
                return None

        with eventually(ask) as asked:
            yield asked
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait() == 0


def test_gpus_are_those_of_nvidia_smi(told: list[list[str]], client: AtopClient) -> None:
    gpus = client.types()
    print(gpus)
    assert [gpu.bus_id for gpu in gpus] == [bus_id for bus_id, *_ in told]
    assert [gpu.name for gpu in gpus] == [re.sub(r'\s', '_', name) for _, name, *_ in told]


def test_figures_grow_with_each_reading(told: list[list[str]], client: AtopClient) -> None:
    first = client.statistics()
    print(first)
    later = eventually(lambda: now if (now := client.statistics())[0].samples > first[0].samples else None)
    for gpu, before, (_, _, total, used) in zip(later, first, told, strict=True):
        assert gpu.memory_size // MIB_IN_KIB == pytest.approx(float(total), abs=1)
        assert gpu.memory / MIB_IN_KIB == pytest.approx(float(used), abs=64)
        assert -1 <= gpu.busy <= 100
        assert gpu.busy_total == -1 or gpu.busy_total >= before.busy_total
        assert gpu.memory_total >= before.memory_total + min(
            gpu.memory, before.memory
        )  # an idle GPU may have none in use


def test_a_process_is_told_and_its_end_as_well(told: list[list[str]], client: AtopClient) -> None:
    words = [sys.executable, '-c', _HOLD]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == '1\n'

        def states(pid: int = process.pid) -> set[str]:
            return {told.state for gpu in client.statistics() for told in gpu.processes if told.pid == pid}

        eventually(lambda: states() == {'A'})
        process.communicate('')
        eventually(lambda: states() == {'E'})
        assert states() == set()
