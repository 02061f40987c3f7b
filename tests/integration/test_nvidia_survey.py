"""One look at all GPUs through the real nvidia-ml-py on the simulated driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_machine import GB, GIB, Machine
from simulated_nvml import Failure, Gpu, Mig, Process

if TYPE_CHECKING:
    from pathlib import Path

SURVEY = """
import json, sys
from gpu_tracker.gpus import open_nvidia

def plain(state):
    fields = state._asdict()
    if state.processes is not None:
        fields['processes'] = [{name: getattr(entry, name) for name in entry.__slots__} for entry in state.processes]
    fields['mig_devices'] = None if state.mig_devices is None else [plain(part) for part in state.mig_devices]
    return fields

backend = open_nvidia()
print(json.dumps([plain(state) for state in backend.survey()]))
backend.close()
"""

NOTHING = {
    'number': 0,
    'uuid': None,
    'name': None,
    'pci_bus_id': None,
    'problem': None,
    'memory_total': None,
    'memory_used': None,
    'memory_free': None,
    'utilization': None,
    'temperature': None,
    'sm_clock': None,
    'power': None,
    'power_limit': None,
    'processes': None,
    'mig_devices': None,
}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def process(pid: int, memory: int | None, gpu: int | None = None, compute: int | None = None, *, computes: bool = True):
    return {
        'pid': pid,
        'memory': memory,
        'gpu_instance': gpu,
        'compute_instance': compute,
        'computes': computes,
    }


def test_all_that_a_gpu_tells_in_base_units(machine: Machine) -> None:
    machine.write(
        gpus=[
            Gpu(
                uuid='GPU-a',
                name='NVIDIA A100-SXM4-40GB',
                pci='00000000:3B:00.0',
                total=40 * GIB,
                used=10 * GIB,
                reserved=GIB,
                util=97,
                temperature=64,
                sm_clock=1410,
                power=287_400,
                power_limit=400_000,
                processes=[
                    Process(7, memory=GIB),
                    Process(8, memory=None, types='G'),
                    Process(9, memory=2 * GIB, types='CG'),
                ],
            )
        ]
    )
    assert machine.answer(SURVEY) == [
        NOTHING
        | {
            'uuid': 'GPU-a',
            'name': 'NVIDIA A100-SXM4-40GB',
            'pci_bus_id': '00000000:3B:00.0',
            'memory_total': 42_949_672_960,
            'memory_used': 10_737_418_240,
            'memory_free': 31_138_512_896,
            'utilization': 97.0,
            'temperature': 64.0,
            'sm_clock': 1_410_000_000,
            'power': 287.4,
            'power_limit': 400.0,
            'processes': [
                process(7, GIB),
                process(9, 2 * GIB),
                process(8, None, computes=False),
            ],
        }
    ]


def test_gpus_stand_in_the_order_of_the_pci_bus_and_lost_ones_keep_their_place(machine: Machine) -> None:
    machine.write(
        gpus=[
            Gpu(uuid='GPU-c', pci='00000000:81:00.0'),
            Gpu(missing=True),
            Gpu(uuid='GPU-d', pci='00010000:01:00.0'),
            Gpu(uuid='GPU-b', pci='00000000:0A:1F.0'),
            Gpu(uuid='GPU-a', pci='00000000:0A:02.0'),
        ]
    )
    assert [(gpu['number'], gpu['uuid'], gpu['problem']) for gpu in machine.answer(SURVEY)] == [
        (0, 'GPU-a', None),
        (1, None, 'lost: fallen off the bus or otherwise out of reach (NVML code 15)'),
        (2, 'GPU-b', None),
        (3, 'GPU-c', None),
        (4, 'GPU-d', None),
    ]


def test_a_gpu_that_fails_says_why_with_what_it_has_told_before(machine: Machine) -> None:
    machine.write(
        gpus=[Gpu(uuid=f'GPU-{letter}', total=GB) for letter in 'abcdef'],
        fail=[
            Failure('nvmlDevice*', 4, gpu=0),
            Failure('nvmlDeviceGetUUID', 16, gpu=1),
            Failure('nvmlDeviceGetMemoryInfo*', 15, gpu=2),
            Failure('nvmlDeviceGet*RunningProcesses*', 999, gpu=3),
            Failure('nvmlDeviceGetHandleByIndex*', 23, gpu=4),
            Failure('nvmlDeviceGet[NTCPE]*', 3, gpu=5),
        ],
    )
    gpus = machine.answer(SURVEY)
    assert [(gpu['uuid'], gpu['problem']) for gpu in gpus] == [
        (None, 'may not be read by this user (NVML code 4)'),
        (None, 'needs a reset before it can be used again (NVML code 16)'),
        ('GPU-c', 'lost: fallen off the bus or otherwise out of reach (NVML code 15)'),
        ('GPU-d', 'cannot be read: unknown error of the NVIDIA driver (NVML code 999)'),
        (None, 'cannot be read (NVML code 23)'),
        ('GPU-f', None),
    ]
    assert gpus[2] == NOTHING | {
        'number': 2,
        'uuid': 'GPU-c',
        'name': 'NVIDIA Simulated GPU',
        'pci_bus_id': '00000000:03:00.0',
        'problem': 'lost: fallen off the bus or otherwise out of reach (NVML code 15)',
    }


def test_what_a_gpu_does_not_support_is_unknown(machine: Machine) -> None:
    machine.write(
        gpus=[
            Gpu(uuid='GPU-unified', total=None, util=5),
            Gpu(uuid='GPU-zero', total=0),
            Gpu(uuid='GPU-garbage', total=GB, util=3_000_000_000),
            Gpu(uuid='GPU-lists', total=GB),
            Gpu(uuid='GPU-idle', total=GB),
        ],
        fail=[Failure('nvmlDeviceGet*RunningProcesses*', 3, gpu=3)],
    )
    gpus = machine.answer(SURVEY)
    assert [
        (gpu['uuid'], gpu['memory_total'], gpu['memory_used'], gpu['memory_free'], gpu['utilization'], gpu['processes'])
        for gpu in gpus
    ] == [
        ('GPU-unified', None, None, None, 5.0, []),
        ('GPU-zero', None, None, None, 0.0, []),
        ('GPU-garbage', GB, 0, GB, None, []),
        ('GPU-lists', GB, 0, GB, 0.0, None),
        ('GPU-idle', GB, 0, GB, 0.0, []),
    ]


def test_mig_devices_stand_in_their_gpu_and_their_processes_in_both(machine: Machine) -> None:
    machine.write(
        gpus=[
            Gpu(
                uuid='GPU-a',
                total=40 * GB,
                used=9 * GB,
                temperature=44,
                mig=[
                    Mig(uuid='MIG-a', gi=1, name='A100 MIG 3g.20gb', total=20 * GB, used=9 * GB),
                    Mig(uuid='MIG-b', gi=2, ci=3, total=None),
                ],
                processes=[Process(7, memory=8 * GB, gi=1, ci=0), Process(8, gi=2, ci=3)],
            ),
            Gpu(uuid='GPU-b', total=40 * GB, mig=[]),
            Gpu(uuid='GPU-c', total=40 * GB),
        ]
    )
    split, undivided, whole = machine.answer(SURVEY)
    assert (split['utilization'], split['temperature'], split['memory_used']) == (None, 44.0, 9 * GB)
    assert split['processes'] == [process(7, 8 * GB, 1, 0), process(8, None, 2, 3)]
    assert split['mig_devices'] == [
        NOTHING
        | {
            'uuid': 'MIG-a',
            'name': 'A100 MIG 3g.20gb',
            'memory_total': 20 * GB,
            'memory_used': 9 * GB,
            'memory_free': 11 * GB,
            'processes': [process(7, 8 * GB, 1, 0)],
        },
        NOTHING
        | {
            'number': 1,
            'uuid': 'MIG-b',
            'name': 'NVIDIA Simulated GPU MIG 1g',
            'processes': [process(8, None, 2, 3)],
        },
    ]
    assert (undivided['mig_devices'], whole['mig_devices']) == ([], None)


def test_a_mig_device_that_fails_says_why(machine: Machine) -> None:
    machine.write(
        gpus=[Gpu(uuid='GPU-a', total=40 * GB, mig=[Mig(uuid='MIG-a', gi=1, total=20 * GB)])],
        fail=[Failure('nvmlDeviceGetMemoryInfo*', 999, after=1)],
    )
    (gpu,) = machine.answer(SURVEY)
    assert gpu['problem'] is None
    assert gpu['mig_devices'] == [
        NOTHING | {'problem': 'cannot be read: unknown error of the NVIDIA driver (NVML code 999)'}
    ]


def test_a_process_that_the_driver_lists_twice_is_one(machine: Machine) -> None:
    machine.write(gpus=[Gpu(total=GB, processes=[Process(7, memory=5)])], duplicates=True)
    (gpu,) = machine.answer(SURVEY)
    assert gpu['processes'] == [process(7, 5)]


def test_a_driver_of_before_2021(tmp_path: Path) -> None:
    machine = Machine(tmp_path, generation=1)
    machine.write(gpus=[Gpu(uuid='GPU-a', total=10 * GB, used=GB, processes=[Process(7, memory=GB)])])
    (gpu,) = machine.answer(SURVEY)
    assert (gpu['problem'], gpu['memory_used'], gpu['processes']) == (None, GB, [process(7, GB)])
