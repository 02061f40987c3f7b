from __future__ import annotations

from gpu_tracker.resources import FIRST, LAST, MIDDLE
from gpu_tracker.resources.budget import Budget
from gpu_tracker.resources.ram.peaks import PeakReader
from support.simulated_memory import MEGABYTE, FakeFiles, FakeTree

ROOT = 10


def opened(processes: int, cost: float = 0.0, most: float = 0.25) -> tuple[FakeTree, FakeFiles, PeakReader]:
    tree = FakeTree()
    for pid in range(ROOT, ROOT + processes):
        tree.put(pid, private=10)
    files = FakeFiles(tree, cost)
    return tree, files, PeakReader(files, Budget(0.0, most=most), files.cpu_time)


def read(tree: FakeTree, reader: PeakReader, kind: str = MIDDLE, **options: bool) -> list[int]:
    risen = reader.read(0.0, kind, tree.root, list(tree.members.values()), **options)
    return [process.pid for process in risen]


def test_a_mark_that_has_risen_above_the_present_size_is_a_peak_once() -> None:
    tree, files, reader = opened(3)
    assert read(tree, reader) == []
    tree.members[11].mark = 50 * MEGABYTE
    tree.members[11].faults += 1
    assert read(tree, reader) == [11]
    tree.members[11].faults += 1
    assert read(tree, reader) == []
    assert files.read == ['peak'] * 5


def test_without_a_page_fault_nothing_is_read() -> None:
    tree, files, reader = opened(3)
    read(tree, reader)
    tree.members[11].mark = 50 * MEGABYTE  # cannot be
    assert read(tree, reader) == []
    assert len(files.read) == 3


def test_a_new_process_has_peaked_before_it_was_seen() -> None:
    tree, _, reader = opened(1)
    read(tree, reader)
    tree.put(11, private=10).mark = 500 * MEGABYTE
    assert read(tree, reader) == [11]


def test_a_mark_of_a_program_that_was_not_there_when_page_faults_were_read_tells_nothing() -> None:
    tree, files, reader = opened(2)
    read(tree, reader)
    process = tree.members[11]
    process.faults += 8192
    process.mark = 20 * MEGABYTE
    files.replaced[11] = (b'1', b'2', b'3')
    assert read(tree, reader) == []
    assert (process.peak, process.peak_reading.faults) == (10 * MEGABYTE, process.faults - 8192)
    del files.replaced[11]  # many page faults without a new page
    assert read(tree, reader) == [11]
    assert (process.peak, process.peak_reading.faults) == (20 * MEGABYTE, process.faults)


def test_a_mark_that_falls_by_a_few_pages_tells_nothing() -> None:
    tree, _, reader = opened(2)
    read(tree, reader)
    tree.members[11].mark = 50 * MEGABYTE
    tree.members[11].faults += 1
    assert read(tree, reader) == [11]
    tree.members[11].mark -= 100 * 4096
    tree.members[11].faults += 1
    assert read(tree, reader) == []
    assert tree.members[11].peak == 50 * MEGABYTE


def test_a_program_that_was_replaced_has_a_mark_of_its_own() -> None:
    tree, _, reader = opened(2)
    tree.members[11].mark = 900 * MEGABYTE
    read(tree, reader)
    tree.put(11, private=10, family=99)  # another image
    tree.members[11].mark = 30 * MEGABYTE
    assert read(tree, reader) == [11]


def test_the_root_and_then_those_with_most_faults_come_first() -> None:
    tree, files, reader = opened(50, cost=0.0002, most=0.0002)
    for number, process in enumerate(tree.members.values()):
        process.faults += number
    read(tree, reader)
    assert [process.pid for process in tree.members.values() if process.peak is not None] == [10, *range(51, 60)]
    assert len(files.read) == 10
    assert reader.pending


def test_while_something_more_important_is_saved_for_only_the_root_is_read() -> None:
    tree, files, reader = opened(50)
    read(tree, reader, saving=True)
    assert len(files.read) == 1
    assert tree.root.peak == 10 * MEGABYTE


def test_at_the_end_what_takes_five_milliseconds_is_read_whatever_was_spent() -> None:
    tree, files, reader = opened(300, cost=0.0002, most=0.0)
    read(tree, reader, LAST)
    assert 245 <= len(files.read) <= 250


def test_what_was_there_before_the_first_reading_tells_no_peak() -> None:
    tree, _, reader = opened(3)
    tree.members[12].mark = 500 * MEGABYTE
    assert read(tree, reader, FIRST) == []
    tree.members[12].mark = 600 * MEGABYTE
    tree.members[12].faults += 1
    assert read(tree, reader) == [12]


def test_a_first_mark_that_is_read_late_may_still_be_from_before_the_start() -> None:
    tree, _, reader = opened(3)
    tree.members[12].mark = 500 * MEGABYTE
    assert read(tree, reader, saving=True) == []
    assert reader.pending
    assert read(tree, reader) == []
    assert tree.members[12].peak == 500 * MEGABYTE


def test_marks_that_are_due_are_read_whatever_they_cost() -> None:
    tree, files, reader = opened(3, cost=0.1, most=0.0)
    tree.members[11].mark = 50 * MEGABYTE
    due = [tree.members[11], tree.members[12]]
    assert reader.read_these(due) == [tree.members[11]]
    assert files.read == ['peak'] * 2
    assert tree.root.peak is None


def test_one_that_has_ended_has_no_mark() -> None:
    tree, _, reader = opened(2)
    child = tree.members[11]
    tree.become_zombie(11)
    assert reader.read_these([child]) == []
    assert child.peak is None


def test_a_reading_tells_what_has_changed_since_the_one_before() -> None:
    tree, _, reader = opened(1)
    read(tree, reader)
    tree.put(10, private=60, files=30, faults=99)
    read(tree, reader)
    tree.put(10, private=25, files=5, faults=7)
    read(tree, reader)
    reading = tree.root.peak_reading
    assert (reading.new_faults, reading.faults) == (7, 107)
    assert (reading.resident_before, reading.resident) == (60 * MEGABYTE, 25 * MEGABYTE)
    assert (reading.of_files, reading.dropped_files) == (5 * MEGABYTE, 25 * MEGABYTE)


class FilesLater(FakeFiles):
    """Of the root there are 3 MB more by the time that its mark is read."""

    def marks(self, pid: int) -> tuple[int, int, int, int]:
        return 13 * MEGABYTE, 13 * MEGABYTE, 13 * MEGABYTE, 0


def test_anonymous_memory_that_has_come_since_the_size_was_read_is_known() -> None:
    tree = FakeTree()
    root = tree.put(ROOT, private=10)
    files = FilesLater(tree)
    reader = PeakReader(files, Budget(0.0), files.cpu_time)
    read(tree, reader)
    assert root.peak_reading.grown == 3 * MEGABYTE
    assert root.peak_reading.resident == 13 * MEGABYTE
    assert root.resident == 10 * MEGABYTE


def test_huge_pages_are_part_of_the_mark_and_of_the_sizes() -> None:
    tree, _, reader = opened(2)
    child = tree.members[11]
    child.huge_pages = 64
    assert read(tree, reader) == []
    assert (child.peak, child.resident, child.anonymous) == (74 * MEGABYTE,) * 3
    child.huge_pages = 0
    child.faults += 1
    assert read(tree, reader) == []  # it was seen with as much
    assert (child.peak, child.resident, child.anonymous) == (74 * MEGABYTE, 10 * MEGABYTE, 10 * MEGABYTE)


def test_huge_pages_that_come_after_a_peak_make_no_larger_peak() -> None:
    tree, _, reader = opened(2)
    child = tree.put(11, private=100)
    read(tree, reader)
    tree.put(11, private=10)
    read(tree, reader)
    child.huge_pages = 64
    child.faults += 32
    assert read(tree, reader) == []
