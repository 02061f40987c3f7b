from __future__ import annotations

import pytest

from gpu_tracker.resources.ram.reading import Resident
from gpu_tracker.resources.ram.split import Seen, Split
from gpu_tracker.resources.ram.upper_bounds import UpperBounds
from support.simulated_memory import MEGABYTE, FakeProcess, FakeTree

ROOT, CHILD = 10, 11
FAULT = 64 / 1024
"""Megabytes that one page fault brings at most."""


class Readings:
    """Exact readings that a test writes down."""

    def __init__(self) -> None:
        self.last: Split | None = None

    def found(self, tree: FakeTree, descendants: int, combined: int) -> None:
        """Take the members as they are now for read, and the megabytes of the groups for found."""
        root = tree.root.resident
        self.last = Split(*(Resident(total, total, 0) for total in (root, descendants << 20, combined << 20)))
        for process in tree.members.values():
            self.last.counted[process] = Seen(process.resident, process.anonymous, 0, 0, 0, process.faults)


class Watched:
    """A root with 10 MB and a child with 20, whose marks are read at each sample."""

    def __init__(self) -> None:
        self.huge_pages: int | None = 1000
        """Those that the machine has mapped so far."""
        self.tree = FakeTree()
        self.root = self.tree.put(ROOT, private=10)
        self.child = self.tree.put(CHILD, private=20, parent=ROOT)
        self.exact = Readings()
        self.bounds = UpperBounds(self.tree, self.exact, lambda: self.huge_pages)

    def sample(self, *unread: FakeProcess, is_whole: bool = True) -> list[float | None]:
        counted = [process for process in self.tree.members.values() if not process.ended]
        for process in counted:
            if process not in unread:
                process.peak = process.mark + process.huge
                process.peak_reading.faults = process.faults
        return [None if bound is None else bound / MEGABYTE for bound in self.bounds.read(counted, is_whole=is_whole)]


@pytest.fixture
def watched() -> Watched:
    watched = Watched()
    assert watched.sample() == [10, 20, 30]
    return watched


def test_marks_add_up_and_the_largest_sums_stay(watched: Watched) -> None:
    watched.tree.put(CHILD, private=50)
    assert watched.sample() == [10, 50, 60]
    watched.tree.end(CHILD)
    assert watched.sample() == watched.sample() == [10, 50, 60]
    watched.tree.put(12, private=5, parent=ROOT)
    assert watched.sample() == [10, 50, 60]


def test_what_one_has_brought_last_is_added_where_it_is_known_only_later(watched: Watched) -> None:
    watched.tree.end(CHILD)
    known_later, watched.root.reaped_faults = watched.root.reaped_faults + 16, 0
    assert watched.sample(is_whole=False) == [10, 20, 30]
    watched.root.reaped_faults = known_later
    assert watched.sample() == [10, 21, 31]


def test_marks_of_groups() -> None:
    watched = Watched()
    members = [watched.root, watched.child]
    assert watched.bounds.marks(members) == (None, None, None)
    watched.root.peak = 10
    assert watched.bounds.marks(members) == (10, None, None)
    watched.child.peak = 20
    assert watched.bounds.marks(members) == (10, 20, 30)
    assert watched.bounds.marks([watched.child]) == (None, 20, 20)
    assert watched.bounds.marks([]) == (None, None, None)


def test_page_faults_since_the_mark_was_read_may_have_brought_more(watched: Watched) -> None:
    watched.child.faults += 16
    assert watched.sample(watched.child) == [10, 21, 31]
    watched.root.faults += 32
    assert watched.sample(watched.root, watched.child) == [12, 21, 33]


def test_a_mark_that_is_read_later_tells_that_page_faults_have_brought_nothing(watched: Watched) -> None:
    watched.child.faults += 16
    assert watched.sample(watched.child) == [10, 21, 31]
    assert watched.sample() == [10, 21, 31]
    watched.tree.put(ROOT, private=15)
    assert watched.sample() == [15, 21, 35]  # and not 36


def test_what_a_process_can_have_had_whose_mark_was_not_read_yet_counts(watched: Watched) -> None:
    new = watched.tree.put(12, private=5, parent=ROOT, faults=160)
    assert watched.sample(new) == [10, 30, 40]
    assert watched.sample() == [10, 25, 35]


def test_a_process_that_ends_before_its_mark_was_read_had_what_its_page_faults_can_have_brought(
    watched: Watched,
) -> None:
    new = watched.tree.put(12, private=5, parent=ROOT, faults=160)
    watched.sample(new)
    watched.tree.end(12)
    assert watched.sample() == [10, 30, 40]


def test_a_copy_that_ends_before_its_mark_was_read_may_have_had_what_its_parent_had(watched: Watched) -> None:
    watched.tree.put(ROOT, private=300, faults=290 * 256)
    assert watched.sample() == [300, 20, 320]
    copy = watched.tree.put(12, private=4, parent=ROOT, family=ROOT, faults=16)  # it has dropped all that it had
    watched.sample(copy)
    watched.tree.end(12)
    assert watched.sample() == [300, 20 + 300 + 1, 620 + 1]


def test_page_faults_that_turn_up_with_the_parent_came_after_the_child_was_seen_last(watched: Watched) -> None:
    watched.child.faults += 16
    watched.sample()
    watched.tree.end(CHILD)
    watched.root.reaped_faults += 32
    assert watched.sample() == [10, 22, 32]
    assert watched.sample() == [10, 22, 32]
    assert watched.bounds.most_at_once == 1


def test_of_a_process_that_has_ended_all_is_known_where_its_page_faults_were(watched: Watched) -> None:
    watched.tree.end(CHILD)
    assert watched.sample() == [10, 20, 30]
    assert watched.bounds.all_are_waited_for


@pytest.mark.parametrize(('is_still', 'most'), [(True, 32 + 40), (False, 40 + 40)])
def test_pages_counted_while_copies_are_made_may_be_more_of_the_descendants(
    watched: Watched, is_still: bool, most: float
) -> None:
    watched.tree.put(12, private=30, parent=ROOT)
    assert watched.sample()[1] == 50
    watched.exact.found(watched.tree, 32, 40)
    watched.exact.last.is_still = is_still
    assert watched.sample()[1] == 50
    watched.child.mark += 40 * MEGABYTE
    watched.child.faults += 40 * 256
    assert watched.sample()[1] == most


def test_page_faults_of_a_grandchild_turn_up_with_the_root(watched: Watched) -> None:
    watched.tree.put(12, private=5, parent=CHILD, faults=100)
    assert watched.sample() == [10, 25, 35]
    watched.tree.end(12)
    watched.tree.end(CHILD)
    assert watched.sample() == [10, 25, 35]
    assert watched.root.reaped_faults == 101
    assert watched.bounds.most_at_once == 2


def test_a_zombie_tells_that_it_had_no_more(watched: Watched) -> None:
    watched.tree.become_zombie(CHILD)
    assert watched.sample() == [10, 20, 30]
    assert not watched.bounds.all_are_waited_for
    watched.tree.end(CHILD)
    assert watched.sample() == [10, 20, 30]
    assert watched.bounds.all_are_waited_for


def test_a_zombie_with_new_page_faults_may_have_had_more(watched: Watched) -> None:
    watched.tree.become_zombie(CHILD).faults += 16
    assert watched.sample() == [10, 21, 31]
    watched.tree.end(CHILD)
    assert watched.sample() == [10, 21, 31]


def test_the_root_as_a_zombie_tells_all(watched: Watched) -> None:
    watched.tree.become_zombie(ROOT).faults += 16
    assert watched.sample() == [11, 20, 31]


def test_a_root_that_is_gone_before_it_was_read_again_leaves_all_unknown(watched: Watched) -> None:
    watched.tree.end_unread(ROOT)
    assert watched.sample() == [None, None, None]


def test_a_child_that_nobody_in_the_tree_waits_for_leaves_the_descendants_unknown(watched: Watched) -> None:
    watched.child.parent = 1
    watched.tree.end(CHILD)
    assert watched.sample() == [10, None, None]
    watched.tree.put(12, private=5, parent=ROOT)
    assert watched.sample() == [10, None, None]
    assert not watched.bounds.all_are_waited_for


def test_a_child_of_a_root_that_ignores_its_children_leaves_the_descendants_unknown(watched: Watched) -> None:
    watched.tree.ignoring.add(ROOT)
    watched.tree.end(CHILD)
    assert watched.sample() == [10, None, None]
    watched.tree.put(12, private=5, parent=ROOT)
    assert watched.sample() == [10, None, None]


def test_a_child_whose_page_faults_turn_up_later_was_seen(watched: Watched) -> None:
    watched.tree.end(CHILD)
    watched.root.reaped_faults -= 1  # as read before it was waited for
    assert watched.sample() == [10, 20, 30]
    watched.root.reaped_faults += 1
    assert watched.sample() == [10, 20, 30]
    assert watched.bounds.all_are_waited_for


def test_a_child_that_was_never_seen_may_have_been_a_copy_of_the_root(watched: Watched) -> None:
    assert watched.bounds.most_at_once == 1
    watched.root.reaped_faults += 32
    assert watched.sample() == [10, 20 + 10 + 2, 30 + 2]
    assert watched.bounds.most_at_once is None


def test_what_the_root_has_waited_for_before_the_start_does_not_count() -> None:
    watched = Watched()
    watched.root.reaped_faults = 10_000
    assert watched.sample() == [10, 20, 30]
    watched.tree.end(CHILD)
    assert watched.sample() == [10, 20, 30]


def test_a_new_child_has_waited_for_its_own_since_the_start(watched: Watched) -> None:
    watched.tree.put(12, private=5, parent=ROOT).reaped_faults = 16
    assert watched.sample() == [10, 20 + 5 + 10 + 1, 35 + 1]


def test_a_program_that_was_replaced_may_have_had_more_before(watched: Watched) -> None:
    watched.tree.execute(CHILD, private=5)
    assert watched.sample() == [10, 20 + FAULT, 30 + FAULT]
    watched.tree.put(12, private=8, parent=ROOT)
    assert watched.sample() == [10, 20 + FAULT, 30 + FAULT]
    watched.tree.put(12, private=80, parent=ROOT)
    assert watched.sample() == [10, 85, 95]


def test_huge_pages_that_the_machine_has_mapped_may_be_anybodys_who_had_page_faults(watched: Watched) -> None:
    watched.huge_pages = 1003
    watched.child.faults += 16
    assert watched.sample(watched.child) == [10, 20 + 1 + 3 * 2, 30 + 1 + 3 * 2]
    watched.root.faults += 1  # which has one of them at most
    watched.huge_pages = 1005
    assert watched.sample(watched.root, watched.child) == [10 + FAULT + 2, 27, 37 + FAULT + 2]


def test_huge_pages_from_before_a_mark_was_read_are_in_it(watched: Watched) -> None:
    watched.huge_pages = 1003
    watched.tree.put(CHILD, private=26)
    assert watched.sample() == [10, 26, 36]
    watched.child.faults += 16
    # They may have come when the mark had just been read, and were counted then.
    assert watched.sample(watched.child) == [10, 26 + 1 + 3 * 2, 36 + 1 + 3 * 2]
    watched.sample()
    watched.child.faults += 16
    watched.tree.put(12, private=50, parent=ROOT)
    assert watched.sample(watched.child) == [10, 26 + 1 + 50, 36 + 1 + 50]


def test_huge_pages_of_processes_that_were_never_seen(watched: Watched) -> None:
    watched.huge_pages = 1002
    watched.root.reaped_faults += 16
    # One that was never seen may have been a copy of the root as well.
    assert watched.sample() == [10, 20 + 10 + 1 + 2 * 2, 30 + 1 + 2 * 2]


def test_where_huge_pages_are_hidden_each_fault_may_have_brought_one(watched: Watched) -> None:
    watched.huge_pages = None
    watched.child.faults += 3
    assert watched.sample(watched.child) == [10, 26 + 3 * FAULT, 36 + 3 * FAULT]
    watched.root.reaped_faults += 4
    assert watched.sample() == [10, 20 + 10 + 8 + 4 * FAULT, 30 + 8 + 4 * FAULT]


def test_huge_pages_of_hugetlbfs_count_with_the_mark(watched: Watched) -> None:
    watched.child.huge = 100 * MEGABYTE
    watched.tree.put(CHILD, private=20)
    assert watched.sample() == [10, 120, 130]


def test_what_is_shared_counts_once_where_an_exact_reading_has_found_it() -> None:
    watched = Watched()
    watched.tree.put(12, private=0, shared=200, parent=ROOT)
    watched.tree.put(13, private=0, shared=200, parent=ROOT)
    watched.exact.found(watched.tree, descendants=220, combined=230)
    assert watched.sample() == [10, 220, 230]


def test_what_page_faults_have_brought_since_an_exact_reading_is_added() -> None:
    watched = Watched()
    watched.tree.put(12, private=0, shared=200, parent=ROOT)
    watched.tree.put(13, private=0, shared=200, parent=ROOT)
    watched.exact.found(watched.tree, descendants=220, combined=230)
    watched.sample()
    watched.tree.put(13, private=50, shared=150, parent=ROOT, faults=50 * 256)  # copies: its size is the same
    assert watched.sample() == [10, 270, 280]
    watched.tree.end(13)
    assert watched.sample() == [10, 270, 280]


def test_a_copy_of_the_root_brings_what_the_root_had_to_the_descendants_and_nothing_to_both() -> None:
    watched = Watched()
    watched.tree.put(ROOT, private=100)
    watched.exact.found(watched.tree, descendants=20, combined=120)
    assert watched.sample() == [100, 20, 120]
    for pid in (12, 13):
        watched.tree.put(pid, private=0, shared=100, parent=ROOT, family=ROOT, faults=256)
    assert watched.sample() == [100, 20 + 100 + 2, 120 + 2]


def test_a_file_that_takes_the_place_of_another_one_that_others_have_is_added() -> None:
    watched = Watched()
    for pid in (12, 13):
        watched.tree.put(pid, private=0, mapped=200, parent=ROOT)
    watched.exact.found(watched.tree, descendants=220, combined=230)
    watched.sample()
    watched.tree.put(13, private=200, files=200, parent=ROOT, faults=200 * 16)
    _, descendants, combined = watched.sample()
    assert descendants >= 420
    assert combined >= 430


def test_of_processes_that_come_and_go_little_is_kept(watched: Watched) -> None:
    for pid in range(100, 200):
        watched.tree.put(pid, private=5, parent=ROOT)
        assert watched.sample() == [10, 25, 35]
        watched.tree.end(pid)
        assert watched.sample() == [10, 25, 35]
    assert watched.bounds.most_at_once == 2
