"""GPUs as JSON: the keys are part of the documented interface."""

from __future__ import annotations

import json

from gpu_tracker.gpus.machine import Seen, snapshot
from gpu_tracker.gpus.model import GpuActivity, GpuProcess
from support.gpus.example_gpus import (
    CLAIMED,
    FREE,
    GPUS,
    IN_USE,
    LOST,
    NOW,
    SPLIT,
    UNIFIED,
    UNSEEN,
    claim,
    user_name,
    uuid,
)

IN_USE_AS_JSON = {
    'index': 1,
    'vendor': 'nvidia',
    'uuid': 'GPU-00000001-0001-0001-0001-000000000001',
    'pci_bus_id': '00000000:02:00.0',
    'type': 'NVIDIA A100-SXM4-40GB',
    'status': 'in_use',
    'problem': None,
    'utilization_percent': 97.0,
    'memory_total_bytes': 42_949_672_960,
    'memory_used_bytes': 38_211_551_232,
    'memory_free_bytes': 4_738_121_728,
    'temperature_celsius': 64.0,
    'sm_clock_hertz': 1_410_000_000,
    'power_watts': 287.4,
    'power_limit_watts': 400.0,
    'health': None,
    'activity': None,
    'processes': [
        {
            'pid': 4242,
            'user': 'alice',
            'command': 'python -u train.py --epochs 90 --data /scratch/imagenet',
            'program': 'train.py',
            'started': 1_799_948_880.0,
            'memory_bytes': 37_800_000_000,
            'utilization_percent': None,
            'computes': True,
        }
    ],
    'claim': None,
    'mig_devices': None,
}

LOST_AS_JSON = {
    'index': 5,
    'vendor': 'nvidia',
    'uuid': None,
    'pci_bus_id': None,
    'type': None,
    'status': 'unreadable',
    'problem': 'lost: fallen off the bus or otherwise out of reach (NVML code 15)',
    'utilization_percent': None,
    'memory_total_bytes': None,
    'memory_used_bytes': None,
    'memory_free_bytes': None,
    'temperature_celsius': None,
    'sm_clock_hertz': None,
    'power_watts': None,
    'power_limit_watts': None,
    'health': None,
    'activity': None,
    'processes': None,
    'claim': None,
    'mig_devices': None,
}

MIG_DEVICE_AS_JSON = {
    'index': 2,
    'vendor': 'nvidia',
    'uuid': 'MIG-00000072-0072-0072-0072-000000000072',
    'pci_bus_id': None,
    'type': 'NVIDIA A100-SXM4-40GB MIG 1g.5gb',
    'status': 'claimed',
    'problem': None,
    'utilization_percent': None,
    'memory_total_bytes': 5_100_273_664,
    'memory_used_bytes': 13_107_200,
    'memory_free_bytes': 5_087_166_464,
    'temperature_celsius': None,
    'sm_clock_hertz': None,
    'power_watts': None,
    'power_limit_watts': None,
    'health': None,
    'activity': None,
    'processes': [],
    'claim': {
        'user': 'alice',
        'user_id': 1000,
        'pid': None,
        'in_another_container': False,
        'made': 1_799_999_998.0,
        'expires': 1_800_000_057.2,
        'command': None,
    },
    'mig_devices': None,
}


def as_json(*gpus):
    """Return what a reader of the JSON gets."""
    return json.loads(json.dumps(snapshot(Seen(NOW, list(gpus)), hostname='node01', user_name=user_name)))


def only(gpu):
    return as_json(gpu)['gpus'][0]


def test_a_machine():
    machine = as_json(*GPUS)
    assert list(machine) == ['hostname', 'time', 'driver_problem', 'claims_problem', 'gpus']
    assert (machine['hostname'], machine['time']) == ('node01', 1_800_000_000.0)
    assert [(gpu['index'], gpu['status']) for gpu in machine['gpus']] == [
        (0, 'free'),
        (1, 'in_use'),
        (2, 'in_use'),
        (3, 'in_use_unseen'),
        (4, 'claimed'),
        (5, 'unreadable'),
        (6, 'unreadable'),
        (7, 'split'),
    ]


def test_a_machine_without_gpus():
    assert as_json() == {
        'hostname': 'node01',
        'time': 1_800_000_000.0,
        'driver_problem': None,
        'claims_problem': None,
        'gpus': [],
    }


def test_gpus_that_are_not_known():
    taken = snapshot(Seen(NOW, None, driver_problem='it fails'), hostname='node01')
    assert (taken['driver_problem'], taken['gpus']) == ('it fails', None)


def test_claims_that_cannot_be_read_leave_no_gpu_free():
    known = [gpu._replace(is_claim_known=False) for gpu in (FREE, IN_USE)]
    taken = snapshot(Seen(NOW, known, claims_problem='it is locked'), hostname='node01')
    assert taken['claims_problem'] == 'it is locked'
    assert [gpu['status'] for gpu in taken['gpus']] == ['unknown', 'in_use']


def test_a_gpu_in_use():
    assert only(IN_USE) == IN_USE_AS_JSON
    assert list(only(IN_USE)) == list(IN_USE_AS_JSON)


def test_the_activity_of_a_gpu():
    activity = GpuActivity(None, None, 2.0, 81.0, 40.0, 23.0, 0.0, 1.0, 2.0, 30.0)
    assert only(IN_USE._replace(activity=activity))['activity'] == {
        'problem': None,
        'seconds': 2.0,
        'sm_percent': 81.0,
        'occupancy_percent': 40.0,
        'tensor_percent': 23.0,
        'dram_percent': 0.0,
        'pcie_sent_bytes_per_second': 1.0,
        'pcie_received_bytes_per_second': 2.0,
        'nvlink_sent_bytes_per_second': 30.0,
        'nvlink_received_bytes_per_second': None,
    }


def test_a_lost_gpu():
    assert only(LOST) == LOST_AS_JSON


def test_a_process_that_cannot_be_seen():
    assert only(UNSEEN)['processes'] == [
        {
            'pid': 999_999,
            'user': None,
            'command': None,
            'program': None,
            'started': None,
            'memory_bytes': 11_600_000_000,
            'utilization_percent': None,
            'computes': True,
        }
    ]


def test_a_claim_that_a_process_holds():
    assert only(CLAIMED)['claim'] == {
        'user': 'alice',
        'user_id': 1000,
        'pid': 4300,
        'in_another_container': False,
        'made': 1_799_999_998.0,
        'expires': None,
        'command': 'python sweep.py --seed 7',
    }


def test_a_split_gpu_has_the_processes_of_its_mig_devices_too():
    split = only(SPLIT)
    assert [(part['index'], part['status']) for part in split['mig_devices']] == [
        (0, 'in_use'),
        (1, 'free'),
        (2, 'claimed'),
    ]
    assert split['mig_devices'][2] == MIG_DEVICE_AS_JSON
    assert [process['pid'] for process in split['processes']] == [7007]
    assert [process['pid'] for process in split['mig_devices'][0]['processes']] == [7007]


def test_unknown_is_null_and_nothing_is_an_empty_list():
    assert only(FREE)['processes'] == []
    assert only(FREE._replace(processes=None))['processes'] is None
    assert (only(UNIFIED)['memory_total_bytes'], only(UNIFIED)['memory_used_bytes']) == (None, None)


def test_commands_are_exact():
    command = 'python -c $\'print("\x1b[2J\u202e")\' \udc80'
    gpu = FREE._replace(
        processes=(GpuProcess(1, None, 'bob', NOW, command, '\x1b'),), claim=claim(uuid(0), command=command)
    )
    found = only(gpu)
    assert (found['processes'][0]['command'], found['processes'][0]['program']) == (command, '\x1b')
    assert found['claim']['command'] == command
