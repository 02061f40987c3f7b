"""``--cgroup`` in containers as Docker has them made, with control groups of version 2."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.own_group import MEBIBYTE, OPTIONS
from support.vm import GROUPS, container
from support.vm.tracked import WITHOUT_DISK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.vm import VirtualMachine


@pytest.fixture
def engine(machine: VirtualMachine) -> Iterator[VirtualMachine]:
    """Give the machine, and check that nothing is left in the group of the containers."""
    yield machine
    assert machine.names(container.GROUP) == []
    machine.remove_group(container.GROUP)
    given = machine.read(f'{GROUPS}/cgroup.subtree_control').split()
    machine.write(f'{GROUPS}/cgroup.subtree_control', ' '.join(f'-{name}' for name in given))


def test_as_docker_starts_them_the_command_runs_without_a_group(engine: VirtualMachine):
    done = container.run(engine, ['gpu-tracker', *OPTIONS, '--', 'sleep', '0'])
    assert done.code == 0, done
    reason = 'the control groups are mounted read-only, as in most containers; systemd does not run here'
    assert f'gpu-tracker: --cgroup: the command gets no control group of its own: {reason}\n' in done.errors
    report = json.loads(done.output)
    assert report['own_group'] == {**dict.fromkeys(report['own_group']), 'unit': 'bytes', 'problem': reason}
    assert report['control_group']['memory_limit'] == 299_999_232


@pytest.mark.figures
def test_where_groups_can_be_written_the_figures_are_those_of_the_groups_own_files(engine: VirtualMachine):
    """The tracker is alone in the container's group, and moves itself below it."""
    done = container.run(engine, ['gpu-tracker', *OPTIONS, '--', 'python', '-c', WITHOUT_DISK], is_privileged=True)
    assert done.code == 0, done
    own_text, _, report = done.output.partition('\n')
    own, found = json.loads(own_text), json.loads(report)['own_group']
    assert found['made_in'] == 'cgroup v2'
    assert own['memory_peak'] <= found['memory_peak'] <= own['memory_peak'] + MEBIBYTE
    assert own['cpu'] <= found['cpu_seconds'] <= own['cpu'] + 1
    assert found['max_tasks'] == own['max_tasks'] == 6
    assert (found['oom_kills'], found['left_processes']) == (0, 0)


def test_a_shell_around_it_is_not_moved(engine: VirtualMachine):
    shell = ['sh', '-c', '"$@"; echo; echo /sys/fs/cgroup/gpu-tracker*', 'sh']
    done = container.run(engine, [*shell, 'gpu-tracker', *OPTIONS, '--', 'sleep', '0'], is_privileged=True)
    assert done.code == 0, done
    report, _, left = done.output.strip().rpartition('\n')
    found = json.loads(report)['own_group']
    assert (found['made_in'], found['memory_peak']) == ('cgroup v2', None)
    assert found['cpu_seconds'] > 0
    assert '/sys/fs/cgroup has other processes in it (pid 1), so it can give no controllers' in done.errors
    assert left == '/sys/fs/cgroup/gpu-tracker*'
