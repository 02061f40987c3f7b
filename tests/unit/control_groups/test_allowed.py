"""What groups allow, on folders that are written here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.control_groups.allowed import NO_LIMIT, Limits, expected_cores, limits_of
from gpu_tracker.control_groups.oom_kills import OOMKills
from gpu_tracker.control_groups.places import groups_of, mounts
from support.control_group_trees import PID, GroupTree, make_group
from support.gpus.gpu_machine import NO_SUCH_PROCESS

if TYPE_CHECKING:
    from pathlib import Path

NONE_OF_VERSION_1 = 9223372036854771712
"""What version 1 shows where there is no limit, with pages of 4 KiB."""


@pytest.fixture
def tree(tmp_path: Path) -> GroupTree:
    return GroupTree(tmp_path)


def found(tree: GroupTree) -> tuple[float | None, float | None]:
    limits = limits_of(PID, tree.proc)
    return limits.memory, limits.quota


def test_the_tightest_limit_of_version_2_may_be_that_of_a_group_around(tree: GroupTree) -> None:
    tree.in_groups('0::/machine.slice/job/step')
    root = tree.mount('cgroup')
    make_group(root / 'machine.slice', {'memory.max': 8_000_000_000, 'cpu.max': '400000 100000'})
    make_group(root / 'machine.slice/job', {'memory.max': 2_000_000_000, 'cpu.max': 'max 100000'})
    make_group(root / 'machine.slice/job/step', {'memory.max': 'max', 'cpu.max': '450000 300000'})
    assert found(tree) == (2_000_000_000, 1.5)


def test_a_controller_may_be_switched_on_for_some_groups_only(tree: GroupTree) -> None:
    tree.in_groups('0::/user.slice/session')
    root = tree.mount('cgroup')
    make_group(root / 'user.slice', {'memory.max': 3_000_000_000})
    make_group(root / 'user.slice/session', {'cgroup.procs': PID})
    assert found(tree) == (3_000_000_000, NO_LIMIT)


def test_the_root_of_version_2_limits_nothing(tree: GroupTree) -> None:
    tree.in_groups('0::/')
    tree.mount('cgroup')
    assert found(tree) == (NO_LIMIT, NO_LIMIT)


def test_a_container_sees_the_limits_of_its_own_group_as_those_of_the_root(tree: GroupTree) -> None:
    tree.in_groups('0::/')
    make_group(tree.mount('cgroup'), {'memory.max': 104_857_600, 'cpu.max': '50000 100000'})
    assert found(tree) == (104_857_600, 0.5)


def test_version_1_says_what_all_groups_around_allow(tree: GroupTree) -> None:
    tree.in_groups('5:memory:/docker/7', '2:cpu,cpuacct:/docker/7', '0::/')
    memory = tree.mount('cgroup/memory', controllers='memory', root='/docker/7')
    cpu = tree.mount('cgroup/cpu,cpuacct', controllers='cpu,cpuacct', root='/docker/7')
    tree.mount('cgroup/unified')
    statistics = f'cache 0\nhierarchical_memory_limit 4000000000\nhierarchical_memsw_limit {NONE_OF_VERSION_1}'
    make_group(memory, {'memory.limit_in_bytes': NONE_OF_VERSION_1, 'memory.stat': statistics})
    make_group(cpu, {'cpu.cfs_quota_us': 250_000, 'cpu.cfs_period_us': 100_000})
    assert found(tree) == (4_000_000_000, 2.5)


def test_the_tightest_quota_of_version_1_may_be_that_of_a_group_around(tree: GroupTree) -> None:
    tree.in_groups('2:cpu:/a/b')
    root = tree.mount('cgroup/cpu', controllers='cpu')
    make_group(root, {'cpu.cfs_quota_us': -1, 'cpu.cfs_period_us': 100_000})
    make_group(root / 'a', {'cpu.cfs_quota_us': 30_000, 'cpu.cfs_period_us': 20_000})
    make_group(root / 'a/b', {'cpu.cfs_quota_us': 300_000, 'cpu.cfs_period_us': 100_000})
    assert found(tree) == (NO_LIMIT, 1.5)


def test_without_statistics_version_1_says_it_group_by_group(tree: GroupTree) -> None:
    tree.in_groups('5:memory:/a/b')
    root = tree.mount('cgroup/memory', controllers='memory')
    make_group(root, {'memory.limit_in_bytes': NONE_OF_VERSION_1})
    make_group(root / 'a', {'memory.limit_in_bytes': 70_000_000})
    make_group(root / 'a/b', {'memory.limit_in_bytes': NONE_OF_VERSION_1})
    assert found(tree) == (70_000_000, NO_LIMIT)


def test_the_largest_number_of_version_1_is_no_limit(tree: GroupTree) -> None:
    tree.in_groups('5:memory:/a')
    root = tree.mount('cgroup/memory', controllers='memory')
    make_group(root / 'a', {'memory.stat': f'hierarchical_memory_limit {NONE_OF_VERSION_1}'})
    assert found(tree) == (NO_LIMIT, NO_LIMIT)
    make_group(root / 'a', {'memory.stat': f'hierarchical_memory_limit {2**63 - 1}'})  # before Linux 3.19
    assert found(tree) == (NO_LIMIT, NO_LIMIT)


def test_of_two_versions_each_controller_counts_where_it_is(tree: GroupTree) -> None:
    tree.in_groups('5:memory:/job', '0::/job')
    memory = tree.mount('cgroup/memory', controllers='memory')
    make_group(memory / 'job', {'memory.stat': 'hierarchical_memory_limit 60000000'})
    unified = tree.mount('cgroup/unified')
    make_group(unified / 'job', {'cpu.max': '100000 100000', 'memory.max': 5})  # the latter cannot be
    assert found(tree) == (60_000_000, 1.0)


@pytest.mark.parametrize('path', ['/../other', '/gone'])
def test_groups_that_are_not_visible_are_unknown(tree: GroupTree, path: str) -> None:
    tree.in_groups(f'5:memory:{path}', f'2:cpu:{path}', f'0::{path}')
    assert found(tree) == (None, None)
    tree.in_groups(f'0::{path}')
    assert found(tree) == (None, None)


def test_what_cannot_be_read_is_unknown(tree: GroupTree) -> None:
    tree.in_groups('0::/a')
    root = tree.mount('cgroup')
    make_group(root / 'a', {'memory.max': 'plenty', 'cpu.max': 'max'})
    assert found(tree) == (None, None)
    limits = limits_of(PID, str(tree.folder / 'nowhere'))
    assert (limits.memory, limits.quota, limits.cores) == (None, None, None)


@given(
    st.lists(st.tuples(st.none() | st.integers(4096, 1 << 40), st.none() | st.integers(1000, 10**7)), max_size=5),
    st.integers(0, 5),
    st.booleans(),
)
def test_the_tightest_of_all_visible_groups_counts(
    tmp_path_factory: pytest.TempPathFactory,
    groups: list[tuple[int | None, int | None]],
    hidden: int,
    is_version_1: bool,
) -> None:
    """Groups from the outermost to the innermost, of which a container does not see the first ones."""
    tree = GroupTree(tmp_path_factory.mktemp('tree'))
    hidden = min(hidden, len(groups))
    names = [f'g{number}' for number in range(len(groups))]
    root, path = ('/' + '/'.join(part) for part in (names[:hidden], names))
    if is_version_1:
        tree.in_groups(f'1:memory,cpu:{path}')
        point = tree.mount('cgroup', controllers='cpu,memory', root=root)
    else:
        tree.in_groups(f'0::{path}')
        point = tree.mount('cgroup', root=root)
    for depth in range(hidden, len(groups)):
        memory, quota = groups[depth]
        folder = point.joinpath(*names[hidden : depth + 1])
        if is_version_1:
            of_memory = {'memory.limit_in_bytes': NONE_OF_VERSION_1 if memory is None else memory}
            of_cpu = {'cpu.cfs_quota_us': -1 if quota is None else quota, 'cpu.cfs_period_us': 100_000}
        else:
            of_memory = {'memory.max': 'max' if memory is None else memory}
            of_cpu = {'cpu.max': f'{"max" if quota is None else quota} 100000'}
        make_group(folder, {**of_memory, **of_cpu})
    seen = groups[hidden:]
    assert found(tree) == (
        min((memory for memory, _ in seen if memory is not None), default=NO_LIMIT),
        min((quota / 100_000 for _, quota in seen if quota is not None), default=NO_LIMIT),
    )


@pytest.mark.parametrize(
    ('limits', 'capacity', 'cores', 'expected'),
    [
        (Limits(NO_LIMIT, NO_LIMIT, 4), 1000, 4, (1000, 4.0, 4.0)),
        (Limits(2000, 8.0, 4), 1000, 4, (1000, 4.0, 4.0)),
        (Limits(500, 1.5, 4), 1000, 4, (500, 1.5, 1.5)),
        (Limits(500, 3.0, 2), None, None, (500, 3.0, 2.0)),
        (Limits(NO_LIMIT, NO_LIMIT, 2), None, None, (None, None, 2.0)),
        (Limits(None, None, 2), 1000, 4, (None, None, 2.0)),
        (Limits(None, None, None), 1000, 4, (None, None, None)),
    ],
)
def test_nothing_allows_more_than_the_machine_has(
    limits: Limits, capacity: int | None, cores: int | None, expected: tuple[float | None, ...]
) -> None:
    within = limits.within(capacity, cores)
    assert (within.memory, within.quota, within.cores) == expected


@pytest.mark.parametrize(('quota', 'expected'), [('1', 1), ('99999', 1), ('100000', 1), ('100001', 2), ('150000', 2)])
def test_a_part_of_a_core_is_expected_to_be_one(tree: GroupTree, quota: str, expected: int) -> None:
    """Of this process itself, with the affinity that it has."""
    (tree.folder / 'proc' / str(os.getpid())).mkdir()
    (tree.folder / 'proc' / str(os.getpid()) / 'cgroup').write_text('0::/a\n')
    make_group(tree.mount('cgroup') / 'a', {'cpu.max': f'{quota} 100000'})
    assert expected_cores(os.getpid(), tree.proc) == min(expected, len(os.sched_getaffinity(0)))


def test_where_nothing_is_known_of_a_process_no_number_is_expected() -> None:
    assert expected_cores(NO_SUCH_PROCESS) is None


WORDS = st.sampled_from(['max', '-1', '0', '5', '9' * 30, 'x', '', '100000', ' ', '\n', 'oom_kill ', '\xa0', '1_0'])
PARTS = ('0', ':', '::', '/', '..', 'a', 'memory', 'cpu', ' ', '-', 'cgroup2', '\\', '\\04', ' - ')
LINES = st.lists(st.lists(st.sampled_from(PARTS)).map(''.join))


@given(LINES, LINES, st.lists(WORDS).map(''.join), st.booleans())
def test_nothing_fails_whatever_stands_in_for_a_kernel(
    tmp_path_factory: pytest.TempPathFactory,
    groups: list[str],
    mounted: list[str],
    content: str,
    is_version_1: bool,
) -> None:
    tree = GroupTree(tmp_path_factory.mktemp('tree'))
    tree.in_groups('1:memory,cpu:/a' if is_version_1 else '0::/a', *groups)
    point = tree.mount('cgroup', controllers='cpu,memory' if is_version_1 else '')
    names = ('memory.max', 'cpu.max', 'memory.events', 'memory.limit_in_bytes', 'memory.oom_control')
    make_group(point / 'a', {**dict.fromkeys((*names, 'cpu.cfs_quota_us', 'cpu.cfs_period_us'), content)})
    make_group(point / 'a', {'memory.stat': f'hierarchical_memory_limit {content}'})
    with (tree.folder / 'proc' / 'self' / 'mountinfo').open('a') as file:
        file.writelines(f'{line}\n' for line in mounted)
    limits = limits_of(PID, tree.proc).within(10**9, 2)
    assert limits.memory is None or 0 <= limits.memory <= 10**9
    assert limits.quota is None or 0 < limits.quota <= 2
    kills = OOMKills(groups_of(PID, tree.proc), mounts(tree.proc))
    kills.read()
    kills.close()
    assert not kills.count
