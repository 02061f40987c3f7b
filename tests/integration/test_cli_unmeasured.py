"""A command that cannot be measured runs all the same, with one warning; wrong options still keep it from running."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.claims.claim_actors import tool
from support.cli_program import PROGRAM, gpu_tracker
from support.forbidden_calls import words_before
from support.gpus.gpu_machine import words_as
from support.tracked_program import as_root
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from pathlib import Path

UNMEASURED = 'gpu-tracker: the command runs unmeasured: '
COMPLETED = 'Process completed with status code: '
COMPLETE = f'Resource tracking complete. {COMPLETED}'
USER = 54_330
"""Nobody; a limit on processes counts all that a user has."""
TOO_MANY_FILES = 'The sampler could not be started: [Errno 24] Too many open files'


def behind(words: tuple[str, ...] | list[str], *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run gpu-tracker behind ``words``, with N in place of process IDs in what it says."""
    finished = subprocess.run(
        [*words, *PROGRAM, *arguments], capture_output=True, text=True, timeout=TIMEOUT, check=False, **options
    )
    finished.stderr = re.sub(r'(this process, |as )\d+', r'\1N', finished.stderr)
    return finished


def limited(option: str) -> list[str]:
    """Return what stands before the words of a program to set a limit of a shell for it."""
    return ['/bin/bash', '-c', f'ulimit {option}; exec "$@"', 'bash']


def without_proc() -> tuple[str, ...]:
    return tool('unshare', '--mount', 'sh', '-c', 'umount --lazy /proc && exec "$@"', 'sh')


@pytest.mark.parametrize(('command', 'status', 'code'), [('echo ran', 0, 125), ('echo ran; kill $$', -15, 143)])
def test_it_keeps_its_exit_code_but_a_missing_report_is_no_success(command: str, status: int, code: int):
    finished = behind(limited('-n 10'), '-e', command)
    assert finished.stdout == 'ran\n'
    assert finished.stderr == f'{UNMEASURED}{TOO_MANY_FILES}\n{COMPLETED}{status}\n'
    assert finished.returncode == code


@as_root
def test_in_a_pid_namespace_with_an_older_proc():
    finished = behind(tool('unshare', '--pid', '--fork'), '-e', 'echo ran')
    assert finished.stdout == 'ran\n'
    assert finished.stderr == (
        f'{UNMEASURED}/proc is that of another PID namespace: it has this process, N, as N. '
        'Mount one of this namespace over it, as unshare --mount-proc does: mount -t proc proc /proc. '
        'See "gpu-tracker explain proc".\n'
        f'{COMPLETED}0\n'
    )
    assert finished.returncode == 125


@as_root
def test_without_proc():
    finished = behind(without_proc(), '-e', 'echo ran; exit 4')
    assert finished.stdout == 'ran\n'
    assert finished.stderr == (
        f'{UNMEASURED}/proc is not mounted, so no process can be measured. Mount it: mount -t proc proc /proc. '
        'See "gpu-tracker explain proc".\n'
        f'{COMPLETED}4\n'
    )
    assert finished.returncode == 4


@as_root
def test_a_running_process_without_proc_is_a_clear_error():
    finished = behind(without_proc(), '--pid', str(os.getpid()))
    assert finished.stderr == (
        'gpu-tracker: /proc is not mounted, so no process can be measured. Mount it: mount -t proc proc /proc. '
        'See "gpu-tracker explain proc".\n'
    )
    assert finished.returncode == 125


@pytest.mark.parametrize('limit', [8, 12])
def test_with_few_open_files(limit: int):
    finished = behind(limited(f'-n {limit}'), '-e', 'echo ran; ulimit -n; sleep 0.2')
    assert finished.stdout == f'ran\n{limit}\n'
    assert finished.stderr == f'{UNMEASURED}{TOO_MANY_FILES}\n{COMPLETED}0\n'


def test_with_20_open_files_it_is_measured():
    finished = behind(limited('-n 20'), '-e', 'echo ran; ulimit -n; sleep 0.2')
    assert finished.stdout.startswith('ran\n20\nMax RAM:')
    assert finished.stderr == f'{COMPLETE}0\n'
    assert finished.returncode == 0


def test_a_limit_that_may_be_raised_is_raised_for_the_measuring_alone():
    finished = behind(limited('-S -n 8'), '-e', 'echo ran; ulimit -S -n; sleep 0.2')
    assert finished.stdout.startswith('ran\n8\nMax RAM:')
    assert finished.stderr == f'{COMPLETE}0\n'
    assert finished.returncode == 0


@pytest.mark.parametrize('kibibytes', [0, 4])
def test_with_no_large_file_it_is_measured(kibibytes: int):
    finished = behind(limited(f'-f {kibibytes}'), '-e', 'echo ran; sleep 0.2')
    assert finished.stdout.startswith('ran\nMax RAM:')
    assert finished.stderr == f'{COMPLETE}0\n'
    assert finished.returncode == 0


def test_a_command_of_more_words_than_a_pipe_holds_is_measured():
    words = [str(number) for number in range(100_000)]
    finished = gpu_tracker('--sections=io', '-f', 'text', '--', 'sh', '-c', 'echo $#; sleep 0.2', 'sh', *words)
    assert finished.stdout.startswith('100000\nMax RAM:')
    assert finished.stderr == ''


@as_root
def test_with_a_full_disk_and_no_memfd_it_is_measured(tmp_path: Path):
    words = tool('unshare', '--mount', 'sh', '-c', f'mount -t tmpfs -o size=4k none {tmp_path} && exec "$@"', 'sh')
    finished = behind(
        (*words, *words_before('memfd_create')), '-e', 'echo ran; sleep 0.2', env=os.environ | {'TMPDIR': str(tmp_path)}
    )
    assert finished.stdout.startswith('ran\nMax RAM:')
    assert finished.stderr == f'{COMPLETE}0\n'


@as_root  # to become a user whom a limit on processes holds
def test_with_no_process_left_for_the_sampler():
    finished = behind(words_as(USER, *tool('prlimit', '--nproc=2')), '-e', 'echo ran; exit 3')
    assert finished.stdout == 'ran\n'
    assert finished.stderr.startswith(f'{UNMEASURED}The sampler could not be started: [Errno 11] Resource temporarily')
    assert finished.stderr.endswith(f'\n{COMPLETED}3\n')
    assert finished.returncode == 3


SHOW_SIGNALS = """
from pathlib import Path
for line in Path('/proc/self/status').read_text().splitlines():
    if line.startswith(('SigBlk', 'SigIgn')):
        print(line)
"""


@as_root
@pytest.mark.parametrize('before', ['', 'trap "" CHLD; '])
def test_with_no_process_left_for_the_command_it_takes_the_place_of_ours(before: str):
    def shown(*words: str) -> subprocess.CompletedProcess[str]:
        shell = ['/bin/sh', '-c', f'{before}exec "$@"', 'sh']
        return subprocess.run([*shell, *words], capture_output=True, text=True, timeout=TIMEOUT, check=False)

    command = ('/usr/bin/env', sys.executable, '-S', '-c', SHOW_SIGNALS)
    few = words_as(USER + 1, *tool('prlimit', '--nproc=1'))
    finished = shown(*few, *PROGRAM, '--', *command)
    assert finished.stdout == shown(*command).stdout
    assert finished.stderr == (
        f'{UNMEASURED}cannot start the process that measures: Resource temporarily unavailable\n'
    )
    assert finished.returncode == 0


@as_root
def test_limits_are_not_kept_where_the_command_takes_our_place():
    few = words_as(USER + 3, *tool('prlimit', '--nproc=1'))
    finished = behind(few, '--time-limit=1h', '--memory-limit=1GB', '--', 'echo', 'ran')
    assert finished.stdout == 'ran\n'
    assert finished.stderr == (
        f'{UNMEASURED}cannot start the process that measures: Resource temporarily unavailable\n'
        'gpu-tracker: --time-limit and --memory-limit cannot be kept: the command runs unmeasured\n'
    )


@as_root
def test_a_wrong_value_is_found_also_where_the_command_would_take_our_place(tmp_path: Path):
    few = words_as(USER + 2, *tool('prlimit', '--nproc=1'))
    finished = behind(few, '--ru=miles', '--', 'touch', str(tmp_path / 'ran'))
    assert finished.stderr.startswith('gpu-tracker: --ru must be ')
    assert finished.returncode == 125
    assert os.listdir(tmp_path) == []


def test_wrong_options_and_unknown_gpus_still_keep_it_from_running(tmp_path: Path):
    command = ('--', 'touch', str(tmp_path / 'ran'))
    for wrong in ('--format=xml', '--gb=brand'):
        assert behind(limited('-n 10'), wrong, *command).returncode == 125
    assert gpu_tracker('--guuids=GPU-unknown', *command).returncode == 125
    assert os.listdir(tmp_path) == []


def test_an_old_report_stays_and_no_new_one_comes(tmp_path: Path):
    (tmp_path / 'old').write_text('as it was\n')
    for name in ('old', 'new'):
        assert behind(limited('-n 10'), '-o', str(tmp_path / name), '--', 'true').returncode == 125
    assert (tmp_path / 'old').read_text() == 'as it was\n'
    assert os.listdir(tmp_path) == ['old']


def test_without_warnings_the_reason_is_still_given():
    finished = behind(limited('-n 10'), '--disable-logs', '--', 'true')
    assert finished.stderr == f'{UNMEASURED}{TOO_MANY_FILES}\n'


def test_signals_reach_it(tmp_path: Path):
    ready = tmp_path / 'ready'
    command = f'trap "exit 7" TERM; mkdir {ready}; while :; do sleep 0.01; done'
    with subprocess.Popen(
        [*limited('-n 10'), *PROGRAM, '-e', command], stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            eventually(ready.exists)
            process.send_signal(signal.SIGTERM)
            errors = process.communicate(timeout=TIMEOUT)[1]
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert errors == f'{UNMEASURED}{TOO_MANY_FILES}\n{COMPLETED}7\n'
    assert process.returncode == 7
