"""Limits and kills on a machine where version 2 has all controllers, beside the groups' own files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.lack_of_memory import HOGS
from support.vm import GROUPS, VirtualMachine

if TYPE_CHECKING:
    from collections.abc import Iterator

OUTER, INNER = f'{GROUPS}/outer', f'{GROUPS}/outer/inner'
LIMIT = 100 * 2**20


@pytest.fixture
def inner(machine: VirtualMachine) -> Iterator[str]:
    """Give a group within one that may use 100 MiB and half a core."""
    machine.write(f'{GROUPS}/cgroup.subtree_control', '+memory +cpu')
    machine.make_group(OUTER)
    machine.write(f'{OUTER}/memory.max', str(LIMIT))
    machine.write(f'{OUTER}/cpu.max', '50000 100000')
    machine.write(f'{OUTER}/cgroup.subtree_control', '+memory +cpu')
    machine.make_group(INNER)
    yield INNER
    machine.remove_group(INNER)
    machine.remove_group(OUTER)
    machine.write(f'{GROUPS}/cgroup.subtree_control', '-memory -cpu')


def kills_in(machine: VirtualMachine, group: str) -> int:
    return int(dict(line.split() for line in machine.read(f'{group}/memory.events').splitlines())['oom_kill'])


def track(machine: VirtualMachine, *words: str, group: str | None = None):
    """Track a command; return what gpu-tracker has printed, and its section."""
    command = ['gpu-tracker', '--ru=bytes', '--nec=allowed', '-f', 'json', '-o', '/tmp/report.json', '--', *words]
    done = machine.run(command, group=group)
    assert done.code == 0, done
    report = json.loads(machine.read('/tmp/report.json'))
    assert report['cpu_utilization']['n_expected_cores'] == 1
    return done.errors, report.get('control_group')


def test_the_limits_of_a_group_around_count(machine: VirtualMachine, inner: str) -> None:
    assert track(machine, 'python', '-c', '', group=inner)[1] == {
        'unit': 'bytes',
        'folder': inner,
        'memory_limit': LIMIT,
        'cpu_limit': 0.5,
        'allowed_cores': 0.5,
        'oom_kills': 0,
        'problem': None,
    }


def test_kills_count_in_the_group_and_in_those_below_it(machine: VirtualMachine, inner: str) -> None:
    below = f'{inner}/below'
    errors, found = track(machine, 'python', '-S', '-c', HOGS, f'{inner}/memory.current', '300', below, group=inner)
    machine.remove_group(below)
    kills = kills_in(machine, inner)
    assert kills >= 2
    sentence = f'{kills} processes of this control group were killed for lack of memory.'
    assert (found['oom_kills'], found['problem']) == (kills, sentence)
    assert f'gpu-tracker: {sentence}\n' in errors


def test_the_root_of_version_2_says_nothing(machine: VirtualMachine) -> None:
    assert track(machine, 'python', '-c', '')[1] is None
