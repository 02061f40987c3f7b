"""What is known of the descendants of a run."""

from __future__ import annotations

import pytest

from gpu_tracker.sampler.lineage import Lineage
from support.simulated_processes import ROOT, Machine, tree_of


class Run:
    """A lineage after the first sample."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.tree = tree_of(machine)
        self.lineage = Lineage(self.tree)
        self.lineage.update()
        self.lineage.begin()

    def sample(self) -> bool:
        self.tree.refresh()
        return self.lineage.update()

    def found(self, *names: str) -> tuple[object, ...]:
        record = self.lineage.record()
        return tuple(record[name] for name in names)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def end_and_reap(machine: Machine, pid: int) -> None:
    machine.end(pid)
    machine.reap(ROOT)


def test_a_program_alone(machine: Machine) -> None:
    run = Run(machine)
    assert run.lineage.members == (ROOT, frozenset())
    assert run.lineage.record() == {
        'has_descendants': False,
        'faults_of_waited_for': 0,
        'older_has_ended': False,
        'may_miss_orphans': False,
    }


def test_a_descendant_that_was_seen_stays_known(machine: Machine) -> None:
    run = Run(machine)
    child = machine.fork(ROOT)
    assert run.sample()
    assert run.lineage.members == (ROOT, frozenset({child}))
    assert run.found('has_descendants', 'faults_of_waited_for') == (True, None)
    end_and_reap(machine, child)
    assert run.sample()
    assert not run.sample()
    assert run.found('has_descendants', 'faults_of_waited_for') == (True, 1)


def test_a_child_that_no_sample_has_seen_is_known_by_its_page_faults(machine: Machine) -> None:
    end_and_reap(machine, machine.fork(ROOT))
    run = Run(machine)
    assert run.found('has_descendants', 'faults_of_waited_for') == (False, 0)
    end_and_reap(machine, machine.fork(ROOT))
    run.sample()
    assert run.found('has_descendants', 'faults_of_waited_for') == (True, 1)


def test_of_children_of_one_that_ignores_them_nothing_is_known(machine: Machine) -> None:
    run = Run(machine)
    machine.ignore(ROOT)
    run.sample()
    assert run.found('has_descendants', 'faults_of_waited_for') == (True, None)


def test_the_end_of_a_descendant_that_was_there_at_the_start_is_known(machine: Machine) -> None:
    older = machine.fork(ROOT)
    run = Run(machine)
    newer = machine.fork(ROOT)
    run.sample()
    machine.end(newer)
    run.sample()
    assert run.found('older_has_ended') == (False,)
    machine.end(older)
    run.sample()
    assert run.found('older_has_ended') == (True,)
    machine.reap(ROOT)
    run.sample()
    assert run.found('older_has_ended') == (True,)


def test_all_have_ended_if_there_are_zombies_or_none(machine: Machine) -> None:
    run = Run(machine)
    child = machine.fork(ROOT)
    run.sample()
    machine.table[ROOT].ended = True
    machine.burn(ROOT, 0.0)
    run.sample()
    assert not run.lineage.has_ended()
    machine.end(child)
    run.sample()
    assert run.lineage.has_ended()
    machine.table.clear()
    run.sample()
    assert run.lineage.has_ended()
    assert run.lineage.members == (None, frozenset())
