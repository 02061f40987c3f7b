from __future__ import annotations

import pytest

from gpu_tracker.sources.upper import UpperBounds
from simulated_memory import MEGABYTE, FakeProcess, FakeTree

ROOT, CHILD = 10, 11


class Watched:
    """A root and a child, whose marks are read at each sample."""

    def __init__(self) -> None:
        self.tree = FakeTree()
        self.root = self.tree.put(ROOT, private=10)
        self.child = self.tree.put(CHILD, private=20, parent=ROOT)
        self.bounds = UpperBounds(self.tree)

    def sample(self, *unread: FakeProcess) -> list[float | None]:
        for process in self.tree.members.values():
            if process not in unread and not process.ended:
                process.peak = process.mark
                process.peak_reading.faults = process.faults
        counted = [process for process in self.tree.members.values() if not process.ended]
        bounds = self.bounds.read(counted, self.bounds.sums(counted))
        return [None if bound is None else bound / MEGABYTE for bound in bounds]


@pytest.fixture
def watched() -> Watched:
    watched = Watched()
    assert watched.sample() == [10, 20, 30]
    return watched


def test_marks_add_up_and_the_largest_sums_stay(watched: Watched) -> None:
    watched.tree.put(CHILD, private=50)
    assert watched.sample() == [10, 50, 60]
    assert watched.sample() == [10, 50, 60]


def test_while_a_mark_is_unread_the_bounds_are_unknown(watched: Watched) -> None:
    new = watched.tree.put(12, private=5, parent=ROOT)
    assert watched.sample(new) == [10, None, None]
    assert watched.sample() == [10, 25, 35]


def test_a_process_that_has_ended_since_its_mark_was_read_may_have_had_more(watched: Watched) -> None:
    watched.tree.end(CHILD)
    assert watched.sample() == [10, None, None]
    watched.tree.put(12, private=5, parent=ROOT)
    assert watched.sample() == [10, None, None]


def test_a_zombie_tells_that_it_had_no_more(watched: Watched) -> None:
    watched.child.ended = True
    assert watched.sample() == [10, 20, 30]
    watched.tree.end(CHILD)
    assert watched.sample() == [10, 20, 30]


def test_a_zombie_with_new_page_faults_may_have_had_more(watched: Watched) -> None:
    watched.child.faults += 1
    watched.child.ended = True
    assert watched.sample() == [10, None, None]


def test_a_child_that_was_waited_for_may_never_have_been_seen(watched: Watched) -> None:
    watched.root.reaped_faults += 100
    assert watched.sample() == [10, None, None]


def test_a_program_that_was_replaced_may_have_had_more_before(watched: Watched) -> None:
    watched.root.programs += 1
    assert watched.sample() == [None, 20, None]


def test_of_processes_that_come_and_go_nothing_is_kept(watched: Watched) -> None:
    for pid in range(100, 200):
        watched.tree.put(pid, private=5, parent=ROOT)
        watched.sample()
        watched.tree.end(pid)
        watched.sample()
    assert watched.bounds._started.keys() == {watched.root}
    assert watched.bounds._final == set()
