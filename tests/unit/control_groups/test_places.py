"""Where the groups of a process stand, on folders that are written here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.control_groups.places import (
    Group,
    Mount,
    folder_of,
    folders_up,
    group_with,
    groups_of,
    mounts,
    unified_group,
)
from support.control_group_trees import PID, GroupTree

if TYPE_CHECKING:
    from pathlib import Path

HYBRID = ('12:cpu,cpuacct:/user.slice', '5:memory:/slurm/job_7', '1:name=systemd:/user.slice', '0::/user.slice')


@pytest.fixture
def tree(tmp_path: Path) -> GroupTree:
    return GroupTree(tmp_path)


def folder(tree: GroupTree, controller: str | None = None) -> str | None:
    groups = groups_of(PID, tree.proc)
    group = unified_group(groups) if controller is None else group_with(groups, controller)
    return folder_of(group, mounts(tree.proc))


def test_both_versions_stand_side_by_side(tree: GroupTree) -> None:
    tree.in_groups(*HYBRID)
    tree.mount('cgroup/cpu,cpuacct', controllers='cpu,cpuacct')
    tree.mount('cgroup/memory', controllers='memory')
    tree.mount('cgroup/unified')
    assert folder(tree, 'memory') == f'{tree.folder}/cgroup/memory/slurm/job_7'
    assert folder(tree, 'cpu') == folder(tree, 'cpuacct') == f'{tree.folder}/cgroup/cpu,cpuacct/user.slice'
    assert folder(tree) == f'{tree.folder}/cgroup/unified/user.slice'
    assert group_with(groups_of(PID, tree.proc), 'pids') is None


def test_a_hierarchy_that_is_not_mounted_has_no_folders(tree: GroupTree) -> None:
    tree.in_groups(*HYBRID)
    tree.mount('cgroup/cpu', controllers='cpu')
    assert folder(tree, 'memory') is None
    assert folder(tree) is None
    assert folder(tree, 'cpu') is None  # which is with cpuacct, and that is another hierarchy


@pytest.mark.parametrize(
    ('path', 'root', 'expected'),
    [
        ('/', '/', ''),
        ('/a/b', '/', 'a/b'),
        ('/docker/7/inner', '/docker/7', 'inner'),
        ('/docker/7', '/docker/7', ''),
        ('/docker/70', '/docker/7', None),
        ('/docker', '/docker/7', None),
        ('/', '/..', None),
        ('/..', '/', None),
        ('/../outside', '/', None),
        ('/../outside', '/..', 'outside'),
        ('/../../outside', '/..', None),
        ('/..a', '/', '..a'),
    ],
)
def test_what_lies_outside_of_a_mount_or_of_a_namespace_has_no_folder(
    tree: GroupTree, path: str, root: str, expected: str | None
) -> None:
    tree.in_groups(f'0::{path}')
    tree.mount('cgroup', root=root)
    assert folder(tree) == (None if expected is None else f'{tree.folder}/cgroup/{expected}'.rstrip('/'))


def test_the_groups_around_end_at_the_mount_point(tree: GroupTree) -> None:
    tree.in_groups('0::/docker/7/a/b')
    point = tree.mount('my groups', root='/docker/7')
    (group,) = groups_of(PID, tree.proc)
    assert folders_up(group, mounts(tree.proc)) == [f'{point}/a/b', f'{point}/a', f'{point}']


def test_the_second_of_two_mounts_may_show_what_the_first_does_not(tree: GroupTree) -> None:
    tree.in_groups('0::/pods/1/main')
    tree.mount('here', root='/pods/2')
    tree.mount('there', root='/pods/1')
    assert folder(tree) == f'{tree.folder}/there/main'


def test_a_group_that_is_gone_is_known_by_its_name(tree: GroupTree) -> None:
    tree.in_groups('4:memory:/x (deleted)', '0::/a (b) (deleted)')
    memory, unified = groups_of(PID, tree.proc)
    assert (unified.path, unified.is_removed) == ('/a (b)', True)
    assert memory.path == '/x'
    assert not Group((), '/a').is_removed


def test_there_is_nothing_without_proc(tree: GroupTree) -> None:
    with pytest.raises(FileNotFoundError):
        groups_of(PID, str(tree.folder / 'nowhere'))
    with pytest.raises(FileNotFoundError):
        mounts(str(tree.folder / 'nowhere'))


NAMES = st.text(st.characters(exclude_characters='/\0\n', codec='utf-8'), min_size=1).filter(
    lambda name: name not in {'.', '..'} and not name.endswith(' (deleted)')
)


@given(st.lists(NAMES, max_size=4), st.lists(NAMES, max_size=3))
def test_any_names_of_groups_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, above: list[str], below: list[str]
) -> None:
    tree = GroupTree(tmp_path_factory.mktemp('tree'))
    root = '/' + '/'.join(above)
    path = '/' + '/'.join(above + below)
    tree.in_groups(f'7:a:b:/x:{path[1:]}', f'0::{path}')
    tree.mount('a point', root=root)
    found = groups_of(PID, tree.proc)
    assert [group.path for group in found] == [f'b:/x:{path[1:]}', path]
    assert mounts(tree.proc)[0].root == root
    assert folder(tree) == '/'.join([f'{tree.folder}/a point', *below])


def test_a_mount_at_the_root_of_the_file_system_has_folders_too() -> None:
    mounted = [Mount('cgroup2', ('rw',), '/', '/')]
    assert folders_up(Group((), '/a/b'), mounted) == ['/a/b', '/a', '/']
