"""``gpu-tracker gpus``, short ``gpu-tracker ls``: the table, and the same as JSON."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from gpu_tracker.gpus.table_cells import ago
from support.cli_program import PROGRAM, called
from support.gpus.gpu_machine import GB, NO_SUCH_PROCESS, NOBODY, Machine, running, sees_all_processes
from support.simulated_nvml import Failure, Gpu, Mig, Process
from support.tracked_program import as_root

if TYPE_CHECKING:
    from pathlib import Path

USER = pwd.getpwuid(os.geteuid()).pw_name
A100 = 'NVIDIA A100-SXM4-40GB'
IDLE = Gpu(uuid='GPU-a', name=A100, total=40 * GB, used=GB, temperature=31, sm_clock=210, power=52_300)

TABLE = """\
GPU       type            util  memory GB  temp   MHz  power  users  since  pids     command
0    [ ]  A100-SXM4-40GB    0%   1.0/40.0  31°C   210    52W
1    [!]  A100-SXM4-40GB   97%  38.0/40.0  64°C  1410   288W  ?      N/A    4194304  N/A
2    [!]  Simulated GPU     0%        N/A   N/A   N/A    N/A  N/A    N/A    N/A      N/A
3    [ ]  Simulated GPU     0%        N/A   N/A   N/A    N/A
4    [-]  A100-SXM4-40GB   N/A   9.0/80.0  44°C   N/A    N/A
4:0  [!]  MIG 3g.20gb      N/A   9.0/20.0                     ?      N/A    4194304  N/A
4:1  [ ]  MIG 1g.10gb      N/A   0.0/10.0
5    [x]  lost: fallen off the bus or otherwise out of reach (NVML code 15)
6    [x]  may not be read by this user (NVML code 4)
7    [x]  lost: fallen off the bus or otherwise out of reach (NVML code 15)
"""


@pytest.fixture
def eight(machine: Machine) -> Machine:
    machine.write(
        gpus=[
            IDLE,
            Gpu(
                name=A100,
                total=40 * GB,
                used=38 * GB,
                util=97,
                temperature=64,
                sm_clock=1410,
                power=287_900,
                processes=[Process(NO_SUCH_PROCESS, memory=37 * GB)],
            ),
            Gpu(total=None),
            Gpu(total=0),
            Gpu(
                name=A100,
                total=80 * GB,
                used=9 * GB,
                temperature=44,
                mig=[
                    Mig(uuid='MIG-4-0', gi=1, name=f'{A100} MIG 3g.20gb', total=20 * GB, used=9 * GB),
                    Mig(uuid='MIG-4-1', gi=2, name=f'{A100} MIG 1g.10gb', total=10 * GB, used=0),
                ],
                processes=[Process(NO_SUCH_PROCESS, memory=9 * GB, gi=1, ci=0)],
            ),
            Gpu(missing=True),
            Gpu(),
            Gpu(total=GB),
        ],
        fail=[
            Failure('nvmlDeviceGet*RunningProcesses*', 3, gpu=2),
            Failure('nvmlDevice*', 4, gpu=6),
            Failure('nvmlDeviceGetMemoryInfo*', 15, gpu=7),
        ],
    )
    return machine


def cells(line: str) -> list[str]:
    """Return what stands in the columns of a line of the table: two blanks at least are between two of them."""
    return [cell.strip() for cell in line.split('  ') if cell.strip()]


def test_the_table(eight: Machine) -> None:
    code, printed, errors = eight.told('gpus')
    assert printed == TABLE
    assert (code, errors) == (0, '')


def ages_since(begun: float) -> set[str]:
    """Return what may be said of the age of a process that has been started since, in monotonic seconds."""
    return {ago(second) for second in range(int(time.monotonic() - begun) + 2)}


@sees_all_processes
def test_processes_have_their_users_ages_and_commands(machine: Machine) -> None:
    begun = time.monotonic()
    with running() as cat, running('sh', '-c', 'read x', 'train.py', '-v') as train:
        machine.write(
            gpus=[
                Gpu(
                    total=10 * GB,
                    used=9 * GB,
                    processes=[Process(cat, memory=GB), Process(train, memory=None, types='G')],
                )
            ]
        )
        table = machine.told('ls')[1].splitlines()
        ages = ages_since(begun)
        (gpu,) = machine.gpus()
        started = [psutil.Process(pid).create_time() for pid in (cat, train)]
    pids = [str(pid) for pid in sorted((cat, train))]
    commands = ['cat', 'train.py'] if cat < train else ['train.py', 'cat']
    row = ['0', '[~]', 'Simulated GPU', '0%', '9.0/10.0', 'N/A', 'N/A', 'N/A']
    *left, since, listed, command = cells(table[1])
    listed_with_percent = ','.join(f'{pid} 0%' for pid in pids)
    assert (left, listed, command) == ([*row, USER], listed_with_percent, ', '.join(commands))
    assert since in ages
    assert gpu['status'] == 'in_use'
    processes = {process['pid']: process for process in gpu['processes']}
    assert [processes[cat].pop('started'), processes[train].pop('started')] == pytest.approx(started, abs=1)
    assert processes == {
        cat: {
            'pid': cat,
            'user': USER,
            'command': 'cat',
            'program': 'cat',
            'memory_bytes': GB,
            'utilization_percent': 0,
            'computes': True,
        },
        train: {
            'pid': train,
            'user': USER,
            'command': "sh -c 'read x' train.py -v",
            'program': 'train.py',
            'memory_bytes': None,
            'utilization_percent': 0,
            'computes': False,
        },
    }


@as_root
@sees_all_processes
def test_processes_of_another_user(machine: Machine) -> None:
    begun = time.monotonic()
    with running(user=NOBODY, group=NOBODY, extra_groups=[]) as other:
        listed = [Process(other, memory=GB), Process(NO_SUCH_PROCESS, memory=GB)]
        machine.write(gpus=[Gpu(total=GB, used=GB, processes=listed[:1]), Gpu(total=GB, used=GB, processes=listed)])
        rows = machine.told('ls')[1].splitlines()
    name = pwd.getpwuid(NOBODY).pw_name
    since = cells(rows[1])[-3]
    assert since in ages_since(begun)
    assert [cells(row)[-4:] for row in rows[1:]] == [
        [name, since, str(other), 'cat'],
        [f'{name},?', since, f'{other} 0%,{NO_SUCH_PROCESS} 0%', 'cat'],
    ]
    assert [cells(row)[1] for row in rows[1:]] == ['[~]', '[!]']  # where one cannot be seen there may be others


@as_root
def test_in_a_container_process_ids_of_the_driver_are_nobody_s(machine: Machine) -> None:
    machine.write(gpus=[Gpu(total=GB, used=GB, processes=[Process(1, memory=GB)])])
    words = ['unshare', '--pid', '--fork', '--mount-proc', *PROGRAM, 'gpus']
    run = subprocess.run(words, env=machine.environment(), capture_output=True, text=True, check=True)
    assert cells(run.stdout.splitlines()[1])[-4:] == ['?', 'N/A', '1', 'N/A']


def test_json_has_all_that_the_table_has(eight: Machine) -> None:
    before = time.time()
    code, printed, errors = eight.told('gpus', '--json')
    assert (code, errors) == (0, '')
    seen = json.loads(printed)
    assert list(seen) == ['hostname', 'time', 'driver_problem', 'claims_problem', 'gpus']
    assert seen['hostname'] == os.uname().nodename
    assert before <= seen['time'] <= time.time()
    gpus = seen['gpus']
    assert [(gpu['index'], gpu['status'], gpu['problem']) for gpu in gpus] == [
        (0, 'free', None),
        (1, 'in_use_unseen', None),
        (2, 'in_use_unseen', None),
        (3, 'free', None),
        (4, 'split', None),
        (5, 'unreadable', 'lost: fallen off the bus or otherwise out of reach (NVML code 15)'),
        (6, 'unreadable', 'may not be read by this user (NVML code 4)'),
        (7, 'unreadable', 'lost: fallen off the bus or otherwise out of reach (NVML code 15)'),
    ]
    assert [gpu['processes'] for gpu in gpus[:4]] == [[], gpus[1]['processes'], None, []]
    assert gpus[1] == {
        'index': 1,
        'vendor': 'nvidia',
        'uuid': 'GPU-00000000-0000-0000-0000-000000000001',
        'pci_bus_id': '00000000:02:00.0',
        'type': A100,
        'status': 'in_use_unseen',
        'problem': None,
        'utilization_percent': 97.0,
        'memory_total_bytes': 40 * GB,
        'memory_used_bytes': 38 * GB,
        'memory_free_bytes': 2 * GB,
        'temperature_celsius': 64.0,
        'sm_clock_hertz': 1_410_000_000,
        'power_watts': 287.9,
        'power_limit_watts': None,
        'health': dict.fromkeys(gpus[1]['health']),
        'activity': None,
        'processes': [
            {
                'pid': NO_SUCH_PROCESS,
                'user': None,
                'command': None,
                'program': None,
                'started': None,
                'memory_bytes': 37 * GB,
                'utilization_percent': 0,
                'computes': True,
            }
        ],
        'claim': None,
        'mig_devices': None,
    }
    assert [(part['index'], part['uuid'], part['status']) for part in gpus[4]['mig_devices']] == [
        (0, 'MIG-4-0', 'in_use_unseen'),
        (1, 'MIG-4-1', 'free'),
    ]


def test_a_machine_without_a_gpu(machine: Machine, tmp_path: Path) -> None:
    no_driver = (
        'gpu-tracker: no GPU driver is installed or loaded on this machine. See "gpu-tracker explain no-gpu-driver".\n'
    )
    assert machine.told('gpus') == (0, '', no_driver)
    code, printed, errors = machine.told('ls', '--json')
    assert (code, json.loads(printed)['gpus'], errors) == (0, [], no_driver)
    (tmp_path / 'libnvidia-ml.so.1').write_text('')
    assert machine.told('gpus', env={'LD_LIBRARY_PATH': str(tmp_path)}) == (0, '', no_driver)
    machine.write(gpus=[])
    assert machine.told('gpus') == (0, '', 'gpu-tracker: this machine has a GPU driver and no GPU\n')


def test_driver_trouble(machine: Machine) -> None:
    machine.write(gpus=[Gpu(total=GB)], fail=[Failure('nvmlInit*', 999)])
    for arguments in (['gpus'], ['gpus', '--json'], ['ls', '--watch']):
        code, printed, errors = machine.told(*arguments)
        assert (code, printed) == (125, '')
        assert errors.startswith('gpu-tracker: The NVIDIA driver could not be initialized')


def test_wrong_arguments_are_named() -> None:
    words = (
        ['gpus', '--interval=0'],
        ['ls', '--interval=often'],
        ['gpus', '--interval=inf'],
        ['ls', '--colour'],
        ['gpus', '0'],
        ['ls', '--json=yes'],
    )
    seconds = '--interval must be a positive number of seconds, not'
    told = [called(*arguments) for arguments in words]
    assert [(one.returncode, one.stdout) for one in told] == [(125, '')] * 6
    assert [one.stderr.removeprefix('gpu-tracker: ') for one in told] == [
        f"{seconds} '0'\n",
        f"{seconds} 'often'\n",
        f"{seconds} 'inf'\n",
        "unknown option --colour: did you mean --no-color?\nTry 'gpu-tracker ls --help'.\n",
        (
            'these arguments do not fit. Usage:\n  gpu-tracker gpus [options]\n  gpu-tracker ls [options]\n'
            "Try 'gpu-tracker gpus --help'.\n"
        ),
        "--json takes no value\nTry 'gpu-tracker ls --help'.\n",
    ]
    assert called('ls', '--help').stdout.startswith('Shows the GPUs of this machine')


def test_a_failed_write_is_told(machine: Machine) -> None:
    machine.write(gpus=[IDLE])
    with open('/dev/full', 'w') as full:
        told = machine.told('gpus', stdout=full)
        assert (told[0], told[2]) == (125, 'gpu-tracker: cannot write to standard output: No space left on device\n')


def test_claims_that_cannot_be_read_leave_it_open_which_gpus_are_free(machine: Machine) -> None:
    machine.write(gpus=[IDLE])
    machine.claims.write_text('')
    problem = f'GPU claims cannot be stored in {machine.claims} (a file'
    code, printed, errors = machine.told('gpus')
    assert (code, len(printed.splitlines())) == (0, 2)
    assert printed.splitlines()[1].startswith('0    [?]  ')
    assert errors.startswith(f'gpu-tracker: claims are not known: {problem}')
    code, printed, errors = machine.told('gpus', '--json')
    assert json.loads(printed)['claims_problem'].startswith(problem)
    assert json.loads(printed)['gpus'][0]['status'] == 'unknown'
    assert errors.startswith(f'gpu-tracker: claims are not known: {problem}')
    code, printed, errors = machine.told('available')
    assert (code, printed) == (125, '')
    assert errors.startswith(f'gpu-tracker: {problem}')
