"""One look at all GPUs through the real nvidia-ml-py on the simulated driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.gpus.gpu_machine import GB, GIB, Machine
from support.gpus.surveys import NOTHING, process, survey
from support.simulated_nvml import Failure, Gpu, Mig, Process

if TYPE_CHECKING:
    from pathlib import Path


def test_all_that_a_gpu_tells_in_base_units(machine: Machine) -> None:
    machine.write(
        gpus=[
            Gpu(
                uuid='GPU-a',
                name='NVIDIA A100-SXM4-40GB',
                pci='00000000:3B:00.0',
                minor=3,
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
    assert survey(machine) == [
        NOTHING
        | {
            'uuid': 'GPU-a',
            'name': 'NVIDIA A100-SXM4-40GB',
            'pci_bus_id': '00000000:3B:00.0',
            'minor': 3,
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


def test_without_sensors_processes_and_utilization_are_told_all_the_same(machine: Machine) -> None:
    machine.write(
        gpus=[
            Gpu(
                uuid='GPU-a',
                total=40 * GB,
                util=97,
                temperature=64,
                sm_clock=1410,
                power=287_400,
                power_limit=400_000,
                processes=[Process(7, memory=5)],
            )
        ]
    )
    assert survey(machine, with_sensors=False) == [
        NOTHING
        | {
            'uuid': 'GPU-a',
            'name': 'NVIDIA Simulated GPU',
            'pci_bus_id': '00000000:01:00.0',
            'minor': 0,
            'memory_total': 40 * GB,
            'memory_used': 0,
            'memory_free': 40 * GB,
            'utilization': 97.0,
            'processes': [process(7, 5)],
        }
    ]
    assert not {'nvmlDeviceGetClockInfo', 'nvmlDeviceGetTemperature', 'nvmlDeviceGetPowerUsage'} & set(
        machine.driver.calls()
    )


def test_the_number_of_the_device_node_is_not_the_place_on_the_bus(machine: Machine) -> None:
    machine.write(
        gpus=[
            Gpu(uuid='GPU-b', pci='00000000:81:00.0', minor=0),
            Gpu(uuid='GPU-a', pci='00000000:0A:02.0', minor=1),
            Gpu(uuid='GPU-c', pci='00000000:82:00.0'),
        ],
        fail=[Failure('nvmlDeviceGetMinorNumber', 3, gpu=2)],
    )
    assert [(gpu['number'], gpu['uuid'], gpu['minor']) for gpu in survey(machine)] == [
        (0, 'GPU-a', 1),
        (1, 'GPU-b', 0),
        (2, 'GPU-c', None),
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
    assert [(gpu['number'], gpu['uuid'], gpu['problem']) for gpu in survey(machine)] == [
        (0, 'GPU-a', None),
        (1, None, 'lost: fallen off the bus or otherwise out of reach (NVML code 15)'),
        (2, 'GPU-b', None),
        (3, 'GPU-c', None),
        (4, 'GPU-d', None),
    ]


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
    gpus = survey(machine)
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


def test_figures_that_cannot_be_are_unknown(machine: Machine) -> None:
    not_available = 0xFFFFFFFF
    machine.write(
        gpus=[
            Gpu(uuid='GPU-a', total=GB, used=2 * GB, util=101, processes=[Process(7, memory=5)]),
            Gpu(
                uuid='GPU-b',
                total=GB,
                used=GB,
                util=100,
                temperature=1001,
                sm_clock=not_available,
                power=not_available,
                power_limit=not_available,
            ),
            Gpu(uuid='GPU-c', total=GB, temperature=not_available, sm_clock=0, power=0, power_limit=1),
        ]
    )
    first, second, third = survey(machine)
    assert first == NOTHING | {
        'uuid': 'GPU-a',
        'name': 'NVIDIA Simulated GPU',
        'pci_bus_id': '00000000:01:00.0',
        'minor': 0,
        'processes': [process(7, 5)],
    }
    assert second == NOTHING | {
        'number': 1,
        'uuid': 'GPU-b',
        'name': 'NVIDIA Simulated GPU',
        'pci_bus_id': '00000000:02:00.0',
        'minor': 1,
        'memory_total': GB,
        'memory_used': GB,
        'memory_free': 0,
        'utilization': 100.0,
        'processes': [],
    }
    assert (third['temperature'], third['sm_clock'], third['power'], third['power_limit']) == (None, 0, 0.0, 0.001)


def test_only_the_processes_of_a_gpu_with_impossible_memory_tell_whether_it_is_in_use(machine: Machine) -> None:
    machine.write(gpus=[Gpu(total=GB, used=2 * GB, processes=[Process(7, memory=5)]), Gpu(total=GB)])
    assert [gpu['processes'] for gpu in survey(machine, with_load=False)] == [[process(7, 5)], None]


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
    split, undivided, whole = survey(machine)
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


def test_a_process_that_the_driver_lists_twice_is_one(machine: Machine) -> None:
    machine.write(gpus=[Gpu(total=GB, processes=[Process(7, memory=5)])], duplicates=True)
    (gpu,) = survey(machine)
    assert gpu['processes'] == [process(7, 5)]


def test_a_driver_of_before_2020_lists_no_processes(tmp_path: Path) -> None:
    machine = Machine(tmp_path, generation=2)
    machine.write(gpus=[Gpu(uuid='GPU-a', total=10 * GB, used=GB, util=5, processes=[Process(7, memory=GB)])])
    (gpu,) = survey(machine)
    assert (gpu['problem'], gpu['memory_used'], gpu['utilization'], gpu['processes']) == (None, GB, 5.0, None)


def test_a_driver_of_before_2021(tmp_path: Path) -> None:
    machine = Machine(tmp_path, generation=1)
    machine.write(gpus=[Gpu(uuid='GPU-a', total=10 * GB, used=GB, processes=[Process(7, memory=GB)])])
    (gpu,) = survey(machine)
    assert (gpu['problem'], gpu['memory_used'], gpu['processes']) == (None, GB, [process(7, GB)])
