from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.processes.process import Process
from gpu_tracker.resources.ram.early import EarlySamples
from gpu_tracker.resources.ram.reading import RamReading, Resident

if TYPE_CHECKING:
    from collections.abc import Sequence


class Tree:
    """Has new processes when a test says so."""

    def __init__(self) -> None:
        self.members: dict[int, Process] = {}
        self.arrived: list[Process] = []
        self.coming: list[Process] = []
        self.changes = 0
        self.calls: list[str] = []

    def refresh_memory(self) -> None:
        self.calls.append('memory')
        self.changes += 1
        self._admit()

    def find_new(self) -> None:
        self.calls.append('new')
        self._admit()

    def _admit(self) -> None:
        self.changes += len(self.coming)
        self.arrived += self.coming
        self.coming = []


class Ram:
    def __init__(self) -> None:
        self.read: list[list[int]] = []
        self.spent = 0.0

    def read_early(self, now: float, due: Sequence[Process]) -> RamReading:
        self.read.append([process.pid for process in due])
        return RamReading(Resident(1), Resident(1), Resident(2), (None, None, None))


class Budget:
    """Allows so many readings, and the next after a while."""

    def __init__(self) -> None:
        self.allowed = 1000
        self.wait = 0.0
        self.spent = 0.0

    def count(self, now: float, cost: float) -> int:
        return self.allowed

    def spend(self, cost: float) -> None:
        self.spent += cost

    def seconds_until(self, now: float, cost: float) -> float:
        return self.wait


class Machine:
    def __init__(self, interval: float = 1.0) -> None:
        self.tree = Tree()
        self.ram = Ram()
        self.budget = Budget()
        self.cpu = 0.0
        self.taken_in: list[RamReading] = []
        self.early = EarlySamples(
            self.tree, self.ram, self.taken_in.append, interval, self.budget, self.budget, self.budget, lambda: self.cpu
        )

    def start(self, pid: int, born: float) -> Process:
        process = Process(pid)
        process.born = born
        process.resident = 1
        self.tree.coming.append(process)
        return process


def test_what_is_new_is_looked_for_seldom_while_the_tree_is_quiet() -> None:
    machine = Machine()
    machine.early.grid_sampled(10.0)
    assert machine.early.due() == pytest.approx(10.1)
    machine.early.sample(10.1)
    assert machine.taken_in == []
    assert machine.tree.calls == ['new']
    assert machine.early.due() == pytest.approx(10.2)
    assert machine.early.samples == 0


def test_what_is_new_is_looked_for_often_while_the_tree_starts_processes() -> None:
    machine = Machine()
    machine.early.grid_sampled(10.0)
    machine.start(5, born=5.0)
    machine.early.sample(10.1)
    assert len(machine.taken_in) == 1
    assert machine.ram.read == [[5]]
    assert machine.early.due() == pytest.approx(10.125)
    machine.early.grid_sampled(11.0)
    assert machine.early.due() == pytest.approx(11.025)
    machine.early.grid_sampled(11.2)  # a second without a new one
    assert machine.early.due() == pytest.approx(11.3)


def test_a_process_is_read_again_when_it_is_a_tenth_older() -> None:
    machine = Machine(interval=0.02)  # too short for searches between the points
    machine.start(5, born=9.9)
    machine.early.sample(10.0)
    assert machine.early.due() == pytest.approx(10.01)
    machine.early.sample(10.01)
    assert machine.early.due() == pytest.approx(10.01 + 0.011)
    assert machine.ram.read == [[5], [5]]
    assert machine.early.samples == 2


def test_the_youngest_count_as_ten_milliseconds_old() -> None:
    machine = Machine(interval=0.02)
    machine.start(5, born=10.0)
    machine.early.sample(10.0)
    assert machine.early.due() == pytest.approx(10.001)


def test_between_points_that_lie_close_nothing_is_looked_for() -> None:
    machine = Machine(interval=0.02)
    machine.early.grid_sampled(10.0)
    assert machine.early.due() == float('inf')


def test_those_that_are_old_enough_are_left_to_the_grid() -> None:
    machine = Machine(interval=0.02)
    process = machine.start(5, born=9.85)
    machine.early.sample(10.0)
    assert process.is_young
    machine.early.grid_sampled(10.05)  # 0.2 s old: a tenth of that is the interval
    assert not process.is_young
    assert machine.early.due() == float('inf')


def test_one_that_becomes_another_program_is_young_again() -> None:
    machine = Machine(interval=0.02)
    process = machine.start(5, born=9.0)
    machine.early.sample(10.0)
    assert not process.is_young
    process.born = 10.1
    machine.tree.arrived.append(process)
    machine.early.grid_sampled(10.1)
    assert process.is_young
    assert machine.early.due() == pytest.approx(10.101)


@pytest.mark.parametrize('how', ['ended', 'left'])
def test_those_that_have_ended_are_forgotten(how: str) -> None:
    machine = Machine(interval=0.02)
    process = machine.start(5, born=9.9)
    machine.early.sample(10.0)
    setattr(process, how, True)
    machine.early.grid_sampled(10.01)
    assert machine.early.due() == float('inf')


def test_where_the_budget_does_not_suffice_the_youngest_come_first_and_the_others_are_counted() -> None:
    machine = Machine()
    machine.budget.allowed = 2
    for pid, born in ((5, 9.0), (6, 9.8), (7, 9.9), (8, 9.5)):
        machine.start(pid, born)
    machine.early.grid_sampled(9.95)
    machine.early.sample(10.05)
    assert machine.ram.read[0] == [7, 6]
    assert machine.early.postponed == 2


def test_one_is_read_whatever_the_budget() -> None:
    machine = Machine()
    machine.budget.allowed = 0
    machine.start(5, born=9.9)
    machine.early.grid_sampled(9.95)
    machine.early.sample(10.05)
    assert machine.ram.read == [[5]]


def test_nothing_is_due_before_it_can_be_paid() -> None:
    machine = Machine(interval=0.02)
    machine.start(5, born=9.9)
    machine.budget.wait = 3.0
    machine.cpu = 0.004
    machine.early.sample(10.0)
    assert machine.early.due() == pytest.approx(13.0)
    assert machine.early.postponed == 1
    assert machine.budget.spent == pytest.approx(0.004)


def test_what_the_grid_costs_is_not_paid_again() -> None:
    machine = Machine()
    machine.cpu = 0.5
    machine.early.grid_sampled(10.0)
    machine.cpu = 0.502
    machine.early.sample(10.1)
    assert machine.budget.spent == pytest.approx(0.002)
