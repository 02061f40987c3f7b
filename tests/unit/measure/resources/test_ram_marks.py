"""High-water marks of simulated processes: which are read, and what is known by them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.resources import FIRST, LAST, MIDDLE
from gpu_tracker.resources.budget import Budget
from gpu_tracker.resources.ram.marks import Marks
from support.simulated_memory import FAULTS, MB, Files, Tree

if TYPE_CHECKING:
    from gpu_tracker.processes.process import Process

ROOT = 10
PAGE = os.sysconf('SC_PAGE_SIZE')
INEXACT = 8 * MB
"""The kernel's counters are no more exact than this, on any machine."""


class Machine(Tree):
    """Processes of 10 MB each, and what reads their marks."""

    def __init__(self, processes: int, *, cost: float = 0.0, most: float = 0.25) -> None:
        super().__init__()
        for pid in range(ROOT, ROOT + processes):
            self.start(pid, 10, parent=ROOT)
        self.refresh()
        self.files = Files(self, cost)
        self.marks = Marks(self.files, Budget(0.0, most=most), self.files.cpu_time)

    def read(self, kind: str = MIDDLE) -> list[int]:
        """Read marks; return the pids of those whose mark has risen."""
        self.refresh()
        self.files.read.clear()
        return [process.pid for process in self.marks.read(0.0, kind, self.root, list(self.members.values()))]

    def peak_at(self, pid: int, megabytes: int) -> None:
        """Let a process have had more between two samples."""
        self.get(pid, megabytes)
        self.free(pid, megabytes)

    def peak(self, pid: int) -> int:
        return self.marks.peak(self.members[pid]) // MB

    @property
    def pids_read(self) -> list[int]:
        return [pid for _, pid in self.files.read]


def started(processes: int, **options: float) -> Machine:
    """Return a machine whose marks have been read once."""
    machine = Machine(processes, **options)
    machine.read(FIRST)
    return machine


def test_a_mark_above_the_present_size_has_risen_once() -> None:
    machine = started(3)
    machine.peak_at(11, 40)
    assert machine.read() == [11]
    assert machine.peak(11) == 50
    machine.peak_at(11, 5)
    assert machine.read() == []
    assert machine.pids_read == [11]
    assert machine.peak(11) == 50


def test_without_a_page_fault_nothing_is_read() -> None:
    machine = started(3)
    assert machine.pids_read == [10, 11, 12]
    machine.read()
    assert machine.pids_read == []


def test_a_new_process_has_had_its_mark_since_the_run_has_begun() -> None:
    machine = started(1)
    machine.start(11, 10, parent=ROOT)
    machine.peak_at(11, 90)
    assert machine.read() == [11]
    assert machine.peak(11) == 100


def test_what_is_older_than_the_run_may_have_had_its_peak_before() -> None:
    machine = Machine(2)
    machine.peak_at(11, 490)
    assert machine.read(FIRST) == []
    assert machine.peak(11) == 10
    machine.peak_at(11, 490 + INEXACT // MB + 1)
    assert machine.read() == [11]
    assert machine.peak(11) == 10 + 490 + INEXACT // MB + 1


def test_a_first_mark_that_is_read_late_may_still_be_from_before() -> None:
    machine = Machine(2, most=0.0)
    machine.peak_at(11, 90)
    assert machine.read() == []
    assert machine.pids_read == [ROOT]
    assert machine.marks.are_missing
    assert machine.read(LAST) == []
    assert machine.pids_read == [11]
    assert not machine.marks.are_missing
    assert machine.peak(11) == 10


def test_a_program_that_is_replaced_has_a_mark_of_its_own() -> None:
    machine = started(2)
    machine.peak_at(11, 490)
    machine.read()
    machine.execute(11, 5)
    machine.peak_at(11, 30)
    assert machine.read() == [11]
    assert machine.peak(11) == 35


def test_huge_pages_belong_to_the_size_and_to_the_mark() -> None:
    machine = started(2)
    machine.memory[11].huge = 64
    machine.memory[11].faults += 32
    assert machine.read() == []
    child: Process = machine.members[11]
    assert (child.huge, child.resident, machine.peak(11)) == (64 * MB, 74 * MB, 74)
    machine.memory[11].huge = 0
    machine.memory[11].faults += 1
    machine.read()
    assert (child.huge, child.resident, machine.peak(11)) == (0, 10 * MB, 10)


def test_a_mark_and_huge_pages_of_another_moment_do_not_add_up() -> None:
    machine = started(1)
    machine.start(11, 10, parent=ROOT)
    machine.peak_at(11, 490)
    machine.memory[11].huge = 510
    assert machine.read() == []
    child = machine.members[11]
    assert (machine.peak(11), machine.marks.most(child, 0) // MB) == (520, 1010)
    machine.memory[11].huge = 0
    machine.read()
    assert (machine.peak(11), machine.marks.most(child, 0) // MB) == (500, 1010)


def test_huge_pages_that_may_have_been_given_back_do_not_count() -> None:
    machine = started(2, most=0.0)
    child = machine.members[11]
    machine.memory[11].huge = 510
    machine.marks.has_risen(child)
    machine.memory[11].huge = 0
    machine.get(11, 500)
    machine.get(ROOT, 1)
    machine.read()
    assert machine.pids_read == [ROOT]
    assert (machine.peak(11), machine.marks.most(child, 0) // MB) == (520, 1020)


def test_huge_pages_are_read_again_though_there_was_no_page_fault() -> None:
    machine = started(2)
    machine.memory[11].huge = 64
    machine.memory[11].faults += 32
    machine.read()
    machine.memory[11].huge = 0
    machine.read()
    assert machine.members[11].resident == 10 * MB


def test_the_root_comes_first_and_then_those_with_most_page_faults() -> None:
    machine = started(50, cost=0.0002, most=0.0004)
    for number in range(50):
        machine.peak_at(ROOT + number, number)
    machine.memory[ROOT].faults += 1
    machine.read()
    assert machine.pids_read == [10, *range(59, 51, -1)]
    assert machine.marks.are_missing


@pytest.mark.parametrize('kind', [FIRST, LAST])
def test_at_the_edges_five_milliseconds_are_spent_whatever_is_left(kind: str) -> None:
    machine = Machine(300, cost=0.0002, most=0.0)
    machine.read(kind)
    assert len(machine.pids_read) == 249
    assert machine.marks.are_missing


def test_at_least_one_mark_is_read_the_roots() -> None:
    machine = started(3, most=0.0)
    for pid in (10, 11, 12):
        machine.peak_at(pid, 5)
    assert machine.read() == [10]
    assert machine.pids_read == [10]


def test_the_costs_of_reading_are_learned_and_spent() -> None:
    machine = started(3, cost=0.5, most=0.25)
    seen = 0
    for _ in range(20):
        for pid in (10, 11, 12):
            machine.peak_at(pid, 1)
        machine.read()
        seen += len(machine.pids_read)
    assert 20 <= seen <= 25  # a mark costs 0.05 s: 5 are in the budget, and the root's is read at each sample


def test_a_process_that_has_ended_keeps_its_last_mark() -> None:
    machine = started(2)
    machine.end(11)
    machine.memory[11].faults += 1
    assert machine.read() == []
    assert machine.members[11].mark == 10 * MB


def test_page_faults_since_the_mark_was_read_may_have_brought_memory() -> None:
    machine = started(2)
    child = machine.members[11]
    assert machine.marks.unread_faults(child) == 0
    machine.peak_at(11, 20)
    machine.refresh()
    assert machine.marks.unread_faults(child) == 20 * FAULTS
    machine.start(12, 3, parent=ROOT)
    machine.refresh()
    assert machine.marks.unread_faults(machine.members[12]) == 3 * FAULTS
