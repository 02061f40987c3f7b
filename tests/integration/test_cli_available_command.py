"""``gpu-tracker available -- command``: the command finds everything as if gpu-tracker had not been there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.cli_program import PROGRAM, shell
from support.gpus.gpu_machine import GB, Machine
from support.simulated_nvml import Failure, Gpu, Hang, Mig
from support.tracked_program import status_of
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

BUSY = '  GPU 0 (NVIDIA Simulated GPU): 90.0 % of its memory is in use; at most 20 % may be\n'
NONE_FREE = f'no GPU is available\n{BUSY}'


pytestmark = pytest.mark.machine(
    gpus=[Gpu(total=GB), Gpu(uuid='GPU-b', total=GB, mig=[Mig(uuid='MIG-b', gi=1)]), Gpu(total=GB)]
)


@pytest.fixture
def busy(machine: Machine) -> Machine:
    machine.write(gpus=[Gpu(total=10 * GB, used=9 * GB)])
    return machine


def test_the_command_gets_the_gpus_and_keeps_its_streams_and_exit_code(machine: Machine) -> None:
    command = 'read line; echo "$line: $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER"; echo "$@" >&2; exit 7'
    told = machine.told('available', '--', 'sh', '-c', command, 'sh', '-x', 'a  b', '--', '*', stdin=None, input='in\n')
    assert told == (7, 'in: 0,2 PCI_BUS_ID\n', '-x a  b -- *\n')
    told = machine.told_each(
        ['available', '--limit=1', '--', 'printenv', 'CUDA_VISIBLE_DEVICES'],
        ['available', '-n', '3', '--uuid', '--order=power', '--', 'printenv', 'CUDA_VISIBLE_DEVICES'],
        [
            'CUDA_VISIBLE_DEVICES=2',
            'CUDA_DEVICE_ORDER=FASTEST_FIRST',
            'available',
            '--',
            'printenv',
            'CUDA_DEVICE_ORDER',
        ],
        ['available', '--', *PROGRAM, 'available', '--exclude=2'],
    )
    zero, two = 'GPU-00000000-0000-0000-0000-000000000000', 'GPU-00000000-0000-0000-0000-000000000002'
    one_mig = 'gpu-tracker: a CUDA program can use only one MIG device and no other GPU: choose one with -l 1\n'
    assert told == [(0, '0\n', ''), (0, f'{zero},MIG-b,{two}\n', one_mig), (0, 'PCI_BUS_ID\n', ''), (0, '0\n', '')]


def test_the_command_is_the_same_process_with_the_same_descriptors_and_signals(machine: Machine) -> None:
    # Of the signals only 1 to 28: posix_spawn(3) ignores 32 and 33, which the C library keeps for itself.
    signals = r"sed -n 's/^Sig\(...\):.*\(.\{7\}\)$/\1 \2/p' /proc/self/status"
    look = ['sh', '-c', f'echo $$; cd /proc/self/fd; echo *; {signals}']
    direct = subprocess.run(look, capture_output=True, text=True, check=True).stdout.splitlines()
    with machine.started('available', '--claim', '--', *look) as process:
        output, errors = process.communicate()
    assert (process.returncode, errors) == (0, '')
    process_id, descriptors, *masks = output.splitlines()
    assert (int(process_id), masks) == (process.pid, direct[2:])
    # Number 20 is the claim's file, whose lock tells other containers that the command lives.
    assert [number for number in descriptors.split() if number != '20'] == direct[1].split()
    with machine.started('available', '--', *look) as process:
        assert process.communicate() == ('\n'.join([str(process.pid), *direct[1:]]) + '\n', '')


def test_the_command_is_light(machine: Machine) -> None:
    machine.write(gpus=[Gpu(total=GB)])
    program = (
        'import sys\nfrom gpu_tracker.cli import main\nmain(["available"])\n'
        'print([name for name in ("dataclasses", "psutil", "rich", "inspect") if name in sys.modules])'
    )
    run = subprocess.run(
        [sys.executable, '-c', program], env=machine.environment(), capture_output=True, text=True, check=True
    )
    assert run.stdout == '0\n[]\n'


def test_a_signal_reaches_the_command(machine: Machine) -> None:
    with machine.started('available', '--claim', '--', 'sh', '-c', 'echo runs; exec sleep 1000') as process:
        assert process.stdout.readline() == 'runs\n'
        process.terminate()
        assert process.communicate() == ('', '')
    assert process.returncode == -signal.SIGTERM


def test_ctrl_c_reaches_the_command(machine: Machine) -> None:
    with machine.terminal('available', '--', 'sh', '-c', 'trap "echo over; exit 9" INT; echo runs; read x') as terminal:
        eventually(lambda: 'runs\n' in terminal.shown)
        terminal.press('\x03')
        assert terminal.wait() == 9
        assert terminal.shown == 'runs\n^Cover\n'


def test_a_script_without_an_interpreter_goes_to_the_shell(machine: Machine, tmp_path: Path) -> None:
    script = tmp_path / 'job'
    script.write_text('echo "$1 $CUDA_VISIBLE_DEVICES"\n')
    script.chmod(0o755)
    assert machine.told('available', '-l', '1', '--', str(script), 'on') == (0, 'on 0\n', '')


def test_a_command_that_cannot_be_started_is_told_of_before_a_gpu_is_claimed(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / 'text').write_text('text')
    told = machine.told_each(
        ['available', '--claim', '--', 'no-such-program', '-x'],
        ['available', '--claim', '--', f'{tmp_path}/text'],
        ['available', '--claim', '--', str(tmp_path)],
    )
    start = 'gpu-tracker: cannot start '
    assert told == [
        (127, '', f"{start}'no-such-program': No such file or directory\n"),
        (126, '', f"{start}'{tmp_path}/text': Permission denied\n"),
        (126, '', f"""{start}'{tmp_path}': it is a folder. See "gpu-tracker explain not-started".\n"""),
    ]
    assert machine.driver.calls() == []
    assert not machine.claims.exists()


def test_a_claim_is_given_back_where_the_command_turns_out_to_be_no_program(machine: Machine, tmp_path: Path) -> None:
    damaged = tmp_path / 'damaged'
    damaged.write_bytes(b'\x7fELF\0')
    damaged.chmod(0o755)
    code, printed, errors = machine.told('available', '--claim', '--', str(damaged))
    assert (code, printed) == (126, '')
    assert errors == f"gpu-tracker: cannot start '{damaged}': Exec format error\n"
    assert os.listdir(machine.claims) == []


@pytest.mark.parametrize(
    ('redirection', 'end'),
    [
        ('> /dev/full', (125, 'gpu-tracker: cannot write to standard output: No space left on device\n')),
        ('>&-', (125, 'gpu-tracker: cannot write to standard output: it is closed\n')),
        ('> >(:)', (128 + signal.SIGPIPE, '')),
    ],
)
def test_a_claim_that_cannot_be_told_is_given_back(machine: Machine, redirection: str, end: tuple[int, str]) -> None:
    machine.write(gpus=[Gpu(total=GB)])
    # The reader of the pipe has ended when the one who writes into it starts.
    script = f'exec {redirection}; wait $!; exec "$@"' if '(' in redirection else f'exec "$@" {redirection}'
    run = shell(script, 'available', '--claim', '--claim-seconds=1000', env=machine.environment())
    assert run.stdout == ''
    assert (run.returncode, run.stderr) == end
    assert os.listdir(machine.claims) == []


def test_a_command_behind_a_lost_gpu_gets_uuids(machine: Machine) -> None:
    machine.write(gpus=[Gpu(total=GB, missing=True), Gpu(uuid='GPU-b', total=GB), Gpu(total=GB, missing=True)])
    told = machine.told_each(
        ['available', '--', 'printenv', 'CUDA_VISIBLE_DEVICES'],
        ['available', '--uuid', '--', 'printenv', 'CUDA_VISIBLE_DEVICES'],
        ['available'],
    )
    lost = 'gpu-tracker: GPU 0 cannot be read, so '
    assert told == [
        (0, 'GPU-b\n', f'{lost}CUDA may number the GPUs differently: CUDA_VISIBLE_DEVICES is set to UUIDs\n'),
        (0, 'GPU-b\n', ''),
        (0, '1\n', f'{lost}CUDA may number the remaining GPUs differently: use --uuid\n'),
    ]


def test_who_is_killed_before_the_gpus_are_told_has_claimed_nothing(machine: Machine) -> None:
    machine.write(gpus=[Gpu(total=GB)], hang=[Hang('nvmlDeviceGetName')])
    with machine.started('available', '--claim', '--claim-seconds=1000') as process:
        eventually(lambda: 'nvmlDeviceGetUUID' in machine.driver.calls())
        # This look goes on, so slowly that there is another one after the claim, which never ends.
        slow, endless = Hang('nvmlDeviceGetMemoryInfo*', 1.1), Hang('nvmlDeviceGetHandleByIndex*')
        machine.write(gpus=[Gpu(total=GB)], hang=[slow, endless])
        eventually(lambda: machine.claims.exists() and any(n.endswith('.json') for n in os.listdir(machine.claims)))
        process.kill()
        process.wait()
    machine.write(gpus=[Gpu(total=GB)])
    assert machine.available() == '0'


def test_a_driver_that_fails_after_the_claim_leaves_none(machine: Machine) -> None:
    slow = [Hang('nvmlDeviceGetName', 1.1)]
    failing = [Failure('nvmlDeviceGetCount*', 999, after=2)]  # at the opening, at the first look, and then no more
    machine.write(gpus=[Gpu(total=GB)], hang=slow, fail=failing)
    code, printed, errors = machine.told('available', '--claim', '--claim-seconds=1000')
    assert (code, printed) == (125, '')
    assert errors.startswith('gpu-tracker: The NVIDIA driver could not be initialized')
    assert os.listdir(machine.claims) == []


def test_waiting_goes_on_until_the_wish_is_met(busy: Machine) -> None:
    with busy.started('available', '--wait') as process:
        waiting = process.stderr.readline() + process.stderr.readline()
        assert waiting == f'gpu-tracker: waiting: {NONE_FREE}'
        busy.write(gpus=[Gpu(total=10 * GB, used=GB)])
        assert process.communicate() == ('0\n', '')
    assert process.returncode == 0


def test_waiting_for_more_than_there_are_yet(machine: Machine) -> None:
    machine.write(gpus=[Gpu(total=10 * GB, used=9 * GB), Gpu(total=GB)])
    with machine.started(
        'available', '-n', '2', '--wait-seconds=60', '--', 'printenv', 'CUDA_VISIBLE_DEVICES'
    ) as process:
        waiting = process.stderr.readline() + process.stderr.readline()
        assert waiting == f'gpu-tracker: waiting: 1 GPU is available, not 2\n{BUSY}'
        machine.write(gpus=[Gpu(total=10 * GB), Gpu(total=GB)])
        assert process.communicate() == ('0,1\n', '')
    assert process.returncode == 0


def test_waiting_ends_when_its_time_is_up(busy: Machine) -> None:
    # The first look, after which it is said that this waits, may take a second of them.
    told = busy.told('available', '--wait-seconds=3', '--', 'echo', 'ran')
    assert told == (1, '', f'gpu-tracker: waiting: {NONE_FREE}gpu-tracker: {NONE_FREE}')


def test_ctrl_c_ends_waiting(busy: Machine) -> None:
    with busy.terminal('available', '--wait', '--claim', '--', 'echo', 'ran') as terminal:
        eventually(lambda: 'at most 20 % may be\n' in terminal.shown)
        terminal.press('\x03')
        assert terminal.wait() == -signal.SIGINT
        assert terminal.shown == f'gpu-tracker: waiting: {NONE_FREE}^C'


def test_a_driver_that_fails_while_waiting_ends_it(busy: Machine) -> None:
    with busy.started('available', '--wait') as process:
        process.stderr.readline()
        process.stderr.readline()
        busy.write(gpus=[Gpu(total=10 * GB)], fail=[Failure('nvmlDeviceGetCount*', 999)])
        output, errors = process.communicate()
    assert (process.returncode, output) == (125, '')
    assert errors == (
        'gpu-tracker: The NVIDIA driver could not be initialized: it reports an unknown error (NVML code 999), as '
        'after a suspend or a crash of the driver. GPU figures are unknown. '
        'See "gpu-tracker explain driver-fails".\n'
    )


def test_ctrl_c_ends_a_look_at_a_driver_that_hangs(machine: Machine) -> None:
    machine.write(gpus=[Gpu(total=GB)], hang=[Hang('nvmlDeviceGetMemoryInfo*'), Hang('nvmlShutdown')])
    with machine.terminal('available') as terminal:
        eventually(lambda: 'nvmlDeviceGetName' in machine.driver.calls())
        assert status_of(terminal.process.pid, 'Threads') == 2
        terminal.press('\x03')
        assert terminal.wait() == -signal.SIGINT
        assert terminal.shown == '^C'


HANGING = """
from gpu_tracker.errors import GpuError
from gpu_tracker.gpus.inventory import Inventory

inventory = Inventory(timeout=0.2)
try:
    inventory.read()
except GpuError as error:
    print(error, error.cause)
inventory.close()
"""


@pytest.mark.parametrize('where', ['nvmlInit*', 'nvmlDeviceGetMemoryInfo*'])
def test_a_driver_that_hangs_is_not_waited_for_for_ever(machine: Machine, where: str) -> None:
    machine.write(gpus=[Gpu(total=GB)], hang=[Hang(where), Hang('nvmlShutdown')])
    run = subprocess.run(
        [sys.executable, '-c', HANGING], env=machine.environment(), capture_output=True, text=True, check=True
    )
    assert run.stdout == 'The driver of NVIDIA GPUs has not answered for 0.2 seconds. timeout\n'
