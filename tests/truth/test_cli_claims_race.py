"""Many jobs that want the same GPUs at the same time."""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import select
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from support.cli_program import text_of
from support.gpus.gpu_machine import GB, Machine
from support.simulated_nvml import Gpu
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

USER = pwd.getpwuid(os.geteuid()).pw_name
JOBS = 4

# Only one job can make the folder, whatever gpu-tracker says.
JOB = """
mkdir gpu-$CUDA_VISIBLE_DEVICES || exit 99
echo start $CUDA_VISIBLE_DEVICES >> log
echo $CUDA_VISIBLE_DEVICES
read line
echo end $CUDA_VISIBLE_DEVICES >> log
rmdir gpu-$CUDA_VISIBLE_DEVICES
"""

# A lock goes with its process, however that ends; the claim must not go before it.
KILLED_JOB = """
import fcntl, os, sys, time
lock = os.open(f'{sys.argv[1]}/gpu-{os.environ["CUDA_VISIBLE_DEVICES"]}', os.O_CREAT | os.O_RDWR)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(99)
with open(f'{sys.argv[1]}/holders', 'a') as holders:
    print(os.getpid(), file=holders)
time.sleep(0.1)  # what jobs do
"""


@pytest.fixture
def four_jobs(machine: Machine, tmp_path: Path) -> Iterator[Callable[..., list[subprocess.Popen[str]]]]:
    machine.write(gpus=[Gpu(total=GB, used=GB), Gpu(total=GB), Gpu(total=GB)])
    (tmp_path / 'job').write_text(JOB)
    with contextlib.ExitStack() as stack:

        def start(*options: str) -> list[subprocess.Popen[str]]:
            words = ['available', '-n', '1', '--claim', *options, '--', 'sh', 'job']
            return [
                stack.enter_context(machine.started(*words, stdin=subprocess.PIPE, cwd=tmp_path)) for _ in range(JOBS)
            ]

        yield start


def test_of_four_jobs_started_at_once_for_two_gpus_two_are_told_why_not(
    machine: Machine, four_jobs: Callable[..., list[subprocess.Popen[str]]]
) -> None:
    jobs = four_jobs()
    eventually(lambda: sum(job.poll() is not None for job in jobs) == JOBS - 2)
    running = {job.stdout.readline(): job for job in jobs if job.poll() is None}
    assert sorted(running) == ['1\n', '2\n']
    one, two = running['1\n'].pid, running['2\n'].pid
    reasons = (
        'gpu-tracker: no GPU is available\n'
        '  GPU 0 (NVIDIA Simulated GPU): 100.0 % of its memory is in use; at most 20 % may be\n'
        f'  GPU 1 (NVIDIA Simulated GPU): claimed by {USER} (pid {one}, sh job)\n'
        f'  GPU 2 (NVIDIA Simulated GPU): claimed by {USER} (pid {two}, sh job)\n'
    )
    for job in jobs:
        if job.poll() is not None:
            assert (job.communicate(), job.returncode) == (('', reasons), 1)
    for job in running.values():
        assert (job.communicate('\n'), job.returncode) == (('', ''), 0)
    assert machine.available() == '1,2'


def test_four_jobs_that_wait_for_two_gpus_run_two_at_a_time(
    machine: Machine, tmp_path: Path, four_jobs: Callable[..., list[subprocess.Popen[str]]]
) -> None:
    log = tmp_path / 'log'
    jobs = {job.pid: job for job in four_jobs('--wait')}
    said_by = [job.stderr for job in jobs.values()]
    eventually(lambda: len(select.select(said_by, (), (), 0)[0]) == JOBS - 2)  # the others have said that they wait
    for begun in (2, 4):
        eventually(lambda begun=begun: text_of(log).count('start') == begun)
        for gpu in machine.gpus()[1:]:
            jobs[gpu['claim']['pid']].stdin.write('\n')
            jobs[gpu['claim']['pid']].stdin.flush()
    said = [job.communicate() for job in jobs.values()]
    assert [job.returncode for job in jobs.values()] == [0] * JOBS
    assert sorted(printed for printed, _ in said) == ['1\n'] * 2 + ['2\n'] * 2
    assert sum(errors.startswith('gpu-tracker: waiting: no GPU is available\n  GPU 0') for _, errors in said) == 2
    busy: set[str] = set()
    for event, gpu in (line.split() for line in text_of(log).splitlines()):
        assert (gpu in busy) == (event == 'end')
        busy ^= {gpu}
    assert busy == set()


def test_twenty_jobs_race_for_four_gpus_and_are_killed_at_random(machine: Machine, tmp_path: Path) -> None:
    machine.write(gpus=[Gpu(total=GB) for _ in range(4)])
    job = [sys.executable, '-I', '-S', '-c', KILLED_JOB, str(tmp_path)]
    chance = random.Random(50)  # noqa: S311 - the same each time
    to_kill = 6
    with contextlib.ExitStack() as stack, open(tmp_path / 'errors', 'w') as errors:
        words = ['available', '-n', '1', '--claim', '--wait', '--', *job]
        jobs = [stack.enter_context(machine.started(*words, stdout=errors, stderr=errors)) for _ in range(20)]
        alive = jobs
        killed = killed_holders = 0
        while alive:
            holders = {int(pid) for pid in text_of(tmp_path / 'holders').split()}
            holding = [job for job in alive if job.pid in holders]
            if holders and killed < to_kill and chance.random() < 0.5:
                # By turns somebody who holds a GPU, where there is one, and anybody.
                victim = chance.choice(holding if killed % 2 and holding else alive)
                victim.kill()
                victim.wait()
                killed += 1
                killed_holders += victim in holding
            time.sleep(0.02)  # between two strokes of fate
            alive = [job for job in alive if job.poll() is None]
    assert killed == to_kill
    assert killed_holders > 0
    ends = [job.returncode for job in jobs]
    assert set(ends) == {0, -9}
    assert ends.count(0) >= 20 - to_kill
    said = {line.partition('(')[0] for line in text_of(tmp_path / 'errors').splitlines()}
    said.discard('gpu-tracker: waiting for the GPU driver to respond')  # twenty that start at once may take 5 s for it
    assert said == {'gpu-tracker: waiting: no GPU is available', '  GPU 0 ', '  GPU 1 ', '  GPU 2 ', '  GPU 3 '}
    assert machine.available('-n', '4', '--claim', '--claim-seconds=1000') == '0,1,2,3'
    assert len(os.listdir(machine.claims)) == 1  # nothing of the killed is left
