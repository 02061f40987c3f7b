"""One look at all GPUs through the real nvidia-ml-py on the simulated driver, some of whose calls fail."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.gpus.gpu_machine import GB, Machine
from support.gpus.surveys import NOTHING, process, survey
from support.simulated_nvml import NO_PERMISSION, UNKNOWN, WHOLE_GPU, Failure, Gpu, Mig, Process

if TYPE_CHECKING:
    from pathlib import Path

MEMORY = 'nvmlDeviceGetMemoryInfo*'
LISTS = 'nvmlDeviceGet*RunningProcesses*'
MODE = 'nvmlDeviceGetMigMode'
LOST = 'lost: fallen off the bus or otherwise out of reach (NVML code 15)'
NEEDS_RESET = 'needs a reset before it can be used again (NVML code 16)'
NOT_PERMITTED = 'may not be read by this user (NVML code 4)'
NOT_KNOWN = 'cannot be read: unknown error of the NVIDIA driver (NVML code 999)'

FUNCTIONS = [
    'nvmlDeviceGetHandleByIndex*',
    'nvmlDeviceGetUUID',
    'nvmlDeviceGet[NPTCE]*',  # name, PCI, power, temperature, clocks, enforced limit; the compute list
    'nvmlDeviceGetUtilizationRates',
    MEMORY,
    LISTS,
    MODE,
    'nvmlDeviceGetM*',  # memory and all that concerns MIG
    'nvmlDevice*',
]
CODES = [2, 3, 4, 6, 7, 10, 13, 15, 16, 23, 25, 999]


def problems(gpu: dict[str, Any]) -> list[str | None]:
    """Return the problems of a GPU and of its MIG devices."""
    return [gpu['problem'], *(part['problem'] for part in gpu['mig_devices'] or ())]


def divided(**values: object) -> Gpu:
    """Return a GPU in MIG mode with a MIG device that process 7 computes on."""
    settings = {
        'uuid': 'GPU-a',
        'total': 40 * GB,
        'used': 9 * GB,
        'mig': [Mig(uuid='MIG-a', gi=1, name='A100 MIG 3g.20gb', total=20 * GB, used=9 * GB)],
        'processes': [Process(7, memory=8 * GB, gi=1, ci=0)],
    }
    return Gpu(**(settings | values))  # type: ignore[arg-type]


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
    gpus = survey(machine)
    assert [(gpu['uuid'], gpu['problem']) for gpu in gpus] == [
        (None, 'may not be read by this user (NVML code 4)'),
        (None, 'needs a reset before it can be used again (NVML code 16)'),
        ('GPU-c', 'lost: fallen off the bus or otherwise out of reach (NVML code 15)'),
        ('GPU-d', None),
        (None, 'cannot be read (NVML code 23)'),
        ('GPU-f', None),
    ]
    assert (gpus[3]['memory_total'], gpus[3]['processes']) == (GB, None)
    assert gpus[2] == NOTHING | {
        'number': 2,
        'uuid': 'GPU-c',
        'name': 'NVIDIA Simulated GPU',
        'pci_bus_id': '00000000:03:00.0',
        'minor': 2,
        'problem': 'lost: fallen off the bus or otherwise out of reach (NVML code 15)',
    }


def test_a_mig_device_that_fails_says_why(machine: Machine) -> None:
    machine.write(
        gpus=[Gpu(uuid='GPU-a', total=40 * GB, mig=[Mig(uuid='MIG-a', gi=1)])],
        fail=[Failure('nvmlDeviceGetMemoryInfo*', 999, gpu=0, mig=0)],
    )
    (gpu,) = survey(machine)
    assert gpu['problem'] is None
    assert gpu['mig_devices'] == [
        NOTHING | {'problem': 'cannot be read: unknown error of the NVIDIA driver (NVML code 999)'}
    ]


@pytest.mark.parametrize('code', [NO_PERMISSION, UNKNOWN])
def test_mig_devices_are_seen_by_those_who_may_not_see_the_memory_of_their_gpu(machine: Machine, code: int) -> None:
    machine.write(gpus=[divided()], fail=[Failure(MEMORY, code, gpu=0, mig=WHOLE_GPU)])
    (gpu,) = survey(machine)
    assert gpu == NOTHING | {
        'uuid': 'GPU-a',
        'name': 'NVIDIA Simulated GPU',
        'pci_bus_id': '00000000:01:00.0',
        'minor': 0,
        'processes': [process(7, 8 * GB, 1, 0)],
        'mig_devices': [
            NOTHING
            | {
                'uuid': 'MIG-a',
                'name': 'A100 MIG 3g.20gb',
                'memory_total': 20 * GB,
                'memory_used': 9 * GB,
                'memory_free': 11 * GB,
                'processes': [process(7, 8 * GB, 1, 0)],
            },
        ],
    }
    (gpu,) = survey(machine, with_load=False)
    assert [part['memory_used'] for part in gpu['mig_devices']] == [9 * GB]


def test_mig_devices_list_their_processes_where_their_gpu_does_not(machine: Machine) -> None:
    machine.write(gpus=[divided()], fail=[Failure(LISTS, NO_PERMISSION, gpu=0, mig=WHOLE_GPU)])
    (gpu,) = survey(machine)
    assert (gpu['problem'], gpu['memory_used'], gpu['processes']) == (None, 9 * GB, [process(7, 8 * GB, 1, 0)])
    assert gpu['mig_devices'][0]['processes'] == [process(7, 8 * GB, 1, 0)]


def test_a_mig_device_that_does_not_list_its_processes(machine: Machine) -> None:
    machine.write(gpus=[divided()], fail=[Failure(LISTS, NO_PERMISSION, gpu=0, mig=0)])
    (gpu,) = survey(machine)
    part = gpu['mig_devices'][0]
    assert (part['problem'], part['memory_used'], part['processes']) == (None, 9 * GB, None)
    assert gpu['processes'] == [process(7, 8 * GB, 1, 0)]


@pytest.mark.parametrize(('code', 'problem'), [(15, LOST), (16, NEEDS_RESET)])
def test_a_gpu_in_mig_mode_that_is_out_of_reach(machine: Machine, code: int, problem: str) -> None:
    machine.write(
        gpus=[divided(), divided(total=None), divided()],
        fail=[
            Failure(MEMORY, code, gpu=0, mig=WHOLE_GPU),
            Failure(LISTS, code, gpu=1, mig=WHOLE_GPU),
            Failure(MODE, code, gpu=2),
        ],
    )
    for with_load in (True, False):
        gpus = survey(machine, with_load=with_load)
        assert [(gpu['problem'], gpu['mig_devices']) for gpu in gpus] == [(problem, None)] * 3


def test_a_gpu_whose_mig_mode_cannot_be_told_is_not_offered_whole(machine: Machine) -> None:
    machine.write(
        gpus=[divided()] * 6, fail=[Failure(MODE, code, gpu=gpu) for gpu, code in enumerate([2, 3, 13, 4, 999, 23])]
    )
    assert [(gpu['problem'], gpu['mig_devices']) for gpu in survey(machine)] == [
        (None, None),
        (None, None),
        (None, None),
        (NOT_PERMITTED, None),
        (NOT_KNOWN, None),
        ('cannot be read (NVML code 23)', None),
    ]


@pytest.mark.parametrize('code', [4, 13, 999])
def test_processes_that_are_not_listed_are_unknown_and_nothing_else_is(machine: Machine, code: int) -> None:
    machine.write(
        gpus=[Gpu(total=GB, used=5, util=40, temperature=50, processes=[Process(7)]), Gpu(total=None)],
        fail=[Failure(LISTS, code)],
    )
    known, unified = survey(machine)
    assert (known['problem'], known['processes']) == (None, None)
    assert (known['memory_used'], known['utilization'], known['temperature']) == (5, 40.0, 50.0)
    assert (unified['problem'], unified['processes']) == (None, None)


@pytest.mark.parametrize(('generation', 'mig'), [(0, None), (0, WHOLE_GPU), (2, None)])
@pytest.mark.parametrize(
    'kind', [Gpu(total=GB), Gpu(total=None), divided(), divided(total=None)], ids=['whole', 'unified', 'mig', 'mig-any']
)
def test_the_same_gpus_can_be_read_with_and_without_load(
    tmp_path: Path, kind: Gpu, generation: int, mig: int | None
) -> None:
    machine = Machine(tmp_path, generation)
    failures = [(functions, code) for functions in FUNCTIONS for code in CODES]
    machine.write(
        gpus=[replace(kind, uuid=None)] * len(failures),
        fail=[Failure(functions, code, gpu=gpu, mig=mig) for gpu, (functions, code) in enumerate(failures)],
    )
    with_load, without = (survey(machine, with_load=wanted) for wanted in (True, False))
    assert len(with_load) == len(failures)
    assert [problems(gpu) for gpu in with_load] == [problems(gpu) for gpu in without]
    readable = {failure for failure, gpu in zip(failures, with_load, strict=True) if gpu['problem'] is None}
    assert {(LISTS, 4), (LISTS, 13), (LISTS, 999), (MODE, 3), (MEMORY, 3)} <= readable
    assert not {(MEMORY, 15), (MEMORY, 16), (MODE, 4), (MODE, 15), ('nvmlDevice*', 15)} & readable
    assert ((MEMORY, 4) in readable) == (kind.mig is not None)
