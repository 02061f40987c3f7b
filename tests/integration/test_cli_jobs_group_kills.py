"""Kills and limits in the report of a job, beside what the kernel says of the group in which its ranks ran."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from support.cli_program import PROGRAM, called, gpu_tracker
from support.lack_of_memory import HOG
from support.real_groups import RealGroup, group_with_memory
from support.tracked_program import environment
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT = 600_000_000
TRACKED = shlex.join([*PROGRAM, '--job=job'])


@pytest.fixture
def group() -> Iterator[RealGroup]:
    """Give a group of 600 MB, in which trackers and samplers of three ranks have room."""
    with group_with_memory(LIMIT) as made:
        yield made


def merged(folder: Path) -> dict[str, Any]:
    done = called('merge', '-f', 'json', str(folder))
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_kill_that_three_ranks_have_seen_is_one(group: RealGroup, tmp_path: Path) -> None:
    for rank in range(1, 3):
        os.mkfifo(tmp_path / f'done{rank}')
    # The others only wait: whoever asks for memory when the hog has just been killed may be killed, too.
    commands = (f'{group.hog(900)}; echo >done1; echo >done2', 'read line <done1', 'read line <done2')
    ranks = ' '.join(
        f'GPU_TRACKER_JOB=demo GPU_TRACKER_RANK={rank} {TRACKED} -e {shlex.quote(command)} &'
        for rank, command in enumerate(commands)
    )
    done = subprocess.run(
        group.words('sh', '-c', f'{ranks} wait'),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = merged(tmp_path / 'job')
    (found,) = report['oom_kills']
    assert (found['folder'], found['ranks']) == (str(group.folder), ['0', '1', '2'])
    assert found['kills'] == group.oom_kills > 0
    (node,) = found['nodes']
    killed = '1 process' if found['kills'] == 1 else f'{found["kills"]} processes'
    verb = 'was' if found['kills'] == 1 else 'were'
    sentence = f'{killed} of the control group of ranks 0-2 on node {node} {verb} killed for lack of memory.'
    assert f'Killed      {sentence}\n' in called('merge', str(tmp_path / 'job')).stdout
    page = tmp_path / 'job.html'
    assert called('report', str(tmp_path / 'job'), '-o', str(page)).returncode == 0
    assert f'<p class="problem">{sentence}</p>' in page.read_text()


def test_a_rank_that_its_limit_has_ended_is_named_and_its_own_group_has_a_peak(tmp_path: Path) -> None:
    words = ('--job', str(tmp_path / 'job'), '--cgroup', '--memory-limit=100MB', '--kill-after=0')
    place = {'GPU_TRACKER_JOB': 'demo', 'GPU_TRACKER_RANK': '3'}
    done = gpu_tracker(*words, '--', sys.executable, '-c', HOG, '300', env=place)
    assert done.returncode == 124, done.stderr
    report = merged(tmp_path / 'job')
    (rank,) = report['ranks']
    assert (rank['label'], rank['termination_reason']) == ('3', 'memory_limit')
    assert 90_000_000 < rank['own_group_memory_peak'] <= 100_000_000
    assert [(group['kills'], group['ranks']) for group in report['oom_kills']] == [(1, ['3'])]
    text = called('merge', str(tmp_path / 'job')).stdout
    assert '            ended by its memory limit: 3\n' in text
    assert text.splitlines()[-1].endswith('killed by SIGKILL, ended by its memory limit')
