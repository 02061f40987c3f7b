"""Whether there may have been orphans that nobody has seen, from the numbers of processes that were given."""

from __future__ import annotations

import pytest

from gpu_tracker.resources.ram.unseen_orphans import UnseenOrphans
from support.simulated_memory import FakeTree


class Watched:
    """A tree whose members do what a test says, on a machine that gives numbers."""

    def __init__(self) -> None:
        self.tree = FakeTree()
        self.orphans = UnseenOrphans(self.tree)

    def give(self, numbers: int) -> None:
        """Start so many threads and processes that are no members."""
        assert self.tree.given_to_strangers is not None
        self.tree.given_to_strangers += numbers

    def may_have_been(self) -> bool:
        self.orphans.settle()
        return self.orphans.may_have_been


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_what_others_start_does_not_matter_as_long_as_nothing_of_the_tree_ends(watched: Watched) -> None:
    watched.give(1000)
    assert not watched.may_have_been()


def test_one_that_was_waited_for_is_no_orphan_and_two_numbers_may_have_been_one_and_its_child(watched: Watched) -> None:
    watched.give(1)
    watched.orphans.note_waited_for()
    assert not watched.may_have_been()
    assert not watched.may_have_been()
    watched.give(2)
    watched.orphans.note_waited_for()
    assert watched.may_have_been()
    watched.may_have_been()
    assert watched.may_have_been()


def test_one_that_was_seen_may_have_left_any_that_was_started(watched: Watched) -> None:
    watched.orphans.note_end()
    assert not watched.may_have_been()
    watched.give(1)
    watched.orphans.note_end()
    assert watched.may_have_been()


def test_what_was_started_before_the_reading_before_counts_no_more(watched: Watched) -> None:
    watched.give(5)
    assert not watched.may_have_been()
    assert not watched.may_have_been()
    watched.orphans.note_end()
    assert not watched.may_have_been()


def test_what_has_ended_before_its_number_was_read_may_show_at_the_next_reading(watched: Watched) -> None:
    watched.give(2)
    assert not watched.may_have_been()
    watched.orphans.note_waited_for()
    assert watched.may_have_been()


def test_where_nobody_knows_the_numbers_there_may_have_been_some(watched: Watched) -> None:
    watched.tree.given_to_strangers = None
    assert not watched.may_have_been()
    watched.orphans.note_end()
    assert watched.may_have_been()
