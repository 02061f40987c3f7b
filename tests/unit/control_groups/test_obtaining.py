"""Where a control group can be had, on recorded trees and with a stand-in for systemd."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.control_groups import marks
from gpu_tracker.control_groups.delegation import Delegation
from gpu_tracker.control_groups.obtaining import NoGroupError, obtain
from gpu_tracker.control_groups.scopes import NoScopeError, Scope
from support.control_group_trees import PID, GroupTree, make_group
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NAMESPACE = os.stat('/proc/self/ns/pid').st_ino
SESSION = '/user.slice/user-1000.slice/session-3.scope'
MANAGER = '/user.slice/user-1000.slice/user@1000.service'


@pytest.fixture
def tree(tmp_path: Path) -> GroupTree:
    return GroupTree(tmp_path)


def stand_in(tree: GroupTree, group: str) -> None:
    """Put this process into a group of version 2."""
    (tree.folder / 'proc/self/cgroup').write_text(f'0::{group}\n')


def no_scope(pid: int) -> Scope:
    raise NoScopeError('there is no systemd')


def test_the_name_of_a_group_says_whose_it_is() -> None:
    name = marks.own_name()
    assert name.startswith(f'gpu-tracker-run-{os.getpid()}-')
    assert name.endswith(f'-{NAMESPACE}')
    assert not marks.is_abandoned(name)


@pytest.mark.parametrize(
    ('name', 'is_abandoned'),
    [
        (f'gpu-tracker-run-1-1-{NAMESPACE}', True),  # another process had that number
        (f'gpu-tracker-run-{2**22 + 1}-1-{NAMESPACE}', True),
        (f'gpu-tracker-run-{2**22 + 1}-1-1', False),  # it is numbered elsewhere
        ('gpu-tracker-run-1', False),
        ('user.slice', False),
        ('gpu-tracker-idle-4711-4026531836-0123456789abcdef.12', False),
    ],
)
def test_a_group_is_abandoned_where_its_tracker_is_no_more(name: str, is_abandoned: bool) -> None:
    assert marks.is_abandoned(name) == is_abandoned


def test_controllers_that_are_given_on_are_used(tmp_path: Path) -> None:
    files = {'cgroup.controllers': 'cpu io memory', 'cgroup.subtree_control': 'io memory', 'cgroup.procs': ''}
    delegation = Delegation(str(make_group(tmp_path / 'own', files)), [])
    assert (delegation.controllers, delegation.strangers) == ({'io', 'memory'}, [])


def test_processes_of_others_are_not_moved(tmp_path: Path) -> None:
    files = {
        'cgroup.controllers': 'memory',
        'cgroup.subtree_control': '',
        'cgroup.procs': '7\n8',
        'cgroup.type': 'domain',
    }
    folder = make_group(tmp_path / 'own', files)
    delegation = Delegation(str(folder), [8])
    assert (delegation.controllers, delegation.strangers) == (set(), [7])
    assert [path.name for path in folder.iterdir() if path.is_dir()] == []


def test_this_process_makes_room_for_controllers(tmp_path: Path) -> None:
    """In a folder of a test no file appears in a new group: the process cannot be put into it."""
    files = {'cgroup.controllers': 'memory', 'cgroup.subtree_control': '', 'cgroup.procs': '8', 'cgroup.type': 'domain'}
    folder = make_group(tmp_path / 'own', files)
    assert Delegation(str(folder), [8]).controllers == set()
    assert [path.name for path in folder.iterdir() if path.is_dir()] == []


def test_groups_that_may_be_in_use_are_kept(tmp_path: Path) -> None:
    folder = make_group(tmp_path / 'own', {'cgroup.controllers': '', 'cgroup.subtree_control': '', 'cgroup.procs': ''})
    abandoned = f'gpu-tracker-run-{2**22 + 1}-1-{NAMESPACE}'
    make_group(folder / abandoned, {'cgroup.events': 'populated 1\nfrozen 0'})
    make_group(folder / marks.own_name(), {'cgroup.events': 'populated 0\nfrozen 0'})
    Delegation(str(folder), [])
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == sorted([abandoned, marks.own_name()])


def test_without_control_groups_there_is_none(tree: GroupTree) -> None:
    stand_in(tree, '/')
    with pytest.raises(NoGroupError, match=r'^no control groups are mounted here$'):
        obtain(PID, proc=tree.proc, open_scope=no_scope)


def test_a_group_of_memory_that_is_not_mounted_here_is_named(tree: GroupTree) -> None:
    point = tree.mount('groups')
    (tree.folder / 'proc/self/cgroup').write_text('4:memory:/own\n0::/own\n')
    make_group(point / 'own', {'cgroup.controllers': '', 'cgroup.subtree_control': '', 'cgroup.procs': ''})
    with pytest.raises(NoGroupError, match=r'^the control group for memory is not mounted here; there is no systemd; '):
        obtain(PID, proc=tree.proc, open_scope=no_scope)


def test_why_there_is_none_is_said_of_each_way(tree: GroupTree) -> None:
    point = tree.mount('groups')
    stand_in(tree, '/own')
    make_group(point / 'own', {'cgroup.controllers': '', 'cgroup.subtree_control': '', 'cgroup.procs': ''})
    # In a folder of a test no file appears in a new group.
    reason = '^there is no systemd; the command cannot be put into it: No such file or directory$'
    with pytest.raises(NoGroupError, match=reason):
        obtain(PID, proc=tree.proc, open_scope=no_scope)
    assert [path.name for path in (point / 'own').iterdir() if path.is_dir()] == []


class Manager:
    """Stands in for busctl and systemd's manager: puts processes into the scope that it is asked for."""

    def __init__(self, tree: GroupTree, *, code: int = 0, said: str = '') -> None:
        self.tree = tree
        self.words: list[str] = []
        self.answer = code, said

    def __call__(self, words: Sequence[str]) -> tuple[int, str]:
        self.words = list(words)
        if self.answer[0] == 0:
            name = self.words[self.words.index('fail') - 1]
            files = {'cgroup.controllers': 'memory pids', 'cgroup.subtree_control': 'memory pids', 'cgroup.procs': ''}
            make_group(self.tree.folder / f'groups{MANAGER}/app.slice/{name}', files)
            at = self.words.index('au')
            for pid in self.words[at + 2 : at + 2 + int(self.words[at + 1])]:
                (self.tree.folder / 'proc' / pid).mkdir(exist_ok=True)
                (self.tree.folder / 'proc' / pid / 'cgroup').write_text(f'0::{MANAGER}/app.slice/{name}\n')
        return self.answer


def test_a_scope_of_systemd_has_the_command_and_a_keeper(tree: GroupTree) -> None:
    tree.mount('groups')
    stand_in(tree, SESSION)
    manager = Manager(tree)
    scope = Scope(PID, proc=tree.proc, booted=tree.proc, run=manager)
    assert scope.delegation.controllers == {'memory', 'pids'}
    words = ' '.join(manager.words)
    assert words.startswith(f'busctl {"--system" if os.geteuid() == 0 else "--user"} ')
    assert f' StartTransientUnit ssa(sv)a(sa(sv)) {marks.own_name()}.scope fail 4 ' in words
    assert f' {PID} Delegate b true CollectMode s inactive-or-failed 0' in words
    keeper = int(manager.words[manager.words.index('au') + 2])
    assert os.path.exists(f'/proc/{keeper}')
    scope.close()
    eventually(lambda: not os.path.exists(f'/proc/{keeper}'))


@pytest.mark.parametrize(
    'group',
    [
        '/system.slice/cron.service',
        '/system.slice/slurmstepd.scope/job_7/step_0/user/task_0',
        f'{MANAGER}/app.slice/jobs.service',
    ],
)
def test_a_job_or_a_service_loses_no_process_to_a_scope(tree: GroupTree, group: str) -> None:
    tree.mount('groups')
    stand_in(tree, group)
    with pytest.raises(NoScopeError, match=f'^the control group {group} may belong to a job or service, so gpu-'):
        Scope(PID, proc=tree.proc, booted=tree.proc, run=Manager(tree))


@pytest.mark.parametrize(
    ('name', 'limit', 'what'), [('memory.max', '1000', 'memory'), ('cpu.max', '50000 100000', 'CPU time')]
)
def test_a_scope_lifts_no_limit(tree: GroupTree, name: str, limit: str, what: str) -> None:
    folder = make_group(tree.mount('groups') / SESSION[1:], {'memory.max': 'max', 'cpu.max': 'max 100000', name: limit})
    stand_in(tree, SESSION)
    with pytest.raises(NoScopeError, match=f'^{folder} limits {what}, and a new scope would not have this limit$'):
        Scope(PID, proc=tree.proc, booted=tree.proc, run=Manager(tree))


def test_a_manager_that_gives_none_is_quoted(tree: GroupTree) -> None:
    tree.mount('groups')
    stand_in(tree, SESSION)
    manager = Manager(tree, code=1, said='Failed to connect to bus: No medium found\n')
    with pytest.raises(NoScopeError, match=r'did not create a scope: Failed to connect to bus: No medium found$'):
        Scope(PID, proc=tree.proc, booted=tree.proc, run=manager)


def test_without_systemd_there_is_no_scope(tmp_path: Path) -> None:
    with pytest.raises(NoScopeError, match=r'^systemd does not run here$'):
        Scope(PID, booted=str(tmp_path / 'nowhere'))
