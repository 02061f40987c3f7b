"""Which of many states of a GPU are free: by the rule of ours, by memory alone, and by nvgpu itself."""

from __future__ import annotations

import pytest

from gpu_tracker.gpus.constraints import ANY, Limits, rejection, status_of
from gpu_tracker.gpus.request import make_request
from gpu_tracker.gpus.selection import choose
from support.gpus.brief_gpus import GB, SEEN, UNSEEN, claim, gpu, lost, mig, split, used

BY_MEMORY = Limits(max_used_percent=20)
XORG = SEEN._replace(command='/usr/lib/xorg/Xorg vt2', program='/usr/lib/xorg/Xorg vt2', memory=GB // 10)
DRAWS = SEEN._replace(computes=False)
IDLE_PROGRAM = SEEN._replace(memory=8 * GB, is_idle_program=True)
COMPUTES = 'a process computes on it'
FULL = '90.0 % of its memory is in use; at most 20 % may be'
NO_MEMORY = {'memory_total': None, 'memory_used': None, 'memory_free': None}

UNLISTED = 'its processes cannot be listed'
OPENED = gpu(processes=(SEEN._replace(memory=20_480),))
OPENED_BY_ROCM = OPENED._replace(gpu=OPENED.gpu._replace(vendor='amd'))
STATES = [
    # state, free for nvgpu, by memory, and now: its status and what is in the way
    ('empty', gpu(), True, True, 'free', None),
    ('the driver and a context that has ended have 10 %', used(0, 1), True, True, 'free', None),
    ('a training that has begun', used(0, 1, SEEN), True, True, 'in_use', COMPUTES),
    ('a small training at 99 %', used(0, 1, SEEN)._replace(utilization=99.0), True, True, 'in_use', COMPUTES),
    ('one of another container', used(0, 1, UNSEEN), True, True, 'in_use_unseen', COMPUTES),
    (
        'busy, and no process is listed',
        used(0, 1)._replace(utilization=99.0),
        True,
        True,
        'in_use_unseen',
        'its utilization is 99 %; a free GPU has less than 5 %',
    ),
    ('4 %', gpu(utilization=4.0), True, True, 'free', None),
    (
        '5 %',
        gpu(utilization=5.0),
        True,
        True,
        'in_use_unseen',
        'its utilization is 5 %; a free GPU has less than 5 %',
    ),
    ('a desktop that draws', used(0, 1, DRAWS), True, True, 'free', None),
    (
        'a desktop that plays a film',
        used(0, 1, DRAWS)._replace(utilization=30.0),
        True,
        True,
        'in_use',
        'its utilization is 30 %; a free GPU has less than 5 %',
    ),
    ('a display server that is listed as computing', used(0, 1, XORG), True, True, 'free', None),
    ('an idle program', used(0, 8, IDLE_PROGRAM)._replace(utilization=99.0), False, True, 'free', None),
    ('an idle program and a training', used(0, 9, IDLE_PROGRAM, SEEN), False, False, 'in_use', FULL),
    (
        'full',
        used(0, 9, SEEN._replace(memory=9 * GB)),
        False,
        False,
        'in_use',
        FULL,
    ),
    (
        'full, and no process is listed',
        used(0, 9),
        False,
        False,
        'in_use_unseen',
        FULL,
    ),
    ('claimed', gpu(claim=claim('GPU-0')), True, False, 'claimed', ''),
    ('a training on a MIG device', mig(0, 'MIG-a', processes=(SEEN,)), True, True, 'in_use', COMPUTES),
    ('processes and utilization are not reported', gpu(processes=None, utilization=None), True, True, 'free', None),
    ('a training without memory of its own', gpu(processes=(SEEN,), **NO_MEMORY), False, False, 'in_use', COMPUTES),
    ('opened by a training on another GPU', OPENED_BY_ROCM, True, True, 'free', None),
    ('a training whose memory is not reported', OPENED, True, True, 'in_use', COMPUTES),
    ('lists fail', gpu(processes=None)._replace(lists_failed=True), True, True, 'in_use_unseen', UNLISTED),
    ('lost', lost(0), False, False, 'unreadable', 'lost'),
]


def free_for_nvgpu(gpu) -> bool:
    return gpu.memory_total is not None and 100 * gpu.memory_used / gpu.memory_total <= 20


@pytest.mark.parametrize(('state', 'shown', 'nvgpu', 'by_memory', 'status', 'reason'), STATES)
def test_a_gpu_is_free_if_nobody_computes_on_it(state, shown, nvgpu, by_memory, status, reason) -> None:
    found = rejection(shown, ANY)
    told = (free_for_nvgpu(shown), rejection(shown, BY_MEMORY) is None, status_of(shown), found and found.text)
    assert (state, *told) == (state, nvgpu, by_memory, status, reason)


def test_an_empty_gpu_comes_before_one_with_less_free_memory_and_one_in_use_is_not_chosen() -> None:
    machine = [used(0, 1, SEEN)._replace(utilization=99.0), used(1, 1), gpu(2)]
    assert [one.number for one in choose(machine, make_request()).chosen] == [2, 1]
    assert [one.number for one in choose(machine, make_request(order='index')).chosen] == [1, 2]
    assert [one.number for one in choose(machine, make_request(max_used_percent=20)).chosen] == [0, 1, 2]
    assert [one.number for one in choose(machine, make_request(max_used_percent=20, max_utilization=50)).chosen] == [
        2,
        1,
    ]


def test_programs_that_are_allowed_do_not_count() -> None:
    server = SEEN._replace(command='/usr/bin/nvidia-cuda-mps-server', program='nvidia-cuda-mps-server')
    script = SEEN._replace(command='python monitor.py', program='monitor.py')
    machine = [used(0, 1, server, script)]
    assert rejection(machine[0], ANY).text == '2 processes compute on it'
    assert choose(machine, make_request(allow='nvidia-cuda-mps-server')).chosen == []
    assert choose(machine, make_request(allow='nvidia-cuda-mps-server, monitor.py')).chosen == machine
    assert choose([used(0, 1, UNSEEN)], make_request(allow=['monitor.py'])).chosen == []


def test_mig_devices_without_processes_are_free_though_they_report_no_utilization() -> None:
    whole = split(0, mig(0, 'MIG-a'), mig(1, 'MIG-b'))
    in_use = whole.mig_devices[0]._replace(processes=(SEEN,))
    machine = [whole._replace(mig_devices=(in_use, whole.mig_devices[1]))]
    assert choose(machine, make_request(uuid=True)).uuids == ['MIG-b']
