from __future__ import annotations

import os
import resource
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.processes import SAMPLER_MARK
from gpu_tracker.processes.files import ProcessFiles
from gpu_tracker.processes.linux import LinuxProcessTree
from support.simulated_proc import PAGE, ProcFolder

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_tracker.processes.process import Process

ROOT = 50
INIT, SHELL, LAUNCHER, SAMPLER = 1, 20, 40, 999


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProcFolder:
    # Without descriptors to keep, files are opened anew: an ordinary file does not go away under an open descriptor.
    monkeypatch.setattr(resource, 'getrlimit', lambda _: (0, 0))
    folder = ProcFolder(tmp_path)
    folder.put(SHELL, INIT, group=SHELL, session=SHELL)
    folder.put(LAUNCHER, SHELL, group=LAUNCHER, session=SHELL)
    folder.put(ROOT, LAUNCHER, group=LAUNCHER, session=SHELL)
    return folder


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def open_tree(proc: ProcFolder, **options) -> LinuxProcessTree:
    return LinuxProcessTree(ROOT, **({'own_pid': SAMPLER, 'proc': str(proc.path), 'clock': proc.clock} | options))


def pids(tree: LinuxProcessTree) -> list[int]:
    return list(tree.members)


def test_the_descendants_that_are_there_are_found_and_no_others(proc: ProcFolder) -> None:
    for pid, parent in ((51, ROOT), (60, 51), (30, 60), (70, SHELL), (71, 70)):
        proc.put(pid, parent)
    assert sorted(pids(open_tree(proc))) == [30, 50, 51, 60]


def test_new_ones_are_found_with_their_own_children(proc: ProcFolder) -> None:
    tree = open_tree(proc)
    for pid, parent in ((35, 60), (60, ROOT), (90, SHELL)):
        proc.put(pid, parent)
    tree.refresh()
    assert pids(tree) == [ROOT, 60, 35]


def test_a_root_that_does_not_exist(proc: ProcFolder) -> None:
    with pytest.raises(ProcessLookupError):
        LinuxProcessTree(51, own_pid=SAMPLER, proc=str(proc.path))


def test_processes_of_others_are_read_once_at_the_start(proc: ProcFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    for pid, parent in ((51, ROOT), (60, 51), (70, SHELL), (71, 70), (72, 71)):
        proc.put(pid, parent)
    read = Counter[int]()
    read_parent, opened = ProcessFiles.parent, ProcessFiles.open

    def parent(files: ProcessFiles, pid: int) -> int | None:
        read[pid] += 1
        return read_parent(files, pid)

    def open_(files: ProcessFiles, pid: int) -> Process | None:
        read[pid] += 1
        return opened(files, pid)

    monkeypatch.setattr(ProcessFiles, 'parent', parent)
    monkeypatch.setattr(ProcessFiles, 'open', open_)
    assert pids(open_tree(proc)) == [ROOT, 51, 60]
    assert {pid: read[pid] for pid in (60, 70, 71, 72)} == {60: 2, 70: 1, 71: 1, 72: 1}


def test_who_is_read_below_a_parent_that_ends_meanwhile_is_found_below_its_adopter(
    proc: ProcFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = open_tree(proc)
    files = tree._files
    opened = type(files).open

    def open_while_60_ends(pid: int):
        process = opened(files, pid) if pid != 60 else None
        if pid == 61 and process.parent == 60:
            proc.remove(60)
            proc.put(61, ROOT, words=f'python\0-c\0x\0{SAMPLER_MARK}')
        return process

    monkeypatch.setattr(files, 'open', open_while_60_ends)
    proc.put(60, ROOT)
    proc.put(61, 60, words=f'python\0-c\0x\0{SAMPLER_MARK}')
    tree.refresh()
    assert (pids(tree), list(tree.samplers)) == ([ROOT], [61])


@pytest.mark.parametrize('together', [True, False])
def test_a_sampler_is_known_from_the_time_on_when_what_starts_it_still_runs(
    proc: ProcFolder,
    together: bool,
) -> None:
    words = f'sh\0-c\0x\0{SAMPLER_MARK}'
    tree = open_tree(proc)
    proc.put(60, ROOT, words=words)
    if not together:
        tree.refresh()
    proc.put(61, 60, words=words)
    tree.refresh()
    assert (pids(tree), list(tree.samplers)) == ([ROOT], [60, 61])
    proc.cpu[60] = 0.25
    tree.refresh()
    proc.remove(60)
    proc.put(61, ROOT, words=words)
    proc.cpu[61] = 1.5
    tree.refresh()
    proc.remove(61)
    tree.refresh()
    assert (pids(tree), list(tree.samplers)) == ([ROOT], [])
    assert tree.foreign_cpu == 1.75


def test_the_parent_of_a_sampler_has_its_name_and_is_no_member(proc: ProcFolder) -> None:
    tree = open_tree(proc)
    proc.put(60, ROOT)
    proc.put(61, ROOT, name='gput-sampler')
    tree.refresh()
    assert (pids(tree), list(tree.samplers)) == ([ROOT, 60], [61])
    proc.put(60, ROOT, name='gput-sampler')
    tree.refresh()
    tree.refresh()
    assert (pids(tree), list(tree.samplers)) == ([ROOT], [61, 60])


def test_samplers_are_no_members_whoever_started_them(proc: ProcFolder) -> None:
    proc.put(SAMPLER, ROOT)
    proc.put(60, ROOT, words=f'python\0-c\0x\0{SAMPLER_MARK}')
    proc.put(61, ROOT)
    tree = open_tree(proc)
    assert pids(tree) == [ROOT, 61]
    proc.put(61, ROOT, name='gput-sampler', words=f'python\0{SAMPLER_MARK}')
    tree.refresh()
    assert pids(tree) == [ROOT]


def counts(tree: LinuxProcessTree, pid: int) -> bool:
    return (tree.members[pid].resident, tree.members[pid].threads) != (0, 0)


def test_in_the_middle_of_exec_nothing_is_counted_however_long_it_takes(proc: ProcFolder) -> None:
    tree = open_tree(proc)
    in_exec = {'name': 'sh', 'words': '', 'pages': 3, 'arguments_end': 0}
    for pid in (60, 61):
        proc.put(pid, ROOT, **in_exec)
    for _ in range(3):
        tree.refresh()
        assert tree.members[60].threads == tree.members[61].threads == 0
        proc.put(60, ROOT, **in_exec)
    proc.put(60, ROOT, name='sh', words=SAMPLER_MARK)
    proc.put(61, ROOT, name='sh', words='sh')
    tree.refresh()
    assert pids(tree) == [ROOT, 61]
    assert counts(tree, 61)


def test_one_without_a_command_line_counts_from_the_second_sample_on(proc: ProcFolder) -> None:
    tree = open_tree(proc)
    proc.put(60, ROOT, words='')
    tree.refresh()
    proc.put(60, ROOT, words='')
    tree.refresh()
    assert counts(tree, 60)


def test_one_whose_first_thread_has_ended_counts(proc: ProcFolder) -> None:
    tree = open_tree(proc)
    for _ in range(2):
        proc.put(60, ROOT, words='', state='Z', threads=2, arguments_end=0)
        tree.refresh()
    assert counts(tree, 60)


@pytest.mark.parametrize('sample', [0, 1, 2])
def test_one_that_goes_while_it_is_read_counts_no_more(proc: ProcFolder, sample: int) -> None:
    tree = open_tree(proc)
    for _ in range(sample):
        proc.put(60, ROOT, words='')
        tree.refresh()
    proc.put(60, ROOT, name='other', words='')  # as after an exec
    for name in ('cmdline', 'statm'):
        (proc.path / '60' / name).unlink()
    tree.refresh()
    assert tree.members[60].ended
    assert not counts(tree, 60)


def test_the_time_of_a_sampler_that_a_member_reaps_is_told(proc: ProcFolder) -> None:
    proc.put(60, ROOT, words=SAMPLER_MARK)
    proc.cpu[60] = 1.5
    tree = open_tree(proc)
    tree.refresh()
    assert tree.foreign_cpu == 0
    proc.remove(60)
    tree.refresh()
    assert tree.foreign_cpu == 1.5


def test_one_whose_parent_ends_stays_and_its_new_parent_is_known(proc: ProcFolder) -> None:
    proc.put(60, ROOT)
    proc.put(61, 60)
    tree = open_tree(proc)
    proc.remove(60)
    before = proc.cpu[61]
    proc.put(61, INIT)
    proc.cpu[61] = before  # it has not run
    tree.refresh()
    assert pids(tree) == [ROOT, 61]
    assert [process.pid for process in tree.gone] == [60]
    assert tree.members[61].parent == INIT


def test_what_has_not_run_is_read_again_after_a_second(proc: ProcFolder) -> None:
    now = Clock()
    tree = open_tree(proc, monotonic=now)
    before = proc.cpu[ROOT]
    proc.put(ROOT, LAUNCHER, pages=10, of_files=2, faults=(1, 0, 0, 0))  # reclaimed by the kernel
    proc.cpu[ROOT] = before
    tree.refresh()
    assert tree.root.resident == 100 * PAGE
    now.now = 1.0
    tree.refresh()
    assert (tree.root.resident, tree.root.files) == (10 * PAGE, 2 * PAGE)


def test_without_process_clocks_the_ticks_stand(proc: ProcFolder) -> None:
    def no_clock(pid: int) -> float:
        raise OSError(pid)

    tree = open_tree(proc, clock=no_clock)
    proc.put(ROOT, LAUNCHER, ticks=(30, 20, 0, 0))
    tree.refresh()
    assert tree.root.own_cpu == 50 / os.sysconf('SC_CLK_TCK')


def test_a_pid_that_is_used_again_is_another_process(proc: ProcFolder) -> None:
    proc.put(60, ROOT, start=200)
    tree = open_tree(proc)
    proc.put(60, SHELL, start=300)
    tree.refresh()
    assert pids(tree) == [ROOT]
    assert [process.pid for process in tree.gone] == [60]


def test_a_pid_that_is_used_again_by_a_descendant_is_a_new_member(proc: ProcFolder) -> None:
    proc.put(60, ROOT, start=200)
    tree = open_tree(proc)
    before = tree.members[60]
    proc.put(60, ROOT, start=300)
    tree.refresh()
    assert pids(tree) == [ROOT, 60]
    assert tree.members[60] is not before


def test_the_end_of_the_root_is_told_and_its_descendants_stay(proc: ProcFolder) -> None:
    proc.put(60, ROOT)
    tree = open_tree(proc)
    proc.put(ROOT, LAUNCHER, state='Z')
    tree.refresh()
    assert (tree.root.ended, tree.root_gone, tree.root.resident) == (True, False, 0)
    proc.remove(ROOT)
    tree.refresh()
    assert tree.root_gone
    assert pids(tree) == [60]


def test_the_launcher_adopts_nobody_but_the_orphans_of_the_command(proc: ProcFolder) -> None:
    proc.put(45, LAUNCHER)  # was there before: the launcher's own
    tree = open_tree(proc, launcher=LAUNCHER)
    proc.put(61, LAUNCHER)
    tree.refresh()
    assert pids(tree) == [ROOT, 61]


def leave_an_orphan(proc: ProcFolder) -> None:
    proc.put(SAMPLER - 1, INIT, group=7, session=7)  # a daemon, perhaps another program's


def test_a_stranger_alone_is_no_orphan_of_the_tree(proc: ProcFolder) -> None:
    proc.put(60, ROOT, faults=(1, 9, 0, 0))
    tree = open_tree(proc)
    leave_an_orphan(proc)
    for _ in range(3):
        tree.refresh()
    proc.put(ROOT, LAUNCHER, faults=(1, 9, 0, 0))  # it has reaped a child later
    tree.refresh()
    assert not tree.may_miss_orphans


@pytest.mark.parametrize('is_seen_later', [False, True])
def test_an_orphan_in_the_roots_session_is_found_with_its_children(proc: ProcFolder, is_seen_later: bool) -> None:
    proc.put(60, ROOT)
    proc.put(ROOT, LAUNCHER, session=5)
    tree = open_tree(proc)
    if not is_seen_later:
        end_descendant(proc, 'reaped unseen')
    proc.put(SAMPLER - 2, INIT, group=7, session=5)
    proc.put(SAMPLER - 1, SAMPLER - 2, group=7, session=5)
    tree.refresh()
    if is_seen_later:
        assert pids(tree) == [ROOT, 60]
        proc.put(60, ROOT, state='Z', session=5)
        tree.refresh()
    assert pids(tree) == [ROOT, 60, SAMPLER - 2, SAMPLER - 1]
    assert not tree.may_miss_orphans


@pytest.mark.parametrize('is_seen_later', [False, True])
@pytest.mark.parametrize('way', ['ended', 'gone', 'reaped unseen', 'zombie', 'reaped by a new one'])
def test_a_stranger_beside_the_end_of_a_descendant_may_be_its_orphan(
    proc: ProcFolder, way: str, is_seen_later: bool
) -> None:
    proc.put(60, ROOT)
    tree = open_tree(proc)
    end_descendant(proc, way)
    if is_seen_later:
        tree.refresh()
        assert not tree.may_miss_orphans
    leave_an_orphan(proc)
    tree.refresh()
    assert tree.may_miss_orphans


def end_descendant(proc: ProcFolder, way: str) -> None:
    if way == 'ended':
        proc.put(60, ROOT, state='Z')
    elif way == 'gone':
        proc.remove(60)
    elif way == 'reaped unseen':
        proc.put(60, ROOT, faults=(1, 9, 0, 0))
    elif way == 'zombie':
        proc.put(61, ROOT, state='Z')  # for as long as the root does not wait for it
    else:
        proc.put(61, ROOT, faults=(1, 9, 0, 0))


def test_a_process_that_runs_in_the_memory_of_its_parent_does_not_count(proc: ProcFolder) -> None:
    tree = open_tree(proc)
    same = {'image': (1000 + ROOT, 2000 + ROOT, 3000 + ROOT)}
    proc.put(ROOT, 1, state='D')
    proc.put(60, ROOT, **same)
    proc.put(61, ROOT, pages=60, of_files=1, **same)
    proc.put(62, ROOT)
    tree.refresh()
    shares = {pid: (process.shares_memory, process.forked) for pid, process in tree.members.items()}
    assert shares == {ROOT: (False, False), 60: (True, True), 61: (False, True), 62: (False, False)}
    proc.put(60, ROOT, name='true', pages=5, of_files=4)
    tree.refresh()
    assert not tree.members[60].shares_memory
    assert tree.members[60].resident == 5 * PAGE


def test_a_copy_of_the_same_size_counts_where_its_parent_does_not_wait_for_it(proc: ProcFolder) -> None:
    tree = open_tree(proc)
    proc.put(60, ROOT, image=(1000 + ROOT, 2000 + ROOT, 3000 + ROOT))
    tree.refresh()
    assert (tree.members[60].shares_memory, tree.members[60].forked) == (False, True)


def test_the_memory_of_a_held_command_is_its_launchers_until_it_has_called_exec(proc: ProcFolder) -> None:
    tree = open_tree(proc, launcher=LAUNCHER, held=True)
    assert tree.root.shares_memory
    proc.put(ROOT, LAUNCHER, faults=(5, 0, 0, 0), image=(1000 + ROOT, 2000 + ROOT, 3000 + ROOT))
    tree.refresh_root()
    assert tree.root.shares_memory
    proc.put(ROOT, LAUNCHER, name='true', image=(1, 2, 3))
    tree.refresh_root()
    assert not tree.root.shares_memory


def test_a_hidden_process_is_passed_over(proc: ProcFolder) -> None:
    (proc.path / '77').mkdir()  # there, but its files are not, as with the mount option hidepid
    tree = open_tree(proc)
    tree.refresh()
    assert pids(tree) == [ROOT]


def test_more_processes_than_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = len(os.listdir('/proc/self/fd')) + 64 + 3
    monkeypatch.setattr(resource, 'getrlimit', lambda _: (limit, limit))
    children = [os.posix_spawn('/bin/sleep', ['sleep', '60'], {}) for _ in range(20)]
    try:
        tree = LinuxProcessTree(os.getpid(), own_pid=0)
        tree.refresh()
        members = [tree.members[pid] for pid in children]
        assert any(process.handle is None for process in members)
        assert all(process.resident > 0 for process in members)
    finally:
        for pid in children:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
    tree.refresh()
    assert not set(children) & set(tree.members)
    assert {process.pid for process in tree.gone} >= set(children)
    for process in list(tree.members.values()):
        tree._files.close(process)


def test_the_size_at_the_previous_sample_is_known(proc: ProcFolder) -> None:
    tree = open_tree(proc)
    proc.put(ROOT, LAUNCHER, pages=150, faults=(1, 0, 0, 0))
    tree.refresh()
    assert (tree.root.resident_before, tree.root.resident) == (100 * PAGE, 150 * PAGE)
    tree.refresh()  # it has not run
    assert (tree.root.resident_before, tree.root.resident) == (150 * PAGE, 150 * PAGE)


def test_another_program_begins_its_mark_anew_and_is_nobodys_copy(proc: ProcFolder) -> None:
    tree = open_tree(proc)
    proc.put(60, ROOT, image=(1000 + ROOT, 2000 + ROOT, 3000 + ROOT))
    tree.refresh()
    process = tree.members[60]
    process.mark, process.most, process.huge = 7, 8, 9
    assert (process.forked, process.relative, process.programs) == (True, tree.root, 0)
    proc.put(60, ROOT, image=(1, 2, 3))
    tree.refresh()
    assert (process.forked, process.relative, process.programs) == (False, None, 1)
    assert (process.mark, process.most, process.huge) == (None, 0, 0)


def test_who_may_have_reaped_one_that_is_gone_is_read_again(proc: ProcFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    proc.put(60, ROOT)
    tree = open_tree(proc)
    line = tree._files.line

    def line_while_the_root_reaps(process: Process) -> bytes:
        if process.pid == 60 and 60 in proc.cpu:
            proc.remove(60)
            proc.put(ROOT, LAUNCHER, ticks=(0, 0, 20, 0))
        return line(process)

    monkeypatch.setattr(tree._files, 'line', line_while_the_root_reaps)
    proc.cpu[60] += 1.0
    tree.refresh()
    assert tree.root.reaped_cpu == 20 / os.sysconf('SC_CLK_TCK')


def test_a_copy_is_one_of_its_parent(proc: ProcFolder) -> None:
    tree = open_tree(proc)
    image = (1000 + ROOT, 2000 + ROOT, 3000 + ROOT)
    proc.put(60, ROOT, pages=90, of_files=40, image=image)
    tree.refresh()
    process = tree.members[60]
    assert (process.forked, process.relative) == (True, tree.root)


def test_a_copy_whose_parent_has_ended_is_one_of_the_largest_of_its_family(proc: ProcFolder) -> None:
    image = (1000 + ROOT, 2000 + ROOT, 3000 + ROOT)
    proc.put(60, ROOT, pages=200, of_files=40, image=image)
    tree = open_tree(proc, launcher=LAUNCHER)
    proc.put(61, LAUNCHER, pages=190, of_files=40, image=image)
    tree.refresh()
    assert tree.members[61].relative is tree.members[60]


def test_another_program_is_nobodys_copy(proc: ProcFolder) -> None:
    tree = open_tree(proc)
    proc.put(60, ROOT)
    tree.refresh()
    process = tree.members[60]
    assert (process.relative, process.forked) == (None, False)


def test_the_command_line_is_read_once_a_program(proc: ProcFolder) -> None:
    proc.put(ROOT, LAUNCHER, group=LAUNCHER, session=SHELL, words='python\0launch.py')
    proc.put(51, ROOT, words='sh\0run.sh')
    tree = open_tree(proc)
    assert [process.command_line for process in tree.members.values()] == [b'python\0launch.py\0', b'sh\0run.sh\0']
    proc.put(51, ROOT, words='not read')
    proc.put(ROOT, LAUNCHER, group=LAUNCHER, session=SHELL, words='python\0train.py', image=(1, 2, 3))
    tree.refresh()
    assert [process.command_line for process in tree.members.values()] == [b'python\0train.py\0', b'sh\0run.sh\0']
