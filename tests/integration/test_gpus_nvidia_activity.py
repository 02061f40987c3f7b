"""The activity of GPUs by their own counters, through the real nvidia-ml-py on the simulated driver."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from support.gpus.gpu_machine import Machine
from support.simulated_nvml import NO_PERMISSION, Failure, Gpu, Mig

if TYPE_CHECKING:
    from pathlib import Path

READ = """
import json, sys
from gpu_tracker.gpus.nvidia import open_backend
from gpu_tracker.gpus.nvidia.activity import ActivityReader

now = 0.0
backend = open_backend()
reader = backend._activities['GPU-a'] = ActivityReader(lambda: now)
for now in json.loads(sys.argv[1]):
    print(json.dumps([activity._asdict() for activity in backend.activity('GPU-a')]))
backend.close()
"""
"""Reads one GPU at some seconds, then closes the driver."""
NOTHING: dict[str, Any] = {
    'gpu_instance': None,
    'problem': None,
    'seconds': 0.0,
    'sm': None,
    'occupancy': None,
    'tensor': None,
    'dram': None,
    'pcie_sent': None,
    'pcie_received': None,
    'nvlink_sent': None,
    'nvlink_received': None,
}
HOPPER = Gpu(
    uuid='GPU-a',
    sm_activity=81,
    sm_occupancy=40,
    tensor_activity=23,
    dram_activity=0,
    pcie_sent_rate=1,
    pcie_received_rate=2,
    nvlink_sent_rate=30,
)
OLDER = Gpu(uuid='GPU-a')
MIB = 2**20


def read(machine: Machine, at: str) -> list[list[dict[str, Any]]]:
    code, printed, errors = machine.forked(READ, at)
    assert code == 0, errors
    return [json.loads(line) for line in printed.splitlines()]


def gpus(machine: Machine, *options: str) -> list[dict[str, Any]]:
    code, printed, errors = machine.told('gpus', '--json', '--activity', '--interval=0.2', *options)
    assert (code, errors) == (0, '')
    return json.loads(printed)['gpus']


def test_gpus_prints_the_activity_between_two_readings(machine: Machine) -> None:
    machine.write(gpus=[HOPPER, Gpu(uuid='GPU-b')])
    first, second = (gpu['activity'] for gpu in gpus(machine))
    assert first.pop('seconds') >= 0.2
    assert first == {
        'problem': None,
        'sm_percent': 81.0,
        'occupancy_percent': 40.0,
        'tensor_percent': 23.0,
        'dram_percent': 0.0,
        'pcie_sent_bytes_per_second': 1.0 * MIB,
        'pcie_received_bytes_per_second': 2.0 * MIB,
        'nvlink_sent_bytes_per_second': 30.0 * MIB,
        'nvlink_received_bytes_per_second': None,
    }
    assert (second['problem'], second['sm_percent']) == (
        'has no counters of its activity, which Hopper and newer GPUs have',
        None,
    )


def test_each_mig_device_has_the_activity_of_its_gpu_instance(machine: Machine) -> None:
    parts = [Mig(uuid='MIG-a', gi=2, sm_activity=70), Mig(uuid='MIG-b', gi=5, sm_activity=5)]
    machine.write(gpus=[Gpu(uuid='GPU-a', sm_activity=30, mig=[*parts, Mig(uuid='MIG-c', gi=5, ci=1)])])
    (gpu,) = gpus(machine)
    assert gpu['activity'] is None
    assert [part['activity']['sm_percent'] for part in gpu['mig_devices']] == [70.0, 5.0, 5.0]


def test_why_the_activity_of_mig_devices_is_unknown(machine: Machine) -> None:
    divided = Gpu(uuid='GPU-a', sm_activity=30, mig=[Mig(uuid='MIG-a', gi=2, sm_activity=70)])
    machine.write(gpus=[divided], fail=[Failure('nvmlGpmMigSampleGet', NO_PERMISSION)])
    (gpu,) = gpus(machine)
    assert [part['activity']['problem'] for part in gpu['mig_devices']] == [
        'may not be read by this user (NVML code 4)'
    ]


def test_nobody_reads_the_counters_unasked(machine: Machine) -> None:
    machine.write(gpus=[HOPPER])
    assert machine.gpus()[0]['activity'] is None
    assert not any('Gpm' in call for call in machine.driver.calls())


def test_two_samples_make_the_figures_of_the_time_between_them(machine: Machine) -> None:
    machine.write(gpus=[HOPPER])
    assert read(machine, '[10, 12.5]') == [
        [NOTHING],
        [
            NOTHING
            | {'seconds': 2.5, 'sm': 81.0, 'occupancy': 40.0, 'tensor': 23.0, 'dram': 0.0}
            | {'pcie_sent': 1.0 * MIB, 'pcie_received': 2.0 * MIB, 'nvlink_sent': 30.0 * MIB}
        ],
    ]


def test_samples_are_a_tenth_of_a_second_apart_whoever_reads_more_often(machine: Machine) -> None:
    machine.write(gpus=[HOPPER])
    readings = read(machine, '[1, 1.0625, 1.09375, 1.125, 1.1875]')
    assert [activity['seconds'] for (activity,) in readings] == [0, 0, 0, 0.125, 0]


def test_each_sample_is_freed_and_nothing_is_switched_on(machine: Machine) -> None:
    machine.write(gpus=[HOPPER])
    read(machine, '[1, 2, 3]')
    calls = machine.driver.calls()
    assert (calls.count('nvmlGpmSampleAlloc'), calls.count('nvmlGpmSampleFree')) == (3, 3)
    assert 'nvmlGpmSetStreamingEnabled' not in calls


def test_each_instance_of_a_gpu_in_mig_mode_has_its_own_activity(machine: Machine) -> None:
    parts = [Mig(uuid='MIG-a', gi=2, sm_activity=70), Mig(uuid='MIG-b', gi=5, sm_activity=5)]
    machine.write(gpus=[Gpu(uuid='GPU-a', sm_activity=30, mig=[*parts, Mig(uuid='MIG-c', gi=5, ci=1)])])
    _, second = read(machine, '[1, 2]')
    assert [(activity['gpu_instance'], activity['sm']) for activity in second] == [(2, 70.0), (5, 5.0)]
    calls = machine.driver.calls()
    assert (calls.count('nvmlGpmSampleAlloc'), calls.count('nvmlGpmSampleFree')) == (4, 4)


@pytest.mark.parametrize(
    ('gpu', 'failing', 'problem'),
    [
        (OLDER, [], 'has no counters of its activity, which Hopper and newer GPUs have'),
        (
            HOPPER,
            [Failure('nvmlGpmQueryDeviceSupport', 3)],
            'has no counters of its activity, which Hopper and newer GPUs have',
        ),
        (HOPPER, [Failure('nvmlGpmSampleGet', NO_PERMISSION)], 'may not be read by this user (NVML code 4)'),
    ],
)
def test_why_nothing_is_known(machine: Machine, gpu: Gpu, failing: list[Failure], problem: str) -> None:
    machine.write(gpus=[gpu], fail=failing)
    assert read(machine, '[1]') == [[NOTHING | {'problem': problem}]]
    calls = machine.driver.calls()
    assert calls.count('nvmlGpmSampleAlloc') == calls.count('nvmlGpmSampleFree')


def test_a_driver_without_the_calls_is_too_old(tmp_path: Path) -> None:
    machine = Machine(tmp_path, generation=1)
    machine.write(gpus=[HOPPER])
    problem = 'the driver is too old to report its activity (NVML code 13)'
    assert read(machine, '[1, 2]') == [[NOTHING | {'problem': problem}]] * 2


def test_a_reading_that_fails_is_followed_by_a_new_window(machine: Machine) -> None:
    machine.write(gpus=[HOPPER], fail=[Failure('nvmlGpmSampleGet', 999, after=1, times=1)])
    readings = read(machine, '[1, 2, 3, 4]')
    problem = 'cannot be read: unknown error of the NVIDIA driver (NVML code 999)'
    assert [(activity['problem'], activity['seconds'], activity['sm']) for (activity,) in readings] == [
        (None, 0, None),
        (problem, 0, None),
        (None, 0, None),
        (None, 1, 81.0),
    ]
