"""The same figures on a real GPU, with memory that CUDA allocates; run by naming it: python -m pytest tests/gpu.

Needs an NVIDIA driver (libcuda.so.1, libnvidia-ml.so.1, nvidia-smi) and nothing else: the driver's own API allocates.
In a container it needs the machine's process IDs (docker run --pid=host): the memory of processes is unknown otherwise.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import textwrap
import time

import pytest

import gpu_tracker as gput

MIB = 1 << 20
ALLOCATED = 512 * MIB
CONTEXT = 2048 * MIB
"""More than what a CUDA context itself takes on any GPU."""


class Cuda:
    """The few calls of CUDA's driver API that the tests need."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL('libcuda.so.1')
        self._check('cuInit', ctypes.c_uint(0))
        device = ctypes.c_int()
        self._check('cuDeviceGet', ctypes.byref(device), ctypes.c_int(0))
        # The primary context: the one that other libraries of the process would use too.
        self._context = ctypes.c_void_p()
        self._check('cuDevicePrimaryCtxRetain', ctypes.byref(self._context), device)
        self._check('cuCtxSetCurrent', self._context)

    def allocate(self, size: int) -> ctypes.c_uint64:
        """Return the address of so many bytes of GPU memory."""
        address = ctypes.c_uint64()
        self._check('cuMemAlloc_v2', ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def free(self, address: ctypes.c_uint64) -> None:
        """Give memory back."""
        self._check('cuMemFree_v2', address)

    def work(self, address: ctypes.c_uint64, size: int, seconds: float) -> None:
        """Keep the GPU busy with writing memory."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(200):
                self._check('cuMemsetD8_v2', address, ctypes.c_ubyte(1), ctypes.c_size_t(size))
            self._check('cuCtxSynchronize')

    def _check(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise RuntimeError(f'{name} failed with CUDA error {code}')


@pytest.fixture(scope='module', autouse=True)
def cuda() -> Cuda:
    try:
        return Cuda()
    except OSError:
        pytest.skip("needs an NVIDIA GPU and its driver's libcuda.so.1")


def test_memory_that_this_process_allocates(cuda: Cuda) -> None:
    with gput.Tracker(sleep_time=0.1, gpu_ram_unit='bytes') as before:
        time.sleep(0.3)  # what is measured is a span of time
    with gput.Tracker(sleep_time=0.1, gpu_ram_unit='bytes') as tracker:
        address = cuda.allocate(ALLOCATED)
        cuda.work(address, ALLOCATED, 1.0)
        cuda.free(address)
    ram, earlier = tracker.resource_usage.max_gpu_ram, before.resource_usage.max_gpu_ram
    assert ram.main is not None
    assert earlier.main is not None
    assert ALLOCATED <= ram.main - earlier.main < ALLOCATED + CONTEXT
    assert ram.descendants == 0
    assert ram.combined == ram.main
    assert ram.system is not None
    assert ram.system_capacity is not None
    assert ram.main <= ram.system <= ram.system_capacity


def test_memory_that_a_child_allocates() -> None:
    program = textwrap.dedent(f"""
        import importlib.util, sys
        specification = importlib.util.spec_from_file_location('real_gpu', {__file__!r})
        real_gpu = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(real_gpu)
        cuda = real_gpu.Cuda()
        address = cuda.allocate({ALLOCATED})
        cuda.work(address, {ALLOCATED}, 1.0)
    """)
    with gput.Tracker(sleep_time=0.1, gpu_ram_unit='bytes') as tracker:
        subprocess.run([sys.executable, '-c', program], check=True)
    ram = tracker.resource_usage.max_gpu_ram
    assert ram.descendants is not None
    assert ALLOCATED <= ram.descendants < ALLOCATED + CONTEXT


def test_utilization_while_the_gpu_works(cuda: Cuda) -> None:
    address = cuda.allocate(ALLOCATED)
    try:
        with gput.Tracker(sleep_time=0.1) as tracker:
            cuda.work(address, ALLOCATED, 3.0)
    finally:
        cuda.free(address)
    percentages = tracker.resource_usage.gpu_utilization.gpu_percentages
    assert percentages.max_hardware_percent is not None
    assert percentages.mean_hardware_percent is not None
    assert 50 < percentages.max_hardware_percent <= 100
    assert 0 < percentages.mean_hardware_percent <= percentages.max_hardware_percent


def test_the_gpus_are_those_that_nvidia_smi_lists() -> None:
    query = ['nvidia-smi', '--query-gpu=uuid,memory.total', '--format=csv,noheader,nounits']
    lines = subprocess.run(query, check=True, capture_output=True, text=True).stdout.splitlines()
    uuids = [line.split(', ')[0] for line in lines]
    total = sum(int(line.split(', ')[1]) for line in lines) * MIB
    with gput.Tracker(sleep_time=0.1, gpu_ram_unit='bytes', gpu_uuids=uuids[:1]) as tracker:
        pass
    usage = tracker.to_json()
    assert usage['gpu_utilization']['system_gpu_count'] == len(uuids)
    assert usage['gpu_utilization']['n_expected_gpus'] == 1
    assert usage['max_gpu_ram']['system_capacity'] == pytest.approx(total, abs=len(uuids) * MIB)
