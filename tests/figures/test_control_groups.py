"""Limits and kills beside what the kernel says of the same groups, which are real ones of version 1."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import gpu_tracker as gput
from support.cli_program import PROGRAM, gpu_tracker
from support.lack_of_memory import HOG
from support.real_groups import RealGroup, group_with_memory
from support.tracked_program import Samplers, environment
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT = 120_000_000
MEGABYTES = 300
"""What the hog takes, which is more."""
HOGGING = [sys.executable, '-c', HOG, str(MEGABYTES)]
"""Ends by the kernel."""


@pytest.fixture
def group() -> Iterator[RealGroup]:
    """Give a group of 120 MB."""
    with group_with_memory(LIMIT) as made:
        yield made


def run_in(group: RealGroup, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run gpu-tracker in a group to its end."""
    words = group.words(*PROGRAM, '--ru=bytes', *arguments)
    finished = subprocess.run(
        words, capture_output=True, text=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL, check=False, env=environment()
    )
    assert finished.returncode == code, finished.stderr
    return finished


def said_of(kills: int) -> str:
    """Return what is to be said; the kernel may kill more than the one that has asked for too much."""
    if kills == 1:
        return '1 process of this control group was killed for lack of memory.'
    return f'{kills} processes of this control group were killed for lack of memory.'


def section_in(report: Path) -> Any:
    """Return the section of a report as JSON; None where there is none yet."""
    try:
        return json.loads(report.read_text()).get('control_group')
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def test_children_are_killed_and_the_command_ends_well(group: RealGroup, tmp_path: Path) -> None:
    recording = tmp_path / 'run.gput'
    finished = run_in(group, '-f', 'json', f'--tf={recording}', '-e', f'{group.hog(MEGABYTES)}; {group.hog(MEGABYTES)}')
    kills = group.oom_kills
    assert kills >= 2
    sentence = said_of(kills)
    assert f'gpu-tracker: {sentence}\n' in finished.stderr
    assert json.loads(finished.stdout)['control_group'] == {
        'unit': 'bytes',
        'folder': str(group.folder),
        'memory_limit': int(group.read('memory.limit_in_bytes')),
        'cpu_limit': os.cpu_count(),
        'allowed_cores': len(os.sched_getaffinity(0)),
        'oom_kills': kills,
        'problem': sentence,
    }
    with gput.load(recording) as loaded:
        assert loaded.meta.oom_kills == kills
        assert loaded.meta.totals['control_group']['oom_kills'] == kills
        assert sentence in [message.text for message in loaded.messages]
        assert loaded.summary().control_group.oom_kills == kills
        assert f'<p class="failed">{sentence}</p>' in loaded.report().page


def test_the_text_says_it_too(group: RealGroup) -> None:
    finished = run_in(group, '--disable-logs', '-e', group.hog(MEGABYTES))
    kills = group.oom_kills
    assert kills >= 1
    assert f'   OOM kills: {kills}\n   Problem: {said_of(kills)}\n' in finished.stdout
    assert 'lack of memory' not in finished.stderr


def test_what_was_killed_before_does_not_count(group: RealGroup) -> None:
    subprocess.run(group.words(*HOGGING), check=False, timeout=TIMEOUT)
    assert group.oom_kills >= 1
    finished = run_in(group, '-f', 'json', '-e', 'true')
    assert json.loads(finished.stdout)['control_group']['oom_kills'] == 0
    assert 'lack of memory' not in finished.stderr


def test_the_command_itself_is_killed(group: RealGroup) -> None:
    finished = run_in(group, '-f', 'json', '--', *HOGGING, code=137)
    assert group.oom_kills >= 1
    sentence = said_of(group.oom_kills)
    assert json.loads(finished.stdout)['control_group']['problem'] == sentence
    assert sentence in finished.stderr


def test_a_program_that_tracks_itself_is_warned(group: RealGroup) -> None:
    program = (
        'import os, sys, gpu_tracker as gput\n'
        'with gput.Tracker() as tracker:\n'
        '    os.system(sys.argv[1])\n'
        'print(tracker.resource_usage.control_group.oom_kills)\n'
    )
    words = group.words(sys.executable, '-c', program, group.hog(MEGABYTES))
    finished = subprocess.run(
        words, capture_output=True, text=True, timeout=TIMEOUT, check=True, env=environment(), stdin=subprocess.DEVNULL
    )
    assert group.oom_kills >= 1
    assert finished.stdout == f'{group.oom_kills}\n'
    assert said_of(group.oom_kills) in finished.stderr.splitlines()


def test_a_group_that_a_command_moves_to_is_not_its_group_at_the_start(group: RealGroup) -> None:
    move = f'echo $$ > {group.folder}/cgroup.procs'
    finished = gpu_tracker('-f', 'json', '-e', f'{move} && {group.hog(MEGABYTES)}', env=environment())
    assert group.oom_kills >= 1
    assert not json.loads(finished.stdout).get('control_group', {}).get('oom_kills')
    assert 'lack of memory' not in finished.stderr


def test_a_container_sees_its_group_as_the_root(group: RealGroup, tmp_path: Path) -> None:
    """With a namespace of control groups, and a mount of its own beside that of the machine."""
    point = tmp_path / 'groups'
    point.mkdir()
    mount = 'mount -t cgroup -o memory none "$0" && exec "$@"'
    namespace = ['unshare', '--cgroup', '--mount', '/bin/sh', '-c', mount, str(point)]
    command = [*PROGRAM, '--ru=bytes', '-f', 'json', '-e', f'{group.hog(MEGABYTES)}; cat /proc/self/cgroup >&2']
    finished = subprocess.run(
        group.words(*namespace, *command),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
        env=environment(),
    )
    assert ':memory:/\n' in finished.stderr
    found = json.loads(finished.stdout)['control_group']
    assert (found['folder'], found['oom_kills']) == (str(point), group.oom_kills)
    assert group.oom_kills >= 1
    assert found['memory_limit'] == int(group.read('memory.limit_in_bytes'))


class Shell:
    """A shell in a group that does what it is asked."""

    def __init__(self, group: RealGroup) -> None:
        self.process = subprocess.Popen(
            group.words('/bin/sh'), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.does('true')

    def does(self, command: str) -> None:
        """Have a command run to its end."""
        self.process.stdin.write(f'{command}; echo done\n')
        assert self.process.stdout.readline() == 'done\n'


@pytest.fixture
def in_group(group: RealGroup) -> Iterator[Shell]:
    shell = Shell(group)
    with shell.process:
        yield shell
        shell.process.kill()


def test_the_group_of_another_process_may_be_gone_before_the_end(
    group: RealGroup, in_group: Shell, tmp_path: Path
) -> None:
    report = tmp_path / 'usage.json'
    pid = in_group.process.pid
    words = [*PROGRAM, f'--pid={pid}', '--ru=bytes', '--st=0.1', '-f', 'json', '-o', str(report)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment()) as tracker:
        assert eventually(lambda: section_in(report))['oom_kills'] == 0
        in_group.does(group.hog(MEGABYTES))
        kills = group.oom_kills
        assert kills >= 1
        assert eventually(lambda: section_in(report)['oom_kills'] == kills)
        (group.folder.parent / 'cgroup.procs').write_text(f'{pid}\n')
        eventually(group.remove)
        in_group.process.stdin.close()
        _, messages = tracker.communicate(timeout=TIMEOUT)
    assert tracker.returncode == 0
    assert f'gpu-tracker: {said_of(kills)}\n' in messages
    assert section_in(report) == {
        'unit': 'bytes',
        'folder': str(group.folder),
        'memory_limit': LIMIT // os.sysconf('SC_PAGESIZE') * os.sysconf('SC_PAGESIZE'),
        'cpu_limit': os.cpu_count(),
        'allowed_cores': len(os.sched_getaffinity(0)),
        'oom_kills': kills,
        'problem': said_of(kills),
    }


def test_a_sampler_that_is_killed_leaves_what_it_has_counted(group: RealGroup, tmp_path: Path) -> None:
    samplers = Samplers()
    report = tmp_path / 'usage.json'
    arguments = ['--st=0.1', '-f', 'json', '-o', str(report), '-e', f'{group.hog(MEGABYTES)}; read line; true']
    with subprocess.Popen(
        group.words(*PROGRAM, *arguments),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=samplers.environment,
    ) as tracker:
        eventually(lambda: (section_in(report) or {}).get('oom_kills') == group.oom_kills > 0)
        os.kill(samplers.only(), signal.SIGKILL)
        assert samplers.none_left()
        _, messages = tracker.communicate('\n', timeout=TIMEOUT)
    assert f'gpu-tracker: {said_of(group.oom_kills)}\n' in messages
    assert section_in(report)['oom_kills'] == group.oom_kills


def test_the_quota_of_a_group_around_is_reported_and_expected() -> None:
    cores = os.cpu_count()
    with RealGroup('cpu') as around, RealGroup('cpu', around) as inner:
        around.set('cpu.cfs_period_us', 20_000)
        around.set('cpu.cfs_quota_us', 20_000 * cores - 10_000)
        finished = run_in(inner, '-f', 'json', '--nec=allowed', '-e', 'true')
        quota, period = int(around.read('cpu.cfs_quota_us')), int(around.read('cpu.cfs_period_us'))
    report = json.loads(finished.stdout)
    assert report['control_group']['cpu_limit'] == quota / period == cores - 0.5
    assert report['control_group']['allowed_cores'] == min(cores - 0.5, len(os.sched_getaffinity(0)))
    assert report['cpu_utilization']['n_expected_cores'] == min(cores, len(os.sched_getaffinity(0)))


def test_affinity_is_reported_and_expected() -> None:
    one = str(min(os.sched_getaffinity(0)))
    words = ['taskset', '-c', one, *PROGRAM, '-f', 'json', '-e', 'true']
    expected = {}
    for option in ('--nec=allowed', '--disable-logs'):
        finished = subprocess.run(
            [*words, option], capture_output=True, text=True, timeout=TIMEOUT, check=True, env=environment()
        )
        report = json.loads(finished.stdout)
        assert os.cpu_count() == 1 or report['control_group']['allowed_cores'] == 1.0
        expected[option] = report['cpu_utilization']['n_expected_cores']
    assert expected == {'--nec=allowed': 1, '--disable-logs': os.cpu_count()}


def test_a_tracker_expects_what_another_process_is_allowed(target: subprocess.Popen[bytes]) -> None:
    os.sched_setaffinity(target.pid, {min(os.sched_getaffinity(0))})
    with gput.Tracker(n_expected_cores='allowed', process_id=target.pid) as tracker:
        pass
    assert tracker.resource_usage.cpu_utilization.n_expected_cores == 1
