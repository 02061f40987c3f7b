from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.resources import FIRST, LAST
from gpu_tracker.resources.cpu import Cpu
from gpu_tracker.resources.cpu.counters import CpuCounters
from support.simulated_processes import ROOT, Machine, SimulatedTree

STEPS = st.lists(
    st.tuples(
        st.sampled_from(['fork', 'burn', 'end', 'reap', 'ignore', 'burn', 'fork']),
        st.integers(0, 1000),
        st.floats(0.001, 3),
    ),
    max_size=60,
)
ROUNDING = 0.02
ATOM = 1e-6


def act(machine: Machine, step: tuple[str, int, float]) -> None:
    action, which, seconds = step
    pid = machine.living[which % len(machine.living)]
    if action == 'burn':
        machine.burn(pid, seconds)
    else:
        getattr(machine, action)(pid)


@given(STEPS, st.data())
def test_descendants_never_exceed_the_truth_and_never_decrease(
    steps: list[tuple[str, int, float]], data: st.DataObject
) -> None:
    machine = Machine()
    tree = SimulatedTree(machine)
    source = CpuCounters(tree)
    before = 0.0
    for step in steps:
        act(machine, step)
        if data.draw(st.booleans()):
            tree.refresh()
            reading = source.read()
            assert before <= reading.descendants <= machine.of_descendants + ATOM
            assert reading.main == pytest.approx(machine.table[ROOT].cpu)
            assert reading.descendants_threads == len(machine.living) - 1
            before = reading.descendants


@given(STEPS)
def test_descendants_are_exact_within_the_rounding_where_all_was_seen(steps: list[tuple[str, int, float]]) -> None:
    machine = Machine()
    tree = SimulatedTree(machine)
    source = CpuCounters(tree)
    pids = {ROOT}
    for step in steps:
        act(machine, step)
        pids |= machine.table.keys()
        tree.refresh()
        source.read()
    for _ in range(2):
        tree.refresh()
        reading = source.read()
    assert reading.descendants == pytest.approx(machine.of_descendants, abs=ROUNDING * len(pids))


def test_what_was_used_before_the_start_does_not_count() -> None:
    machine = Machine()
    machine.fork(ROOT)
    machine.burn(3, 5.0)
    machine.fork(ROOT)
    machine.burn(4, 7.0)
    machine.end(4)
    machine.reap(ROOT)
    machine.burn(ROOT, 2.0)
    tree = SimulatedTree(machine)
    source = CpuCounters(tree)
    machine.burn(3, 1.0)
    machine.end(3)
    machine.reap(ROOT)
    tree.refresh()
    reading = source.read()
    assert reading.main == 0
    assert reading.descendants == pytest.approx(1.0, abs=ROUNDING)


class IdleMachine:
    """Tells nothing of how busy its cores are."""

    ram_capacity = cores = None
    spent = 0.0, 0.0

    def cpu(self) -> None:
        return None


def test_what_was_used_before_the_first_sample_is_told_as_it_was_then() -> None:
    machine = Machine()
    tree = SimulatedTree(machine)
    cpu = Cpu(tree, IdleMachine())
    machine.burn(ROOT, 2.0)  # while other resources are opened
    tree.refresh()
    cpu.sample(0.0, FIRST)
    machine.burn(ROOT, 1.0)
    tree.refresh()
    cpu.sample(1.0, LAST)
    assert (cpu.totals()['main'][0], cpu.record()['cpu_before']) == (1.0, 2.0)


def test_a_child_reaped_just_after_its_parent_was_read_counts_once_when_that_ends_too() -> None:
    machine = Machine()
    machine.fork(ROOT)
    machine.fork(3)
    machine.burn(4, 1.0)
    tree = SimulatedTree(machine)
    source = CpuCounters(tree)
    machine.burn(4, 1.0)
    tree.refresh()
    source.read()
    machine.end(4)
    parent = tree.members[3]
    machine.reap(3)
    tree.refresh()
    parent.reaped_cpu = 0.0  # it was read a moment before
    assert source.read().descendants == pytest.approx(1.0)
    machine.end(3)
    machine.reap(ROOT)
    for _ in range(3):
        tree.refresh()
        assert source.read().descendants == pytest.approx(1.0, abs=ROUNDING)


def test_the_time_of_samplers_that_were_reaped_is_taken_off() -> None:
    machine = Machine()
    tree = SimulatedTree(machine)
    source = CpuCounters(tree)
    machine.table[ROOT].reaped = 3.0
    tree.foreign_cpu = 1.0
    tree.refresh()
    assert source.read().descendants == pytest.approx(2.0, abs=ROUNDING)


def test_the_end_of_the_root_keeps_what_it_was_told_of_its_children() -> None:
    machine = Machine()
    tree = SimulatedTree(machine)
    source = CpuCounters(tree)
    machine.fork(ROOT)
    machine.burn(3, 1.5)
    machine.burn(ROOT, 0.5)
    machine.end(3)
    machine.reap(ROOT)
    tree.refresh()
    source.read()
    del machine.table[ROOT]
    tree.refresh()
    tree.root_gone = True
    for _ in range(2):
        reading = source.read()
        tree.refresh()
        assert (reading.main, reading.descendants) == (pytest.approx(0.5), pytest.approx(1.5, abs=ROUNDING))
