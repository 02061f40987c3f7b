"""CPU seconds of processes for which others than their parents wait, in trees that change while they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.resources.cpu.counters import CpuCounters
from support.simulated_processes import ROOT, Machine, SimulatedTree

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDING = 0.02
ATOM = 1e-6
Step = tuple[str, int, float]
NOTHING, ADOPTS, IGNORES = range(3)
MEMBERS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([NOTHING, NOTHING, ADOPTS, ADOPTS, IGNORES]), st.floats(0, 3)),
    min_size=2,
    max_size=8,
)
"""Members of a tree that is there at the start: how many of the ones before it are between it and its parent, what it
does with children, and what it has used."""


def steps(*actions: str, most: int) -> st.SearchStrategy[list[Step]]:
    return st.lists(
        st.tuples(st.sampled_from(actions), st.integers(0, 9), st.floats(0.001, 3)), min_size=1, max_size=most
    )


def act(machine: Machine, step: Step) -> None:
    action, which, seconds = step
    pid = machine.living[which % len(machine.living)]
    if action == 'burn':
        machine.burn(pid, seconds)
    else:
        getattr(machine, action)(pid)


def descend(machine: Machine, parent: int, seconds: float = 0.0) -> int:
    """Start a child and let it use so much; return its pid."""
    machine.fork(parent)
    pid: int = max(machine.table)
    machine.burn(pid, seconds)
    return pid


class Tracked:
    """A simulated tree and what is known of it."""

    def __init__(self, members: list[tuple[int, int, float]] | None = None) -> None:
        self.machine = Machine()
        for between, kind, seconds in members or ():
            pid = descend(self.machine, max(ROOT, max(self.machine.table) - between), seconds)
            if kind == ADOPTS:
                self.machine.subreap(self.machine.table[pid].parent)
            elif kind == IGNORES:
                self.machine.ignore(pid)
        self.tree = SimulatedTree(self.machine)
        self.counters = CpuCounters(self.tree)
        self._start = self.machine.of_descendants

    @property
    def truth(self) -> float:
        return self.machine.of_descendants - self._start

    def sample(self, meanwhile: Callable[[], object] = lambda: None) -> float:
        self.tree.refresh(meanwhile)
        return self.counters.read().descendants


@given(
    MEMBERS, steps('end', 'end', 'reap', 'reap_one', 'burn', 'fork', 'sample', 'sample', 'subreap', most=40), st.data()
)
def test_nothing_counts_twice_whoever_waits_and_only_what_cannot_be_known_is_missing(
    members: list[tuple[int, int, float]], after: list[Step], data: st.DataObject
) -> None:
    run = Tracked(members)
    left = list(after)

    def meanwhile() -> None:
        while left and left[0][0] != 'sample' and data.draw(st.integers(0, 4)) == 0:
            act(run.machine, left.pop(0))

    known = 0.0
    while left:
        step = left.pop(0)
        if step[0] == 'sample':
            found = run.sample(meanwhile)
            assert known <= found <= run.truth + ATOM
            known = found
        else:
            act(run.machine, step)
    for _ in range(3):
        found = run.sample()
        assert found <= run.truth + ATOM
    lost = sum(process.cpu + process.reaped for process in run.machine.lost)
    assert found >= run.truth - lost - ROUNDING * run.machine.started


@given(
    MEMBERS,
    st.lists(
        st.tuples(steps('fork', 'burn', 'burn', 'subreap', most=4), steps('end', 'end', 'reap', 'reap_one', most=8)),
        min_size=1,
        max_size=6,
    ),
)
def test_what_was_last_seen_of_processes_that_have_done_nothing_since_is_all_known(
    members: list[tuple[int, int, float]], rounds: list[tuple[list[Step], list[Step]]]
) -> None:
    run = Tracked(members)
    for work, ends in rounds:
        for step in work:
            act(run.machine, step)
        run.sample()
        for step in ends:
            act(run.machine, step)
        assert run.sample() <= run.truth + ATOM
    for _ in range(3):
        found = run.sample()
    assert found == pytest.approx(run.truth, abs=ROUNDING * run.machine.started)


def test_what_a_subreaper_has_waited_for_in_place_of_another_counts_once() -> None:
    run = Tracked()
    machine = run.machine
    machine.subreap(ROOT)
    above = descend(machine, ROOT)
    parent = descend(machine, above, 0.25)
    child = descend(machine, parent, 0.4)
    machine.end(child)
    run.sample()
    machine.end(parent)
    machine.reap(above)
    machine.reap(ROOT)
    for _ in range(4):
        assert run.sample() == pytest.approx(0.65, abs=ROUNDING)
