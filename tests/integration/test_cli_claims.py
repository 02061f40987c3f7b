"""Claims, as people make and see them on the command line."""

from __future__ import annotations

import os
import pwd
import signal
import stat
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from support.cli_program import PROGRAM, state_of
from support.gpus.gpu_machine import GB, NOBODY, Machine, words_as_nobody
from support.simulated_nvml import Gpu, Mig
from support.tracked_program import as_root
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

USER = pwd.getpwuid(os.geteuid()).pw_name
FREE = Gpu(total=GB)
JOB = ['sh', '-c', 'echo $CUDA_VISIBLE_DEVICES; read x']
FOR_LONG = ['--claim', '--claim-seconds=10000']


pytestmark = pytest.mark.machine(gpus=[FREE, FREE])


def test_a_claim_lasts_as_long_as_its_command(machine: Machine) -> None:
    before = time.time()
    with machine.started('available', '-n', '1', '--claim', '--', *JOB, stdin=subprocess.PIPE) as job:
        assert job.stdout.readline() == '0\n'
        claimed, free = machine.gpus()
        assert machine.available() == '1'
        told = machine.told('available', '-n', '2')
        table = machine.told('gpus')[1].splitlines()
        assert job.communicate('\n') == ('', '')
    assert job.returncode == 0
    assert (claimed['status'], free['status'], free['claim']) == ('claimed', 'free', None)
    assert before <= claimed['claim'].pop('made') <= time.time()
    command = "sh -c 'echo $CUDA_VISIBLE_DEVICES; read x'"
    assert claimed['claim'] == {
        'user': USER,
        'user_id': os.geteuid(),
        'pid': job.pid,
        'in_another_container': False,
        'expires': None,
        'command': command,
    }
    reason = f'  GPU 0 (NVIDIA Simulated GPU): claimed by {USER} (pid {job.pid}, {command})\n'
    assert told == (1, '', f'gpu-tracker: 1 GPU is available, not 2\n{reason}')
    assert table[1].startswith('0    [c]')
    assert table[3:] == [f'GPU 0: claimed by {USER} (pid {job.pid}, {command})']
    assert [gpu['status'] for gpu in machine.gpus()] == ['free', 'free']


def test_a_claim_for_a_time_needs_no_process(machine: Machine) -> None:
    before = time.time()
    assert machine.available('-l', '1', *FOR_LONG) == '0'
    claim = machine.gpus()[0]['claim']
    assert before + 10000 <= claim.pop('expires') + 0.1 <= time.time() + 10000.1
    assert before <= claim.pop('made') <= time.time()
    assert claim == {'user': USER, 'user_id': os.geteuid(), 'pid': None, 'in_another_container': False, 'command': None}
    table = machine.told('gpus')[1].splitlines()
    assert table[3:] == [f'GPU 0: claimed by {USER} for another 3 h']
    told = machine.told('available', '--claim', '-n', '2', '--', 'echo', 'ran')
    reason = f'  GPU 0 (NVIDIA Simulated GPU): claimed by {USER} for another 3 h\n'
    assert told == (1, '', f'gpu-tracker: 1 GPU is available, not 2\n{reason}')
    assert machine.available('--claim', '--', 'printenv', 'CUDA_VISIBLE_DEVICES') == '1'
    assert machine.available(*FOR_LONG) == '1'


def test_a_claim_ends_by_itself_when_its_time_is_up(machine: Machine) -> None:
    assert machine.available('--claim', '--claim-seconds=1.5') == '0,1'
    code, printed, _ = machine.told('available', '-n', '2', '--wait')
    assert (code, printed) == (0, '0,1\n')
    limited = ['available', '-n', '2', '--claim', '--claim-seconds=1.5', '--', *JOB]
    with machine.started(*limited, stdin=subprocess.PIPE) as job:
        assert job.stdout.readline() == '0,1\n'
        code, printed, _ = machine.told('available', '-n', '2', '--wait')
        assert (code, printed, job.poll()) == (0, '0,1\n', None)


def test_the_claim_of_a_killed_command_is_void_even_before_it_is_reaped(machine: Machine) -> None:
    with machine.started('available', '--claim', '--', *JOB, stdin=subprocess.PIPE) as job:
        assert job.stdout.readline() == '0,1\n'
        job.send_signal(signal.SIGKILL)
        eventually(lambda: state_of(job.pid) == 'Z')
        assert machine.available() == '0,1'
        assert machine.available(*FOR_LONG) == '0,1'
    assert len(os.listdir(machine.claims)) == 1  # the void one is gone


def test_mig_devices_are_claimed_each_for_itself(machine: Machine) -> None:
    parts = [Mig(uuid=f'MIG-{letter}', gi=number, total=GB, used=0) for number, letter in enumerate('ab', 1)]
    machine.write(gpus=[Gpu(total=GB, mig=parts), FREE])
    assert machine.available('--uuid', '-n', '1', '--exclude=1', *FOR_LONG) == 'MIG-a'
    assert machine.available('--uuid', '--exclude=1') == 'MIG-b'
    split, whole = machine.gpus()
    assert [part['status'] for part in split['mig_devices']] == ['claimed', 'free']
    assert (split['claim'], whole['claim']) == (None, None)
    assert machine.told('gpus')[1].splitlines()[-1] == f'GPU 0 MIG 0: claimed by {USER} for another 3 h'


def test_a_claim_is_on_the_gpu_wherever_it_moves(machine: Machine) -> None:
    a, b = Gpu(uuid='GPU-a', pci='00000000:01:00.0', total=GB), Gpu(uuid='GPU-b', pci='00000000:02:00.0', total=GB)
    machine.write(gpus=[a, b])
    assert machine.available('-l', '1', *FOR_LONG) == '0'
    machine.write(gpus=[Gpu(uuid='GPU-new', pci='00000000:00:00.0', total=GB), a, b])
    assert machine.available('--uuid') == 'GPU-new,GPU-b'


def test_where_claims_cannot_be_kept_nothing_is_given(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / 'file'
    file.write_text('')
    told = machine.told_each(
        [f'GPU_TRACKER_CLAIMS={file}', 'available', '--claim', '--', 'echo', 'ran'],
        [f'GPU_TRACKER_CLAIMS={file}', 'available'],
        ['GPU_TRACKER_CLAIMS=here', 'available'],
        [f'GPU_TRACKER_CLAIMS={tmp_path}/no/such/folder', 'available', *FOR_LONG],
        [f'GPU_TRACKER_CLAIMS={tmp_path}/no/such/folder', 'available'],
        ['available', '--claim', '--claim-seconds=1e12'],
    )
    assert [(code, printed) for code, printed, _ in told] == [(125, '')] * 4 + [(0, '0,1\n'), (125, '')]
    errors = [errors.removeprefix('gpu-tracker: ') for _, _, errors in told]
    assert errors[0].startswith(f'GPU claims cannot be stored in {file} (a file of ')
    assert errors[1].startswith(f'GPU claims cannot be stored in {file} (a file of ')
    assert errors[2] == "GPU_TRACKER_CLAIMS must be an absolute path, not 'here'\n"
    assert errors[3].startswith(f'The folder {tmp_path}/no/such/folder for GPU claims cannot be made: ')
    assert errors[4] == ''
    assert errors[5].startswith('--claim-seconds must be above 0 and at most ')


@as_root
def test_users_respect_each_others_claims_and_those_of_root(machine: Machine) -> None:
    machine.write(gpus=[FREE, FREE, FREE])
    assert machine.available('-n', '1', *FOR_LONG) == '0'
    environment = machine.environment()
    words = words_as_nobody(*PROGRAM, 'available', '-n', '1', '--claim', '--', 'cat')
    nobody = pwd.getpwuid(NOBODY).pw_name
    with subprocess.Popen(words, stdin=subprocess.PIPE, env=environment) as job:
        eventually(lambda: machine.gpus()[1]['claim'])
        claims = [gpu['claim'] for gpu in machine.gpus()]
        assert [claim and (claim['user'], claim['user_id'], claim['pid']) for claim in claims] == [
            ('root', 0, None),
            (nobody, NOBODY, job.pid),
            None,
        ]
        assert machine.available() == '2'
        again = subprocess.run(
            words_as_nobody(*PROGRAM, 'available', '-n', '2', '--claim', '--', 'echo', 'ran'),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (again.returncode, again.stdout) == (1, '')
        assert again.stderr == (
            'gpu-tracker: 1 GPU is available, not 2\n'
            '  GPU 0 (NVIDIA Simulated GPU): claimed by root for another 3 h\n'
            f'  GPU 1 (NVIDIA Simulated GPU): claimed by {nobody} (pid {job.pid}, cat)\n'
        )
        mode = machine.claims.stat().st_mode
        assert (stat.S_ISDIR(mode), stat.S_IMODE(mode)) == (True, 0o1777)
        assert sorted(file.stat().st_uid for file in machine.claims.iterdir()) == [0, NOBODY]
        job.communicate()
    assert machine.available('--claim', '--', 'printenv', 'CUDA_VISIBLE_DEVICES') == '1,2'
