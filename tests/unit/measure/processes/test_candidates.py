from __future__ import annotations

from gpu_tracker.processes.candidates import NewPids


class Files:
    """Tells the last pid that was given, and lists what there is."""

    def __init__(self, newest: int | None, names: set[str]) -> None:
        self.last = newest
        self.there = names
        self.listings = 0

    def newest(self) -> int | None:
        return self.last

    def names(self) -> set[str]:
        self.listings += 1
        return set(self.there)


class Machine:
    """Numbers, of which some are processes, and a clock."""

    def __init__(self, newest: int | None = 100) -> None:
        self.files = Files(newest, {'1', '7', 'loadavg'})
        self.processes: set[int] = set()
        self.now = 0.0
        self.pids = NewPids(self.files, self.processes.__contains__, lambda: self.now)

    def take(self) -> list[int]:
        return sorted(self.pids.take())


def test_the_first_time_all_are_listed() -> None:
    machine = Machine()
    assert machine.take() == [1, 7]
    assert machine.take() == []
    assert machine.files.listings == 1


def test_the_numbers_given_since_are_tried_without_a_listing() -> None:
    machine = Machine()
    machine.take()
    machine.files.last = 104
    machine.processes |= {100, 102, 104}
    assert machine.take() == [102, 104]
    assert machine.take() == []
    assert machine.files.listings == 1


def test_where_the_numbers_begin_anew_all_are_listed_and_those_that_may_be_new_returned() -> None:
    machine = Machine(newest=30_000)
    machine.files.there |= {'21', '30000'}
    assert machine.take() == [1, 7, 21, 30_000]
    machine.files.last = 20
    machine.files.there |= {'15', '20', '30001'}
    assert machine.take() == [1, 7, 15, 20, 30_001]  # who had the numbers 1 and 7 may have ended since
    assert machine.files.listings == 2


def test_too_many_numbers_cost_more_than_a_listing() -> None:
    machine = Machine()
    machine.take()
    machine.files.last = 100 + 512
    machine.take()
    assert machine.files.listings == 1
    machine.files.last += 513
    machine.files.there.add('700')
    assert machine.take() == [700]
    assert machine.files.listings == 2


def test_a_number_that_is_no_process_yet_is_tried_again_for_a_while() -> None:
    machine = Machine()
    machine.take()
    machine.files.last = 101
    assert machine.take() == []
    machine.now = 0.09
    machine.processes.add(101)
    assert machine.take() == [101]


def test_a_thread_is_given_up() -> None:
    machine = Machine()
    machine.take()
    machine.files.last = 101
    machine.take()
    machine.now = 0.11
    assert machine.take() == []
    machine.processes.add(101)
    assert machine.take() == []


def test_without_a_counter_all_are_listed_each_time() -> None:
    machine = Machine(newest=None)
    assert machine.take() == [1, 7]
    machine.files.there.add('9')
    assert machine.take() == [9]
    assert machine.files.listings == 2


def test_a_number_that_is_free_again_is_new_at_the_next_listing() -> None:
    machine = Machine(newest=None)
    machine.take()
    machine.pids.forget(7)
    assert machine.take() == [7]
