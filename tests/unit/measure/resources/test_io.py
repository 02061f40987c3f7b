"""I/O of a tree, from counters that a test sets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.processes.process import Process
from gpu_tracker.resources import FIRST, MIDDLE
from gpu_tracker.resources.io.groups import Io, UnknownIo
from gpu_tracker.resources.io.portable import PortableIo, PsutilFigures
from gpu_tracker.resources.io.readers import BYTES, IoFiles

if TYPE_CHECKING:
    from pathlib import Path

STAT = b'%d (worker) S %d 1 1 0 -1 4194304 %d %d %d %d 0 0 0 0 20 0 1 0 8812 1000 50 ' + b'0 ' * 30


class Tree:
    """Members that a test puts in; the first one is the root."""

    def __init__(self) -> None:
        self.members: dict[int, Process] = {}
        self.gone: list[Process] = []
        self.changes = 0
        self.ignoring: set[int] = set()
        self.root = self.put(10, parent=1)
        self.root_gone = False

    def put(self, pid: int, parent: int = 10, faults: tuple[int, int, int, int] = (0, 0, 0, 0)) -> Process:
        """Add a process: its minor faults, those of reaped children, its major faults, and those of reaped children."""
        process = self.members.setdefault(pid, Process(pid))
        process.parent = parent
        process.raw = STAT % (pid, parent, *faults)
        process.reaped_faults = faults[1] + faults[3]
        self.changes += 1
        return process

    def end(self, *pids: int) -> None:
        self.gone = [self.members.pop(pid) for pid in pids]
        self.changes += 1

    def ignores_children(self, process: Process) -> bool:
        return process.pid in self.ignoring


class Files:
    """What the kernel says of each process: bytes read and written, of itself alone and with children."""

    def __init__(self) -> None:
        self.whole: dict[int, tuple[int, int]] = {}
        self.alone: dict[int, tuple[int, int]] = {}
        self.forbidden: set[int] = set()
        self.forgotten: list[int] = []
        self.reaped_just_now = 0
        """Page faults of children that the root has waited for since the tree was refreshed."""
        self.when_read: dict[int, object] = {}
        """What happens in the moment at which a process is read."""

    def read(self, process: Process) -> tuple[int, ...] | None:
        if process.pid in self.forbidden:
            raise PermissionError(process.pid)
        found = self.whole.get(process.pid)
        if process.pid in self.when_read:
            self.when_read.pop(process.pid)()
        return None if found is None else (*found, 0, 0, 0)

    def own(self, process: Process) -> tuple[int, ...] | None:
        found = self.alone.get(process.pid)
        return None if found is None else (*found, 0, 0, 0)

    def has_waited(self, process: Process, faults: int) -> bool:
        return process.reaped_faults + self.reaped_just_now != faults

    def forget(self, process: Process) -> None:
        self.forgotten.append(process.pid)


@pytest.fixture
def tree() -> Tree:
    return Tree()


@pytest.fixture
def files() -> Files:
    return Files()


def read_and_written(io: Io) -> dict[str, list[int | None]]:
    return {group: found['bytes'][:2] for group, found in io.totals().items()}


def test_counters_count_from_the_first_sample_on(tree: Tree, files: Files) -> None:
    files.whole = {10: (1000, 2000)}
    files.alone = {10: (900, 1900)}
    io = Io(tree, files)
    io.sample(0.0, FIRST)
    assert read_and_written(io) == {'main': [0, 0], 'descendants': [0, 0], 'combined': [0, 0]}
    files.whole[10], files.alone[10] = (1300, 2005), (1100, 1905)
    io.sample(1.0, MIDDLE)
    # Without a child the whole counts: threads that have ended are missing in what the others tell.
    assert read_and_written(io) == {'main': [300, 5], 'descendants': [0, 0], 'combined': [300, 5]}


def test_a_child_that_was_waited_for_counts_with_all_that_it_has_done(tree: Tree, files: Files) -> None:
    files.whole = files.alone = {10: (100, 100)}
    io = Io(tree, files)
    io.sample(0.0, FIRST)
    tree.put(11)
    files.whole = {10: (100, 100), 11: (40, 0)}
    io.sample(1.0, MIDDLE)
    assert read_and_written(io) == {'main': [0, 0], 'descendants': [40, 0], 'combined': [40, 0]}
    # It has read 60 more before it ended; the root has read 3 itself.
    tree.end(11)
    tree.put(10, parent=1, faults=(0, 9, 0, 0))
    files.whole, files.alone = {10: (203, 100)}, {10: (103, 100)}
    io.sample(2.0, MIDDLE)
    assert read_and_written(io) == {'main': [3, 0], 'descendants': [100, 0], 'combined': [103, 0]}
    assert files.forgotten == [11]


def test_a_child_that_no_sample_has_seen_is_no_part_of_main(tree: Tree, files: Files) -> None:
    files.whole = files.alone = {10: (0, 0)}
    io = Io(tree, files)
    io.sample(0.0, FIRST)
    tree.put(10, parent=1, faults=(0, 9, 0, 0))
    files.whole = {10: (0, 700)}
    io.sample(1.0, MIDDLE)
    assert read_and_written(io) == {'main': [0, 0], 'descendants': [0, 700], 'combined': [0, 700]}


def test_what_a_child_had_done_before_the_start_does_not_count_when_it_is_waited_for(tree: Tree, files: Files) -> None:
    tree.put(11)
    files.whole = {10: (0, 0), 11: (500, 0)}
    files.alone = {10: (0, 0)}
    io = Io(tree, files)
    io.sample(0.0, FIRST)
    tree.end(11)
    tree.put(10, parent=1, faults=(0, 9, 0, 0))
    files.whole = {10: (520, 0)}
    io.sample(1.0, MIDDLE)
    assert read_and_written(io) == {'main': [0, 0], 'descendants': [20, 0], 'combined': [20, 0]}


@pytest.mark.parametrize('parent', [1, 10])
def test_what_nobody_in_the_tree_is_told_of_is_kept(tree: Tree, files: Files, parent: int) -> None:
    files.whole = files.alone = {10: (0, 0)}
    io = Io(tree, files)
    io.sample(0.0, FIRST)
    tree.put(11, parent=parent)
    tree.ignoring = {10}
    files.whole = {10: (0, 0), 11: (30, 0)}
    io.sample(1.0, MIDDLE)
    tree.end(11)
    files.whole = {10: (0, 0)}
    io.sample(2.0, MIDDLE)
    io.sample(3.0, MIDDLE)  # nothing has changed: it is still the same that is gone
    assert read_and_written(io)['combined'] == [30, 0]


def test_a_child_that_is_waited_for_while_the_members_are_read_counts_once(tree: Tree, files: Files) -> None:
    files.whole = files.alone = {10: (0, 0)}
    io = Io(tree, files)
    io.sample(0.0, FIRST)
    tree.put(11)
    files.whole = {10: (0, 0), 11: (40, 0)}
    io.sample(1.0, MIDDLE)

    def end() -> None:  # after the root has been read
        files.whole = {10: (45, 0)}

    files.when_read[10] = end
    io.sample(2.0, MIDDLE)
    assert read_and_written(io)['combined'] == [45, 0]


def test_a_child_that_is_waited_for_before_a_reading_and_leaves_the_tree_with_the_root_counts_once(
    tree: Tree, files: Files
) -> None:
    files.whole = files.alone = {10: (0, 0)}
    io = Io(tree, files)
    io.sample(0.0, FIRST)
    tree.put(11)
    tree.put(12, parent=11)
    files.whole = {10: (0, 0), 11: (0, 10), 12: (0, 6)}
    io.sample(1.0, MIDDLE)
    files.whole = {10: (0, 18)}  # the tree has not been refreshed since
    io.sample(2.0, MIDDLE)
    tree.end(10, 11, 12)
    files.whole = {}
    io.sample(3.0, MIDDLE)
    assert read_and_written(io)['combined'] == [0, 18]


def test_a_child_that_is_waited_for_just_before_the_root_is_read_is_no_part_of_main(tree: Tree, files: Files) -> None:
    files.whole = files.alone = {10: (0, 0)}
    io = Io(tree, files)
    io.sample(0.0, FIRST)
    files.reaped_just_now = 9
    files.whole, files.alone = {10: (41, 0)}, {10: (1, 0)}
    io.sample(1.0, MIDDLE)
    assert read_and_written(io) == {'main': [1, 0], 'descendants': [40, 0], 'combined': [41, 0]}


def test_two_children_that_are_waited_for_while_the_members_are_read_count_once(tree: Tree, files: Files) -> None:
    files.whole = files.alone = {10: (0, 0)}
    io = Io(tree, files)
    io.sample(0.0, FIRST)
    tree.put(11)
    tree.put(12)
    files.whole = {10: (0, 0), 11: (40, 0), 12: (60, 0)}
    io.sample(1.0, MIDDLE)

    def end_second() -> None:  # when all had been read once, the first one of which was gone
        files.whole = {10: (100, 0)}

    files.whole = {10: (40, 0), 12: (60, 0)}
    files.when_read[12] = end_second
    io.sample(2.0, MIDDLE)
    assert read_and_written(io)['combined'] == [100, 0]


def test_threads_that_ended_before_the_first_child_stay_a_part_of_main(tree: Tree, files: Files) -> None:
    files.whole = files.alone = {10: (0, 0)}
    io = Io(tree, files)
    io.sample(0.0, FIRST)
    files.whole, files.alone = {10: (1000, 0)}, {10: (100, 0)}  # threads that have ended have read 900
    io.sample(1.0, MIDDLE)
    tree.put(10, parent=1, faults=(0, 9, 0, 0))
    files.whole, files.alone = {10: (1057, 0)}, {10: (150, 0)}
    io.sample(2.0, MIDDLE)
    assert read_and_written(io) == {'main': [1050, 0], 'descendants': [7, 0], 'combined': [1057, 0]}


def test_what_the_root_writes_between_two_readings_of_one_sample_stays_a_part_of_main(tree: Tree, files: Files) -> None:
    files.whole = files.alone = {10: (0, 0)}
    io = Io(tree, files)
    io.sample(0.0, FIRST)

    def write() -> None:  # after all that it and its children have written was read, before what it has itself
        files.alone = {10: (0, 140)}

    files.whole = files.alone = {10: (0, 100)}
    files.when_read[10] = write
    io.sample(1.0, MIDDLE)
    tree.put(10, parent=1, faults=(0, 9, 0, 0))
    files.whole, files.alone = {10: (0, 207)}, {10: (0, 200)}
    io.sample(2.0, MIDDLE)
    assert read_and_written(io) == {'main': [0, 200], 'descendants': [0, 7], 'combined': [0, 207]}


def test_what_the_root_reads_while_its_counters_are_read_is_no_negative_figure(tree: Tree, files: Files) -> None:
    files.whole = files.alone = {10: (0, 0)}
    io = Io(tree, files)
    io.sample(0.0, FIRST)
    tree.put(10, parent=1, faults=(0, 9, 0, 0))
    files.whole, files.alone = {10: (50, 0)}, {10: (53, 0)}
    io.sample(1.0, MIDDLE)
    assert read_and_written(io) == {'main': [53, 0], 'descendants': [0, 0], 'combined': [53, 0]}


def test_the_end_of_the_root_keeps_what_it_had(tree: Tree, files: Files) -> None:
    files.whole = files.alone = {10: (0, 0)}
    io = Io(tree, files)
    io.sample(0.0, FIRST)
    tree.put(11)
    files.whole = {10: (7, 0), 11: (40, 0)}
    io.sample(1.0, MIDDLE)
    tree.end(10)
    files.whole = {11: (50, 0)}
    io.sample(2.0, MIDDLE)
    assert read_and_written(io) == {'main': [7, 0], 'descendants': [50, 0], 'combined': [57, 0]}


def test_another_users_process_makes_its_groups_unknown_and_is_told_once(tree: Tree, files: Files) -> None:
    files.whole = files.alone = {10: (0, 0)}
    io = Io(tree, files)
    io.sample(0.0, FIRST)
    tree.put(11)
    files.forbidden = {11}
    io.sample(1.0, MIDDLE)
    io.sample(2.0, MIDDLE)
    assert read_and_written(io) == {'main': [0, 0], 'descendants': [None, None], 'combined': [None, None]}
    assert [level for level, _ in io.take_messages()] == ['warning']
    assert io.take_messages() == []


def test_a_system_without_these_counters_makes_them_unknown(tree: Tree) -> None:
    io = UnknownIo(tree)
    io.sample(0.0, FIRST)
    assert read_and_written(io) == {'main': [None, None], 'descendants': [None, None], 'combined': [None, None]}
    assert io.totals()['combined']['faults'] == [None, None]
    assert [level for level, _ in io.take_messages()] == ['warning']


def test_main_is_unknown_where_nobody_tells_it_apart_from_its_children(tree: Tree, files: Files) -> None:
    files.whole = {10: (0, 0)}
    io = Io(tree, files)
    io.sample(0.0, FIRST)
    tree.put(10, parent=1, faults=(0, 9, 0, 0))
    files.whole = {10: (5, 0)}
    io.sample(1.0, MIDDLE)
    assert read_and_written(io) == {'main': [None, None], 'descendants': [None, None], 'combined': [5, 0]}


def test_page_faults_are_those_of_children_that_were_waited_for_as_well(tree: Tree, files: Files) -> None:
    files.whole = files.alone = {10: (0, 0), 11: (0, 0)}
    tree.put(10, parent=1, faults=(100, 20, 3, 1))
    io = Io(tree, files)
    io.sample(0.0, FIRST)
    tree.put(11, faults=(50, 4, 2, 0))
    io.sample(1.0, MIDDLE)
    faults = {group: found['faults'] for group, found in io.totals().items()}
    assert faults == {'main': [0, 0], 'descendants': [54, 2], 'combined': [54, 2]}
    tree.end(11)
    tree.put(10, parent=1, faults=(110, 80, 3, 5))
    io.sample(2.0, MIDDLE)
    faults = {group: found['faults'] for group, found in io.totals().items()}
    assert faults == {'main': [10, 0], 'descendants': [60, 4], 'combined': [70, 4]}


def test_the_largest_rate_is_taken_over_half_a_second_at_least(tree: Tree, files: Files) -> None:
    files.whole = files.alone = {10: (0, 0)}
    io = Io(tree, files)
    io.sample(0.0, FIRST)
    files.whole = {10: (1000, 0)}
    io.sample(0.1, MIDDLE)
    io.sample(1.0, MIDDLE)
    assert io.totals()['main']['rates'] == [2000.0, 0.0, 0.0, 0.0]


def test_a_row_has_a_value_for_each_column(tree: Tree, files: Files) -> None:
    files.whole = files.alone = {10: (0, 0)}
    io = Io(tree, files)
    io.sample(0.0, FIRST)
    files.whole = {10: (1, 2)}
    io.sample(1.0, MIDDLE)
    row = dict(zip([column.name for column in io.columns], io.row(), strict=True))
    assert (row['main_io_read'], row['combined_io_written'], row['descendants_io_read']) == (1, 2, 0)
    assert row['main_minor_page_faults'] == 0


RECORDED = b"""\
rchar: 1353168
wchar: 5000000
syscr: 135
syscw: 1
read_bytes: 4096
write_bytes: 5005312
cancelled_write_bytes: 12288
"""


def recorded(proc: Path, content: bytes = RECORDED) -> Process:
    (proc / '10' / 'task' / '10').mkdir(parents=True)
    for folder in (proc / '10', proc / '10' / 'task' / '10'):
        (folder / 'io').write_bytes(content)
    process = Process(10)
    process.threads = 1
    return process


@pytest.mark.parametrize('most_handles', [1 << 20, 0])
def test_a_recorded_file(tmp_path: Path, most_handles: int) -> None:
    files = IoFiles(str(tmp_path), most_handles)
    process = recorded(tmp_path)
    expected = {
        'read': 4096,
        'written': 5005312,
        'cancelled': 12288,
        'read_by_calls': 1353168,
        'written_by_calls': 5000000,
    }
    for _ in range(2):
        assert dict(zip(BYTES, files.read(process), strict=True)) == expected
        assert dict(zip(BYTES, files.own(process), strict=True)) == expected
    files.forget(process)


def test_a_process_that_is_gone_has_no_counters(tmp_path: Path) -> None:
    assert IoFiles(str(tmp_path), 100).read(Process(10)) is None


def test_threads_that_have_ended_keep_what_they_were_last_seen_with(tmp_path: Path) -> None:
    process = recorded(tmp_path)
    process.threads = 2
    other = tmp_path / '10' / 'task' / '12'
    other.mkdir()
    (other / 'io').write_bytes(RECORDED)
    files = IoFiles(str(tmp_path), 1 << 20)
    assert files.own(process)[0] == 8192
    (other / 'io').unlink()
    other.rmdir()
    assert files.own(process)[0] == 8192


def test_where_each_process_has_its_own_figures_alone_those_of_the_gone_stay(tree: Tree) -> None:
    found = {10: [None, None, None, 100, 50, 7, 1]}
    io = PortableIo(tree, found.get)
    io.sample(0.0, FIRST)
    child = tree.put(11)
    found |= {10: [None, None, None, 130, 50, 9, 1], 11: [None, None, None, 40, 20, 30, 2]}
    io.sample(1.0, MIDDLE)
    tree.end(child.pid)
    found |= {10: [None, None, None, 150, 50, 9, 1]}
    io.sample(2.0, MIDDLE)
    tree.gone = []
    io.sample(3.0, MIDDLE)
    totals = io.totals()
    assert totals['main'] == {
        'bytes': [None, None, None, 50, 0],
        'rates': [None, None, 30.0, 0.0],
        'faults': [2, 0],
        'switches': [None, None],
    }
    assert totals['descendants']['bytes'] == [None, None, None, 40, 20]
    assert totals['combined']['bytes'] == [None, None, None, 90, 20]
    assert totals['combined']['faults'] == [32, 2]
    row = dict(zip([column.name for column in io.columns], io.row(), strict=True))
    assert (row['combined_io_read'], row['combined_io_read_by_calls']) == (None, 90)
    assert row['descendants_minor_page_faults'] == 30


def test_what_a_system_does_not_keep_is_unknown(tree: Tree) -> None:
    unknown = [None] * 7
    io = PortableIo(tree, {10: unknown}.get)
    io.sample(0.0, FIRST)
    assert io.totals()['combined']['bytes'] == [None] * 5
    assert io.totals()['combined']['faults'] == [None, None]


def test_of_a_process_that_may_not_be_read_its_groups_are_unknown_and_a_warning_says_so_once(tree: Tree) -> None:
    def read(pid: int) -> list[int | None]:
        if pid != 10:
            raise PermissionError(pid)
        return [None, None, None, 5, 5, 0, 0]

    tree.put(11)
    io = PortableIo(tree, read)
    io.sample(0.0, FIRST)
    io.sample(1.0, MIDDLE)
    assert [io.totals()[group]['bytes'][3] for group in ('main', 'descendants', 'combined')] == [0, None, None]
    assert [level for level, _ in io.take_messages()] == ['warning']
    assert io.take_messages() == []


def test_psutil_knows_nothing_of_a_process_that_is_gone() -> None:
    assert PsutilFigures()(2**22 + 1) is None
    assert len(PsutilFigures()(os.getpid())) == 7
