"""What nvgpu's masters read of a host."""

from __future__ import annotations

import json

import pytest

from gpu_tracker.fleet.hosts.nvgpu import nvgpu_report, parse_nvgpu_report
from gpu_tracker.fleet.hosts.report import ClaimReport, GpuReport, HostReport, ProcessReport, parse_report
from gpu_tracker.gpus.machine import Seen, snapshot
from support.fleet.real_nvgpu import KEYS
from support.gpus.example_gpus import GPUS, IN_USE, NOW, UNIFIED, user_name
from support.gpus.gpu_readings import changed

LOST = 'lost: fallen off the bus or otherwise out of reach (NVML code 15)'
A100 = 'NVIDIA A100-SXM4-40GB'

ROWS = [
    ('0', A100, True, '', '', None, 0, 210, 31, None),
    ('1', A100, False, '4242', 'alice', '14 hours ago', 97, 1410, 64, 'train.py'),
    ('2', A100, False, '5101,5102,5177', 'bob,bob,alice', '22 minutes ago', 58, 1275, 55, 'evaluate.py'),
    ('3', A100, False, '999999', '?', None, 12, 1095, 41, None),
    ('4', A100, False, '', '', None, 0, 210, 31, 'claimed by alice'),
    ('5', None, False, '', '?', None, None, None, None, LOST),
    ('6', None, False, '', '?', None, None, None, None, 'may not be read by this user (NVML code 4)'),
    ('7', A100, False, '', '', None, None, 1140, 44, 'in MIG mode'),
    ('7:0', f'{A100} MIG 3g.20gb', False, '7007', 'bob', '3 days ago', None, None, None, 'serve.py'),
    ('7:1', f'{A100} MIG 2g.10gb', True, '', '', None, None, None, None, None),
    ('7:2', f'{A100} MIG 1g.5gb', False, '', '', None, None, None, None, 'claimed by alice'),
]
"""The index, and nvgpu's nine keys."""


def reported(*gpus) -> HostReport:
    taken = snapshot(Seen(NOW, list(gpus)), hostname='node01', user_name=user_name)
    return parse_report(json.dumps(taken).encode())


def only(gpu: GpuReport) -> dict[str, object]:
    return nvgpu_report(HostReport('node01', 'gpu-tracker', (gpu,)), NOW)['gpus'][0]


def test_a_machine() -> None:
    report = nvgpu_report(reported(*GPUS), NOW)
    assert list(report) == ['hostname', 'gpus']
    assert report['hostname'] == 'node01'
    assert [tuple(gpu[key] for key in ('index', *KEYS)) for gpu in report['gpus']] == ROWS


def test_gpus_of_several_vendors_are_told_apart_and_read_again() -> None:
    amd, nameless = changed(IN_USE, vendor='amd', uuid='GPU-1a2b'), changed(IN_USE, vendor='intel', uuid=None)
    written = nvgpu_report(reported(IN_USE, amd, nameless), NOW)
    assert [gpu['index'] for gpu in written['gpus']] == ['1', 'amd:1', 'intel:1']
    read = parse_nvgpu_report(json.dumps(written).encode())
    assert [(gpu.vendor, gpu.number, gpu.key) for gpu in read.gpus] == [
        (None, 1, 'index:1'),
        ('amd', 1, 'index:amd:1'),
        ('intel', 1, 'index:intel:1'),
    ]


def test_the_nine_keys_come_first_and_in_nvgpu_s_order() -> None:
    (gpu,) = nvgpu_report(reported(IN_USE), NOW)['gpus']
    assert list(gpu) == [*KEYS, 'memory', 'index', 'uuid', 'status', 'problem']
    assert gpu['memory'] == {'total': 42_949_672_960, 'free': 4_738_121_728, 'used': 38_211_551_232}
    assert (gpu['uuid'], gpu['status'], gpu['problem']) == (
        'GPU-00000001-0001-0001-0001-000000000001',
        'in_use',
        None,
    )
    assert [type(gpu[key]) for key in ('utilization', 'clock_mhz', 'temperature')] == [int, int, int]


def test_a_gpu_without_memory_of_its_own() -> None:
    (gpu,) = nvgpu_report(reported(UNIFIED), NOW)['gpus']
    assert gpu['memory'] == {'total': None, 'free': None, 'used': None}
    assert (gpu['is_available'], gpu['pids'], gpu['running_since']) == (False, '812', '40 seconds ago')


def test_a_machine_without_gpus() -> None:
    assert nvgpu_report(reported(), NOW) == {'hostname': 'node01', 'gpus': []}


def test_processes_that_only_draw_are_not_listed() -> None:
    drawing = ProcessReport(1, 'root', program='Xorg', computes=False)
    computing = ProcessReport(2, 'ann', computes=True)
    gpu = only(GpuReport('a', 0, status='in_use', processes=(drawing, computing)))
    assert (gpu['pids'], gpu['users'], gpu['cmd']) == ('2', 'ann', None)
    gpu = only(GpuReport('a', 0, status='free', processes=(drawing,)))
    assert (gpu['pids'], gpu['users'], gpu['is_available']) == ('', '', True)


def test_a_gpu_in_use_by_nobody_who_is_listed_has_an_unknown_user() -> None:
    for processes in ((), None):
        gpu = only(GpuReport('a', 0, status='in_use_unseen', processes=processes))
        assert (gpu['pids'], gpu['users'], gpu['is_available']) == ('', '?', False)


def test_a_gpu_is_available_by_its_memory_whatever_computes_on_it() -> None:
    gpu = GpuReport('a', 0, status='in_use', memory_total_bytes=10, memory_used_bytes=2)
    claim = ClaimReport('ann')
    others = [gpu._replace(status='in_use_unseen'), gpu._replace(memory_used_bytes=3), gpu._replace(claim=claim)]
    assert [only(one)['is_available'] for one in (gpu, *others)] == [True, True, False, False]
    unclear = HostReport('node01', 'gpu-tracker', (gpu,), claims_problem='no folder')
    assert not nvgpu_report(unclear, NOW)['gpus'][0]['is_available']
    assert not only(gpu._replace(memory_total_bytes=None))['is_available']
    gpu = only(GpuReport('a', 0, status='unknown', processes=()))
    assert (gpu['is_available'], gpu['cmd']) == (False, 'its claims are not known')


@pytest.mark.parametrize(
    ('program', 'cmd'),
    [
        ('sleep 100000', 'sleep 100000'),
        ('1234567890123456789012345', '1234567890123456789012345'),
        ('12345678901234567890123456', '1234567890123456789012345...'),
        ('/home/ann/a/very/long/way/to/train.py', '/home/ann/a/very/long/way/to/train.py'),
        ('jupyter', 'jupyter'),
    ],
)
def test_commands_are_as_short_as_nvgpu_has_them(program, cmd) -> None:
    unseen, seen = ProcessReport(1, computes=True), ProcessReport(2, 'ann', program=program, computes=True)
    gpu = only(GpuReport('a', 0, status='in_use', processes=(unseen, seen)))
    assert (gpu['users'], gpu['cmd']) == ('?,ann', cmd)


def test_what_an_agent_of_nvgpu_tells_is_passed_on() -> None:
    told = {
        'type': A100,
        'is_available': False,
        'pids': '14586,999999',
        'users': 'root,?',
        'running_since': 'a minute ago',
        'utilization': 5,
        'clock_mhz': 1410,
        'temperature': 64,
        'cmd': 'python -c import torch; p...',
    }
    idle = told | {'is_available': True, 'pids': '', 'users': '', 'running_since': None, 'cmd': None}
    body = json.dumps({'hostname': 'vm', 'gpus': [told, idle]}).encode()
    report = nvgpu_report(parse_nvgpu_report(body), NOW)
    assert report['hostname'] == 'vm'
    assert [{key: gpu[key] for key in KEYS} for gpu in report['gpus']] == [told, idle]
