"""``gpu_tracker.gpu_info``, ``available_gpus`` and ``claim_gpus``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from support.cli_program import state_of
from support.gpus.gpu_machine import GB, GIB, NO_SUCH_PROCESS, Machine
from support.simulated_nvml import Failure, Gpu, Mig, Process
from support.waiting import eventually

START = """
import json, os, sys
import gpu_tracker as gput
from gpu_tracker.errors import GpuError, GpusUnavailableError, ParameterError

def error_of(call, *arguments, **options):
    try:
        return call(*arguments, **options)
    except Exception as error:
        return [type(error).__name__, str(error)]
"""

SIZE = 'a size with its unit, such as 10GB (powers of 1000), 8GiB or 8G (powers of 1024)'
REASON = '  GPU {} (NVIDIA Simulated GPU): {} % of its memory is in use; at most 20 % may be'


@pytest.fixture
def four(machine: Machine) -> Machine:
    machine.write(
        gpus=[
            Gpu(uuid='GPU-a', total=40 * GB, used=GB, util=4, temperature=60, power_limit=300_000),
            Gpu(uuid='GPU-b', total=40 * GB, used=38 * GB, temperature=40),
            Gpu(uuid='GPU-c', total=80 * GB, used=16 * GB, temperature=50, power_limit=700_000),
            Gpu(uuid='GPU-d', total=20 * GB, mig=[Mig(uuid='MIG-d', gi=1, total=10 * GB, used=0)]),
        ]
    )
    return machine


def test_gpu_info_has_the_keys_and_units_that_nvgpu_has(machine: Machine) -> None:
    machine.write(
        gpus=[
            Gpu(uuid='GPU-a', name='Tesla P4', pci='00000000:82:00.0', total=8119 * 2**20, used=7881 * 2**20 + 1),
            Gpu(uuid='GPU-b', name='NVIDIA A100', pci='00000000:02:00.0', total=40 * GIB, mig=[]),
            Gpu(uuid='GPU-c', name='NVIDIA GB10', pci='00000000:83:00.0', total=None),
            Gpu(missing=True),
        ]
    )
    nothing = {'type': None, 'uuid': None, 'mem_total': None, 'mem_used': None, 'mem_used_percent': None}
    assert machine.forked_answer(f'{START}print(json.dumps(gput.gpu_info()))') == [
        {
            'index': '0',
            'type': 'NVIDIA A100',
            'uuid': 'GPU-b',
            'mem_total': 40960,
            'mem_used': 0,
            'mem_used_percent': 0.0,
        },
        {
            'index': '1',
            'type': 'Tesla P4',
            'uuid': 'GPU-a',
            'mem_total': 8119,
            'mem_used': 7881,
            'mem_used_percent': pytest.approx(97.0686, abs=0.0001),
        },
        nothing | {'index': '2', 'type': 'NVIDIA GB10', 'uuid': 'GPU-c'},
        nothing | {'index': '3'},
    ]


def test_available_gpus(four: Machine) -> None:
    calls = {
        '': ['2', '0'],
        '20.0': ['0', '2'],
        'max_used_percent=10': ['0'],
        '95': ['0', '1', '2'],
        'limit=1': ['2'],
        'max_utilization=3.9': ['2'],
        'min_free=10**9 * 50': ['2'],
        'min_free="39GB"': ['2', '0'],
        'min_free="39GiB"': ['2'],
        'max_temperature=50': ['2'],
        'order="index"': ['0', '2'],
        'order="power"': ['2', '0'],
        'uuid=True': ['GPU-c', 'GPU-a', 'MIG-d'],
        'uuid=True, exclude=[0, "GPU-c"]': ['MIG-d'],
        'exclude=(0, 2)': [],
        'max_temperature=0': [],
    }
    text = ', '.join(f'gput.available_gpus({arguments})' for arguments in calls)
    assert four.forked_answer(f'{START}print(json.dumps([{text}]))') == list(calls.values())


def test_wrong_parameters_are_value_errors(four: Machine) -> None:
    errors = {
        'gput.available_gpus, 101': 'max_used_percent must be a percentage from 0 to 100, not 101',
        'gput.available_gpus, "20"': "max_used_percent must be a percentage from 0 to 100, not '20'",
        'gput.available_gpus, limit=0': 'limit must be a positive whole number, not 0',
        'gput.available_gpus, min_free="9"': f"min_free must be {SIZE}, not '9'",
        'gput.available_gpus, min_free=0.5': (f'min_free must be a number of bytes, or {SIZE}, not 0.5'),
        'gput.available_gpus, order="best"': "order must be index, free or power, not 'best'",
        'gput.available_gpus, exclude=[7]': (
            "exclude must be the index or UUID of a GPU (indices here: 0, 1, 2, 3), not '7'"
        ),
        'gput.claim_gpus, 0': 'n must be a positive whole number, not 0',
        'gput.claim_gpus, True': 'n must be a positive whole number, not True',
        'gput.claim_gpus, 1, seconds=0': 'seconds must be a positive number of seconds, not 0',
        'gput.claim_gpus, 1, wait_seconds=-1': 'wait_seconds must be a positive number of seconds, not -1',
    }
    text = ', '.join(f'error_of({call})' for call in errors)
    answers = four.forked_answer(f'{START}assert issubclass(ParameterError, ValueError)\nprint(json.dumps([{text}]))')
    assert answers == [['ParameterError', error] for error in errors.values()]


def test_visible_devices_limit_the_choice(four: Machine) -> None:
    text = f"""{START}
def among(value):
    os.environ['CUDA_VISIBLE_DEVICES'] = value
    return gput.available_gpus()

print(json.dumps([among(value) for value in ('2,0', '1,2', 'GPU-a', '', '-1')]))
"""
    assert four.forked_answer(text) == [['2', '0'], ['2'], ['0'], [], []]


def test_without_a_driver_there_is_nothing_and_with_a_broken_one_an_error(machine: Machine) -> None:
    text = f"""{START}
def claimed():
    with gput.claim_gpus(1, wait=True):
        pass

print(json.dumps([error_of(call) for call in (gput.gpu_info, gput.available_gpus, claimed)]))
"""
    none = 'no GPU is available\n  this machine has no GPU with a driver. See "gpu-tracker explain no-gpu-driver".'
    assert machine.forked_answer(text) == [[], [], ['GpusUnavailableError', none]]
    machine.write(gpus=[Gpu(total=GB)], fail=[Failure('nvmlInit*', 18)])
    errors = machine.forked_answer(text)
    assert [name for name, _ in errors] == ['GpuError'] * 3
    assert all('different versions (NVML code 18)' in error for _, error in errors)


def test_a_claim_holds_within_its_block_and_says_why_there_is_none(four: Machine) -> None:
    text = f"""{START}
def more():
    with gput.claim_gpus(2):
        raise AssertionError

def failing():
    with gput.claim_gpus(1) as gpus:
        raise KeyError(gpus)

answers = []
with gput.claim_gpus(1, order='index') as gpus:
    answers += [gpus, gput.available_gpus(), error_of(more)]
    with gput.claim_gpus(1, uuid=True, seconds=1000) as other:
        answers += [other, gput.available_gpus()]
answers += [gput.available_gpus(), error_of(failing), gput.available_gpus()]
try:
    more()
except AssertionError:
    answers.append(gput.available_gpus())
try:
    with gput.claim_gpus(3):
        pass
except GpusUnavailableError as error:
    answers.append([error.summary, *error.reasons])
print(json.dumps([os.getpid(), answers]))
"""
    pid, answers = four.forked_answer(text)
    in_use = REASON.format(1, '95.0')
    split = '  GPU 3 (NVIDIA Simulated GPU): in MIG mode; its MIG devices are chosen by UUID'
    claimed = f'  GPU 0 (NVIDIA Simulated GPU): claimed by {{}} (pid {pid}, -c)'
    user = answers[2][1].partition('claimed by ')[2].partition(' ')[0]
    assert answers == [
        ['0'],
        ['2'],
        ['GpusUnavailableError', f'1 GPU is available, not 2\n{claimed.format(user)}\n{in_use}\n{split}'],
        ['GPU-c'],
        [],
        ['2', '0'],
        ['KeyError', "['2']"],
        ['2', '0'],
        ['2', '0'],
        ['2 GPUs are available, not 3', in_use.strip(), split.strip()],
    ]


HOLDER = f"""{START}
with gput.claim_gpus(2) as gpus:
    print(*gpus, flush=True)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        print('child has left', flush=True)
        input()
"""


def test_a_claim_is_kept_by_a_forked_child_that_leaves_and_ends_with_a_kill(four: Machine) -> None:
    holder = [sys.executable, '-c', HOLDER]
    options = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True, 'env': four.environment()}
    with subprocess.Popen(holder, **options) as process:
        assert process.stdout.readline() == '2 0\n'
        assert process.stdout.readline() == 'child has left\n'
        assert four.told('available')[0] == 1
        assert [gpu['claim'] and gpu['claim']['pid'] for gpu in four.gpus()] == [process.pid, None, process.pid, None]
        process.send_signal(signal.SIGKILL)
        eventually(lambda: state_of(process.pid) == 'Z')
        assert four.available() == '2,0'


def test_waiting_for_a_claim(machine: Machine) -> None:
    machine.write(gpus=[Gpu(total=GB, used=GB)])
    waits = f"""{START}
def claimed(**options):
    with gput.claim_gpus(1, **options) as gpus:
        return gpus

print(json.dumps(error_of(claimed, wait_seconds=0.05)), flush=True)
print(json.dumps(claimed(wait=True)), flush=True)
"""
    options = {'stdout': subprocess.PIPE, 'text': True, 'env': machine.environment()}
    with subprocess.Popen([sys.executable, '-c', waits], **options) as process:
        reason = REASON.format(0, '100.0').replace('  GPU', r'\n  GPU')
        assert process.stdout.readline() == f'["GpusUnavailableError", "no GPU is available{reason}"]\n'
        machine.write(gpus=[Gpu(total=GB)])
        assert process.stdout.read() == '["0"]\n'
    assert os.listdir(machine.claims) == []


def test_unified_memory_is_free_while_nothing_computes_on_it(machine: Machine) -> None:
    machine.write(gpus=[Gpu(total=None, processes=[Process(NO_SUCH_PROCESS)]), Gpu(total=None)])
    text = f'{START}print(json.dumps([gput.available_gpus(), gput.available_gpus(100)]))'
    assert machine.forked_answer(text) == [['1'], ['0', '1']]


BEHIND_A_LOST_GPU = """
import json, warnings
import gpu_tracker

def warned(ask):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        return [ask(), [str(warning.message) for warning in caught]]

def claimed(**options):
    with gpu_tracker.claim_gpus(1, **options) as gpus:
        return gpus

print(json.dumps([
    warned(gpu_tracker.available_gpus),
    warned(lambda: gpu_tracker.available_gpus(uuid=True)),
    warned(claimed),
    warned(lambda: claimed(uuid=True)),
]))
"""


def test_indices_behind_a_gpu_that_cannot_be_read_are_warned_of(machine: Machine) -> None:
    machine.write(gpus=[Gpu(missing=True), Gpu(uuid='GPU-b', total=GB)])
    text = 'GPU 0 cannot be read: CUDA may count the others without it; uuid=True is certain'
    assert machine.forked_answer(BEHIND_A_LOST_GPU) == [
        [['1'], [text]],
        [['GPU-b'], []],
        [['1'], [text]],
        [['GPU-b'], []],
    ]
