"""What happens to the command, its exit code and the report where a part of gpu-tracker itself fails."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.processes import SAMPLER_MARK
from support.cli_program import Marked, number_in, started, text_of
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

COMPLETE = 'Resource tracking complete. Process completed with status code: '


def broken(fault: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run gpu-tracker after the statements ``fault``, in which ``fail(error)`` makes a function that raises it."""
    program = (
        'import sys\n'
        'from gpu_tracker import errors\n'
        'from gpu_tracker.result import formats\n'
        'from gpu_tracker.running.run import Run\n'
        'from gpu_tracker.cli import main\n'
        'from gpu_tracker.running import supervise\n'
        'def fail(error):\n'
        '    def function(*_, **__):\n'
        '        raise error\n'
        '    return function\n'
        f'{fault}\n'
        'sys.exit(main())\n'
    )
    return subprocess.run([sys.executable, '-c', program, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ('error', 'text'),
    [
        ("errors.SamplerError('no sampler today')", 'no sampler today'),
        ("ValueError('surprise')", 'internal error: ValueError: surprise'),
    ],
)
def test_a_tracker_that_does_not_start_costs_the_report_and_not_the_run(tmp_path: Path, error: str, text: str) -> None:
    fault = f'Run.start = fail({error})'
    run = broken(fault, '-o', str(tmp_path / 'report'), '--', 'touch', str(tmp_path / 'ran'))
    assert run.stderr == f'gpu-tracker: the command runs unmeasured: {text}\n'
    assert run.stdout == ''
    assert run.returncode == 125
    assert os.listdir(tmp_path) == ['ran']


def test_ctrl_c_while_the_tracker_starts_is_no_traceback_and_nothing_runs(tmp_path: Path) -> None:
    run = broken('Run.start = fail(KeyboardInterrupt())', '--', 'touch', str(tmp_path / 'ran'))
    assert run.stderr == ''
    assert run.returncode == -signal.SIGINT
    assert os.listdir(tmp_path) == []


def test_a_running_command_is_not_abandoned_where_the_waiting_fails() -> None:
    run = broken("supervise.wait_for_end = fail(OSError('surprise'))", '-e', 'sleep 0.1; echo done; exit 3')
    assert run.stdout.startswith('done\nMax RAM:')
    assert run.stderr == f'gpu-tracker: internal error: OSError: surprise\n{COMPLETE}3\n'
    assert run.returncode == 3


@pytest.mark.parametrize(
    ('fault', 'text', 'code'),
    [
        ("Run.stop = fail(errors.SamplerError('it is gone'))", 'it is gone', 125),
        (
            "Run.stop = fail(ValueError('surprise'))",
            'internal error: ValueError: surprise',
            3,
        ),
        (
            "Run.settle_command = fail(ValueError('surprise'))",
            'internal error: ValueError: surprise',
            125,
        ),
        ("formats.as_text = fail(ValueError('surprise'))", 'internal error: ValueError: surprise', 3),
    ],
)
def test_the_exit_code_of_the_command_survives_a_lost_result(fault: str, text: str, code: int) -> None:
    run = broken(fault, '-e', f'sleep 0.2; exit {code % 125}')
    assert sorted(run.stderr.splitlines()) == sorted([f'{COMPLETE}{code % 125}', f'gpu-tracker: {text}'])
    assert run.stdout == ''
    assert run.returncode == code


def test_a_sampler_that_is_killed_costs_neither_the_exit_code_nor_what_was_measured(tmp_path: Path) -> None:
    marked = Marked()
    command = f'echo $$ > {tmp_path}/pid; read line; exit 3'
    with started('-e', command, stdin=subprocess.PIPE, env=marked.environment) as process:
        number_in(tmp_path / 'pid')
        # The launcher is the one that was started here; the other process of ours is the sampler.
        (sampler,) = eventually(lambda: [pid for pid in marked.processes('gpu_tracker') if pid != process.pid])
        os.kill(sampler, signal.SIGKILL)
        eventually(lambda: sampler not in marked.processes('gpu_tracker'))
        output, errors = process.communicate('\n')
    assert output.startswith('Max RAM:')
    assert errors.splitlines()[-1] == f'{COMPLETE}3'
    assert len(errors.splitlines()) == 2
    assert process.returncode == 3


def test_a_stopped_sampler_is_ended_with_the_command_and_the_result_is_what_it_had(tmp_path: Path) -> None:
    marked = Marked()
    report = tmp_path / 'report'
    command = 'import sys; data = b"x" * 30_000_000; input(); sys.exit(3)'
    arguments = ('-f', 'json', '--ru=bytes', '--st=0.05', '-o', str(report), '--', sys.executable, '-c', command)
    with started(*arguments, stdin=subprocess.PIPE, env=marked.environment) as process:
        eventually(lambda: main_ram(report) > 30_000_000)
        (sampler,) = marked.processes(SAMPLER_MARK)
        os.kill(sampler, signal.SIGSTOP)
        _, errors = process.communicate('\n')
    said, failed = errors.splitlines()
    assert said == (
        'gpu-tracker: The sampler was stopped by a signal, and ended; the result is what it had measured until then.'
    )
    assert '   failed with exit code 3 after ' in failed
    assert process.returncode == 3
    assert main_ram(report) > 30_000_000
    eventually(lambda: not marked.processes())


def main_ram(report: Path) -> int:
    """Return what a report says of the RAM of main, 0 while there is none."""
    text = text_of(report)
    return json.loads(text)['max_ram']['main']['total_rss'] if text else 0


BURNING = """
import sys, time

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

burn(0.2)
input()
burn(0.2)
print(time.process_time())
"""


@pytest.mark.parametrize('group', ['main', 'descendants'])
def test_the_cpu_time_of_a_command_is_exact_and_counts_once_where_its_sampler_was_ended(
    tmp_path: Path, group: str
) -> None:
    """The sampler has counted a child which has ended since, and has been waited for."""
    marked = Marked()
    report = tmp_path / 'report'
    command = [sys.executable, '-S', '-c', BURNING]
    if group == 'descendants':
        command = ['/bin/sh', '-c', f'{shlex.join(command)}; exit 0']
    options = ('-f', 'json', '--tu=seconds', '--st=0.05', '--verbose', '-o', str(report), '--')
    with started(*options, *command, stdin=subprocess.PIPE, env=marked.environment) as process:

        def cpu_seconds(group: str) -> float:
            text = text_of(report)
            found = json.loads(text or '{"compute_time": {"time": 0.0}}')
            seconds = found['compute_time']['time']
            return seconds and found['cpu_utilization'][group]['mean_sum_percent'] / 100 * seconds

        eventually(lambda: cpu_seconds(group) > 0.15)
        (sampler,) = marked.processes(SAMPLER_MARK)
        os.kill(sampler, signal.SIGKILL)
        eventually(lambda: sampler not in marked.processes(SAMPLER_MARK))
        output, errors = process.communicate('\n')
    truth = float(output)
    assert cpu_seconds(group) == pytest.approx(truth, abs=0.05)
    assert cpu_seconds('combined') == pytest.approx(truth, abs=0.05)
    (line,) = [line for line in errors.splitlines() if line.startswith('At least, because the sampler ended before')]
    assert {f'max_ram.{name}.total_rss' for name in ('descendants', 'combined')} <= {*re.split('[:,] ', line)}
