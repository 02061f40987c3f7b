"""What the GPUs of a simulated machine are, through the real nvidia-ml-py."""

from __future__ import annotations

import threading

import pytest

from gpu_tracker.cuda_probe.devices.host_gpus import HostGpus, read_host_gpus
from gpu_tracker.errors import GpuError
from support.gpus.gpu_machine import GIB, Machine
from support.simulated_nvml import DRIVER_NOT_LOADED, VERSION_MISMATCH, Failure, Gpu, Mig
from support.waiting import TIMEOUT

_LOOK = """
import json
from gpu_tracker.cuda_probe.devices.host_gpus import read_host_gpus

host = read_host_gpus()
gpus = [[gpu.gpu._asdict(), None if gpu.parts is None else [part._asdict() for part in gpu.parts]] for gpu in host.gpus]
print(json.dumps([gpus, host.problem]))
"""


def test_all_tags_of_gpus_in_bus_order(machine: Machine) -> None:
    machine.write(
        driver='580.65.06',
        gpus=[
            Gpu(uuid='GPU-b', name='NVIDIA H100', pci='00000000:81:00.0', minor=0, total=80 * GIB, cores=16896),
            Gpu(uuid='GPU-a', name='NVIDIA L4', pci='00000000:0A:00.0', minor=1, total=0),
            Gpu(missing=True),
        ],
    )
    gpus, problem = machine.forked_answer(_LOOK)
    assert problem is None
    nothing = {'mig': None, 'gpu_instance': None, 'compute_instance': None, 'vendor': 'nvidia', 'driver': '580.65.06'}
    first = {'uuid': 'GPU-a', 'model': 'NVIDIA L4', 'cores': None, 'memory': None, 'minor': 1}
    second = {'uuid': 'GPU-b', 'model': 'NVIDIA H100', 'cores': 16_896, 'memory': 85_899_345_920, 'minor': 0}
    lost = {'uuid': None, 'model': None, 'cores': None, 'memory': None, 'minor': None}
    assert gpus == [[nothing | first, None], [nothing | second, None], [nothing | lost, None]]


def test_mig_devices_have_profile_instances_and_cores_of_their_own(machine: Machine) -> None:
    a100 = 'NVIDIA A100-SXM4-40GB'
    machine.write(
        gpus=[
            Gpu(
                uuid='GPU-a',
                name=a100,
                capability=80,
                cores=6912,
                total=40 * GIB,
                mig=[
                    Mig(uuid='MIG-a', gi=3, name=f'{a100} MIG 2g.10gb', total=GIB, used=0, multiprocessors=28),
                    Mig(uuid='MIG-b', gi=4, ci=1, name='', total=None),
                ],
            ),
            Gpu(uuid='GPU-c', cores=128, mig=[Mig(uuid='MIG-c', gi=1, total=GIB, used=0, multiprocessors=28)]),
            Gpu(uuid='GPU-d', mig=[]),
        ]
    )
    gpus, _ = machine.forked_answer(_LOOK)
    keys = ('uuid', 'model', 'mig', 'cores', 'memory', 'minor', 'gpu_instance', 'compute_instance')
    assert [[tuple(part[key] for key in keys) for part in parts] for _, parts in gpus] == [
        [
            ('MIG-a', a100, '2g.10gb', 1792, GIB, 0, 3, 0),
            ('MIG-b', a100, 'MIG device 1', None, None, 0, 4, 1),
        ],
        [('MIG-c', 'NVIDIA Simulated GPU', '1g', None, GIB, 1, 1, 0)],
        [],
    ]


def test_what_the_driver_does_not_tell_is_none(machine: Machine) -> None:
    functions = ('NumGpuCores', 'Name', 'MinorNumber', 'MemoryInfo*', 'PciInfo*', 'MigMode')
    machine.write(
        gpus=[Gpu(uuid='GPU-a', cores=10)],
        fail=[*(Failure(f'nvmlDeviceGet{name}', 3) for name in functions), Failure('nvmlSystemGetDriverVersion', 999)],
    )
    gpus, _ = machine.forked_answer(_LOOK)
    [[gpu, parts]] = gpus
    known = {name: value for name, value in gpu.items() if value is not None}
    assert (known, parts) == ({'uuid': 'GPU-a', 'vendor': 'nvidia'}, None)


@pytest.mark.parametrize(('code', 'is_told'), [(DRIVER_NOT_LOADED, False), (VERSION_MISMATCH, True)])
def test_a_driver_that_does_not_work_is_told(machine: Machine, code: int, is_told: bool) -> None:
    machine.write(gpus=[Gpu()], fail=[Failure('nvmlInit*', code)])
    gpus, problem = machine.forked_answer(_LOOK)
    assert (gpus, problem is not None) == ([], is_told)


def test_a_run_asks_the_driver_for_none_of_this(machine: Machine) -> None:
    machine.write(gpus=[Gpu(cores=5)])
    assert machine.told('-e', 'true')[0] == 0
    asked = {'nvmlDeviceGetNumGpuCores', 'nvmlSystemGetDriverVersion', 'nvmlDeviceGetCudaComputeCapability'}
    assert not asked & set(machine.driver.calls())


def test_a_driver_that_hangs_is_not_waited_for() -> None:
    is_over = threading.Event()

    def hang() -> None:
        is_over.wait(TIMEOUT)

    assert read_host_gpus({'nvidia': hang}, timeout=0.01) == HostGpus(
        problem='The driver of NVIDIA GPUs has not answered for 0.01 seconds.'
    )
    is_over.set()


def test_the_problems_of_one_vendor_leave_the_others() -> None:
    class Backend:
        def __init__(self) -> None:
            self.is_open = True

        def details(self) -> list[object]:
            return []

        def close(self) -> None:
            self.is_open = False

    def fail() -> None:
        raise GpuError('it is broken', 'broken')

    backend = Backend()
    assert read_host_gpus({'one': fail, 'two': lambda: backend, 'three': lambda: None}) == HostGpus((), 'it is broken')
    assert not backend.is_open
