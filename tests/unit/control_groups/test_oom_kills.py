"""The counters of kills, on folders that are written here; tests/figures has real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.control_groups import marks
from gpu_tracker.control_groups.oom_kills import OF_VERSION_1, OF_VERSION_2, KillCounter, OOMKills, sentence
from gpu_tracker.control_groups.places import groups_of, mounts
from support.control_group_trees import PID, GroupTree, make_group

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

V2 = 'low 0\nhigh 0\nmax 19\noom 4\noom_kill {}\noom_group_kill 0'
V1 = 'oom_kill_disable 0\nunder_oom 0\noom_kill {}'


@pytest.fixture
def tree(tmp_path: Path) -> GroupTree:
    return GroupTree(tmp_path)


@pytest.fixture
def opened(tree: GroupTree) -> Iterator[list[OOMKills]]:
    """Give a list that what was opened is put into, to be closed."""
    found: list[OOMKills] = []
    yield found
    for kills in found:
        kills.close()


def kills_of(tree: GroupTree, opened: list[OOMKills]) -> OOMKills:
    opened.append(OOMKills(groups_of(PID, tree.proc), mounts(tree.proc)))
    return opened[-1]


def test_only_what_comes_after_the_start_counts(tree: GroupTree, opened: list[OOMKills]) -> None:
    tree.in_groups('0::/job')
    group = make_group(
        tree.mount('cgroup') / 'job', {'memory.events': V2.format(3), 'memory.events.local': V2.format(9)}
    )
    kills = kills_of(tree, opened)
    assert (kills.folder, kills.count) == (str(group), 0)
    make_group(group, {'memory.events': V2.format(5), 'memory.events.local': V2.format(99)})
    assert kills.count == 0
    kills.read()
    assert kills.count == 2


@pytest.mark.parametrize('name', [OF_VERSION_1, OF_VERSION_2])
def test_counters_of_groups_below_are_added_up_and_those_that_are_gone_remembered(tmp_path: Path, name: str) -> None:
    """As in version 1, and in version 2 that is mounted with memory_localevents."""
    job = make_group(tmp_path / 'job', {name: V1.format(1)})
    step = make_group(job / 'step', {name: V1.format(2)})
    make_group(step / 'task', {name: V1.format(4)})
    counter = KillCounter(str(job), name, is_alone=False)
    assert counter.read() == 7
    step.rename(tmp_path / 'gone')  # removed, another group might get its number in a folder of a test
    assert counter.read() == 7
    make_group(job / 'next', {name: V1.format(8)})
    assert counter.read() == 15
    counter.close()


def test_version_2_that_is_mounted_with_local_events_is_added_up(tree: GroupTree, opened: list[OOMKills]) -> None:
    tree.in_groups('0::/job')
    root = tree.mount('cgroup', options='rw,nsdelegate,memory_localevents')
    group = make_group(root / 'job', {'memory.events': V2.format(3)})
    kills = kills_of(tree, opened)
    make_group(group / 'below', {'memory.events': V2.format(2)})
    kills.read()
    assert kills.count == 2


@pytest.mark.parametrize(('name', 'count'), [(marks.own_name(), 2), ('job', 0)], ids=['of a run', 'of another'])
def test_below_a_group_of_version_1_those_of_a_run_alone_count(
    tree: GroupTree, opened: list[OOMKills], name: str, count: int
) -> None:
    """Below another may be groups of strangers."""
    tree.in_groups(f'5:memory:/{name}')
    group = make_group(tree.mount('cgroup', controllers='memory') / name, {OF_VERSION_1: V1.format(0)})
    kills = kills_of(tree, opened)
    make_group(group / 'below', {OF_VERSION_1: V1.format(2)})
    kills.read()
    assert kills.count == count


def test_version_1_counts_in_the_group_itself(tree: GroupTree, opened: list[OOMKills]) -> None:
    tree.in_groups('5:memory:/slurm/job_7', '0::/')
    root = tree.mount('cgroup/memory', controllers='memory')
    tree.mount('cgroup/unified')
    make_group(root / 'slurm', {'memory.oom_control': V1.format(50)})
    group = make_group(root / 'slurm/job_7', {'memory.oom_control': V1.format(1)})
    kills = kills_of(tree, opened)
    make_group(root / 'slurm', {'memory.oom_control': V1.format(60)})
    make_group(group, {'memory.oom_control': V1.format(2)})
    kills.read()
    assert kills.count == 1


def test_a_group_without_the_controller_has_the_memory_of_the_one_around_it(
    tree: GroupTree, opened: list[OOMKills]
) -> None:
    tree.in_groups('0::/user.slice/session')
    root = tree.mount('cgroup')
    make_group(root / 'user.slice/session', {'cgroup.procs': PID})
    around = make_group(root / 'user.slice', {'memory.events': V2.format(0)})
    kills = kills_of(tree, opened)
    make_group(around, {'memory.events': V2.format(1)})
    kills.read()
    assert (kills.folder, kills.count) == (str(around), 1)


def test_another_group_of_the_same_name_is_not_counted(tree: GroupTree, opened: list[OOMKills]) -> None:
    tree.in_groups('0::/job')
    group = make_group(tree.mount('cgroup') / 'job', {'memory.events': V2.format(0)})
    kills = kills_of(tree, opened)
    make_group(group, {'memory.events': V2.format(1)})
    kills.read()
    (group / 'memory.events').unlink()
    make_group(group, {'memory.events': V2.format(7)})
    kills.read()
    assert kills.count == 1


def test_a_counter_never_falls(tree: GroupTree, opened: list[OOMKills]) -> None:
    tree.in_groups('0::/job')
    group = make_group(tree.mount('cgroup') / 'job', {'memory.events': V2.format(4)})
    kills = kills_of(tree, opened)
    for total in (6, 5):
        make_group(group, {'memory.events': V2.format(total)})
        kills.read()
    assert kills.count == 2


@pytest.mark.parametrize(
    'lines',
    [('0::/',), ('0::/../other',), ('5:memory:/job', '0::/'), ('2:cpu:/',), ()],
    ids=['root of version 2', 'outside', 'not mounted', 'no memory', 'no groups'],
)
def test_where_there_is_no_counter_nothing_is_known(
    tree: GroupTree, opened: list[OOMKills], lines: tuple[str, ...]
) -> None:
    tree.in_groups(*lines)
    tree.mount('cgroup')
    kills = kills_of(tree, opened)
    kills.read()
    assert (kills.folder, kills.count) == (None, None)


def test_a_kernel_that_does_not_count_is_unknown_too(tree: GroupTree, opened: list[OOMKills]) -> None:
    """Before Linux 4.13."""
    tree.in_groups('5:memory:/job')
    root = tree.mount('cgroup', controllers='memory')
    make_group(root / 'job', {'memory.oom_control': 'oom_kill_disable 0\nunder_oom 0'})
    assert kills_of(tree, opened).count is None


def test_what_is_said_of_them() -> None:
    assert sentence(1) == '1 process of this control group was killed for lack of memory.'
    assert sentence(2) == '2 processes of this control group were killed for lack of memory.'
