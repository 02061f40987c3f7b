"""The way of systems that have neither fork nor sigwaitinfo, taken by hiding the latter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.claims.claim_actors import tool
from support.cli_program import number_in
from support.tracked_program import as_root
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from pathlib import Path

    from support.cli_program import Marked

COMPLETE = 'Resource tracking complete. Process completed with status code: '
PROGRAM = [
    sys.executable,
    '-c',
    'import signal, sys; del signal.sigwaitinfo; from gpu_tracker.cli import main; sys.exit(main())',
]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=TIMEOUT)


@pytest.mark.parametrize(('command', 'status', 'code'), [('exit 3', 3, 3), ('kill -TERM $$', -15, 143)])
def test_a_command(command: str, status: int | str, code: int) -> None:
    ended = run('-e', f'echo one; {command}')
    assert ended.stdout.startswith('one\nMax RAM:')
    assert ended.stderr.splitlines()[-1] == f'{COMPLETE}{status}'
    assert ended.returncode == code


def test_a_command_as_words_has_the_short_report() -> None:
    ended = run('sh', '-c', 'echo one; exit 3')
    assert (ended.stdout, ended.returncode) == ('one\n', 3)
    assert ended.stderr.startswith("sh -c 'echo one; exit 3'   failed with exit code 3 after ")


@pytest.mark.parametrize(
    ('arguments', 'code', 'message'),
    [
        (['--', 'no-such-program'], 127, "cannot start 'no-such-program': No such file or directory"),
        (['--', '/etc/passwd'], 126, "cannot start '/etc/passwd': Permission denied"),
    ],
)
def test_what_cannot_be_started(arguments: list[str], code: int, message: str) -> None:
    ended = run(*arguments)
    assert ended.stderr == f'gpu-tracker: {message}\n'
    assert ended.stdout == ''
    assert ended.returncode == code


def test_a_wrong_value_is_found_before_the_command_starts(tmp_path: Path) -> None:
    ended = run('--ru=miles', '-e', f'touch {tmp_path}/ran')
    assert ended.stderr.startswith('gpu-tracker: --ru must be ')
    assert ended.returncode == 125
    assert os.listdir(tmp_path) == []


@as_root
def test_a_command_that_cannot_be_measured_runs_all_the_same() -> None:
    words = tool('unshare', '--mount', 'sh', '-c', 'umount --lazy /proc && exec "$@"', 'sh')
    ended = subprocess.run([*words, *PROGRAM, '-e', 'echo ran'], capture_output=True, text=True, check=False)
    assert ended.stdout == 'ran\n'
    assert ended.stderr == (
        'gpu-tracker: the command runs unmeasured: /proc is not mounted, so no process can be measured. '
        'Mount it: mount -t proc proc /proc. See "gpu-tracker explain proc".\n'
        'Process completed with status code: 0\n'
    )
    assert ended.returncode == 125


def test_a_request_to_end_is_passed_on(tmp_path: Path) -> None:
    command = f'echo $$ > {tmp_path}/pid; exec sleep 1000'
    with subprocess.Popen(
        [*PROGRAM, '-e', command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        number_in(tmp_path / 'pid')
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate()
    assert output.startswith('Max RAM:')
    assert errors.splitlines()[-1] == f'{COMPLETE}-15'
    assert process.returncode == 143


def ended_by_limit(*arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, object]]:
    ended = run(*arguments, '--st=0.1', '-f', 'json', '--kill-after=0.3', '-e', STUBBORN)
    assert ended.returncode == 124
    return ended, json.loads(ended.stdout)


STUBBORN = """trap '' TERM; sh -c "trap '' TERM; sleep 3600; sleep 3600" & while :; do sleep 0.2; done"""


def test_a_time_limit(marked: Marked) -> None:
    ended, usage = ended_by_limit('--time-limit=1')
    assert usage['termination_reason'] == 'time_limit'
    assert ended.stderr.startswith('gpu-tracker: --time-limit=1 was exceeded: ')
    assert ended.stderr.endswith(f'{COMPLETE}-9\n')


def test_a_limit_of_what_is_sampled(marked: Marked) -> None:
    ended, usage = ended_by_limit('--memory-limit=1MB')
    assert usage['termination_reason'] == 'memory_limit'
    assert ended.stderr.startswith('gpu-tracker: --memory-limit=1MB (1,000,000 bytes) was exceeded: ')


def test_a_limit_that_was_exceeded_after_the_last_sample() -> None:
    program = 'import sys, time\ntime.sleep(4)\nwhile time.process_time() < 0.3: pass\nsys.exit(3)'
    arguments = ('--cpu-limit=200ms', '--st=1h', '-f', 'json')
    ended = run(*arguments, '--', sys.executable, '-S', '-c', program)
    (said,) = ended.stderr.splitlines()
    assert json.loads(ended.stdout)['exceeded_limits'] == ['cpu_limit']
    assert said.startswith('gpu-tracker: --cpu-limit=200ms was exceeded: ')
    assert said.endswith(', which was seen only when the command had ended.')
    assert ended.returncode == 3


def test_a_command_within_its_limits_keeps_its_code() -> None:
    ended = run('--time-limit=1h', '--cpu-limit=1h', '-e', 'exit 3')
    assert ended.stderr == f'{COMPLETE}3\n'
    assert ended.returncode == 3
    assert 'Termination reason' not in ended.stdout
