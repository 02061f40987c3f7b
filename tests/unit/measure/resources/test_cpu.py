"""CPU seconds of trees of simulated processes, of which the true ones are known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.resources import FIRST, LAST
from gpu_tracker.resources.cpu import Cpu, CpuCounters
from support.simulated_processes import ROOT, Machine, tree_of

ROUNDING = 0.02
ATOM = 1e-3
Step = tuple[str, int, float]


def steps(*actions: str, most: int = 60) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(st.sampled_from(actions), st.integers(0, 1000), st.floats(0.001, 3)), max_size=most)


class Tracked:
    """A machine whose tree is sampled; what was used before does not count."""

    def __init__(self, machine: Machine | None = None) -> None:
        self.machine = machine or Machine()
        self.tree = tree_of(self.machine)
        self.counters = CpuCounters(self.tree)
        self._start = self.machine.of_descendants
        self._lost_before = len(self.machine.lost)

    @property
    def truth(self) -> float:
        """What descendants have really used."""
        return self.machine.of_descendants - self._start

    @property
    def lost(self) -> float:
        """The part of it that nobody in the tree has got."""
        return sum(process.cpu + process.reaped for process in self.machine.lost[self._lost_before :])

    @property
    def rounding(self) -> float:
        return ROUNDING * self.machine.started + ATOM

    def act(self, step: Step) -> None:
        action, which, seconds = step
        pid = self.machine.living[which % len(self.machine.living)]
        if action == 'burn':
            self.machine.burn(pid, seconds)
        else:
            getattr(self.machine, action)(pid)

    def sample(self) -> float:
        self.tree.refresh()
        return self.counters.read()[1]


@given(steps('fork', 'fork', 'burn', 'burn', 'end', 'reap', 'ignore', 'discard', 'subreap'), st.data())
def test_descendants_are_never_above_the_truth_and_never_decrease(done: list[Step], data: st.DataObject) -> None:
    run = Tracked()
    before = 0.0
    for step in done:
        run.act(step)
        if data.draw(st.booleans()):
            run.tree.refresh()
            main, descendants, main_threads, threads = run.counters.read()
            assert before <= descendants <= run.truth + run.rounding
            assert main == pytest.approx(run.machine.table[ROOT].cpu)
            assert (main_threads, threads) == (1, len(run.machine.living) - 1)
            before = descendants


@given(steps('fork', 'fork', 'burn', 'burn', 'end', 'reap', 'ignore', 'discard', 'subreap'))
def test_descendants_are_exact_if_each_step_was_sampled(done: list[Step]) -> None:
    run = Tracked()
    for step in done:
        run.act(step)
        run.sample()
    assert run.sample() == pytest.approx(run.truth, abs=run.rounding)


@given(
    steps('fork', 'burn', 'subreap', most=20),
    steps('end', 'end', 'reap', 'reap_one', 'burn', 'fork', 'sample', 'sample', 'subreap', most=40),
    st.data(),
)
def test_nothing_counts_twice_in_a_tree_that_changes_while_it_is_read(
    before: list[Step], after: list[Step], data: st.DataObject
) -> None:
    run = Tracked()
    for step in before:
        run.act(step)
    run.sample()
    left = list(after)

    def meanwhile() -> None:
        while left and left[0][0] != 'sample' and data.draw(st.booleans()):
            run.act(left.pop(0))

    while left:
        step = left.pop(0)
        if step[0] == 'sample':
            run.machine.meanwhile = meanwhile
            assert run.sample() <= run.truth + run.rounding
            run.machine.meanwhile = lambda: None
        else:
            run.act(step)
    found = run.sample()
    assert run.truth - run.lost - run.rounding <= found <= run.truth + run.rounding


def test_what_was_used_before_the_start_does_not_count() -> None:
    machine = Machine()
    machine.burn(machine.fork(ROOT), 5.0)
    reaped = machine.fork(ROOT)
    machine.burn(reaped, 7.0)
    machine.end(reaped)
    machine.reap(ROOT)
    machine.burn(ROOT, 2.0)
    run = Tracked(machine)
    machine.burn(3, 1.0)
    machine.end(3)
    machine.reap(ROOT)
    assert run.sample() == pytest.approx(1.0, abs=ROUNDING)
    assert run.counters.read()[0] == pytest.approx(0.0, abs=ATOM)


def test_the_time_of_a_child_moves_to_the_parent_that_reaps_it() -> None:
    run = Tracked()
    child = run.machine.fork(ROOT)
    run.machine.burn(child, 1.0)
    assert run.sample() == pytest.approx(1.0, abs=ATOM)
    run.machine.burn(child, 0.5)
    run.machine.end(child)
    run.machine.reap(ROOT)
    assert run.sample() == pytest.approx(1.5, abs=ROUNDING)
    assert (run.counters.unreceived, run.counters.has_orphans, run.counters.is_ignored) == (0.0, False, False)


def test_children_that_no_sample_has_seen_count() -> None:
    run = Tracked()
    for _ in range(3):
        child = run.machine.fork(ROOT)
        run.machine.burn(child, 0.5)
        run.machine.end(child)
        run.machine.reap(ROOT)
    assert run.sample() == pytest.approx(1.5, abs=ROUNDING)


def test_the_last_time_of_a_child_of_one_that_ignores_sigchld_is_kept_and_told() -> None:
    run = Tracked()
    run.machine.ignore(ROOT)
    child = run.machine.fork(ROOT)
    run.machine.burn(child, 1.0)
    run.sample()
    assert run.counters.is_ignored
    run.machine.burn(child, 5.0)
    run.machine.end(child)
    for _ in range(2):
        assert run.sample() == pytest.approx(1.0, abs=ATOM)
    assert (run.counters.unreceived, run.counters.has_orphans) == (0.0, False)


def test_a_parent_that_has_got_nothing_of_a_child_that_is_gone_discards_it() -> None:
    run = Tracked()
    run.machine.discard(ROOT)
    child = run.machine.fork(ROOT)
    run.machine.burn(child, 1.0)
    run.sample()
    assert not run.counters.is_ignored
    run.machine.burn(child, 5.0)
    run.machine.end(child)
    for _ in range(2):
        assert run.sample() == pytest.approx(1.0, abs=ATOM)
    assert (run.counters.is_ignored, run.counters.unreceived, run.counters.has_orphans) == (True, 0.0, False)


def test_an_outsider_has_reaped_the_child_of_a_zombie_that_has_reaped_nobody() -> None:
    run = Tracked()
    parent = run.machine.fork(ROOT)
    child = run.machine.fork(parent)
    run.sample()
    run.machine.burn(child, 0.5)
    run.machine.end(parent)
    run.machine.end(child)
    run.sample()
    assert (run.counters.is_ignored, run.counters.has_orphans) == (False, True)


def test_the_last_time_of_a_member_that_an_outsider_reaps_is_kept_and_told() -> None:
    run = Tracked()
    child = run.machine.fork(ROOT)
    orphan = run.machine.fork(child)
    run.machine.burn(orphan, 1.0)
    run.machine.end(child)
    run.machine.reap(ROOT)
    run.sample()
    run.machine.burn(orphan, 0.5)
    assert run.sample() == pytest.approx(1.5, abs=ROUNDING)
    run.machine.burn(orphan, 5.0)
    run.machine.end(orphan)
    for _ in range(2):
        assert run.sample() == pytest.approx(1.5, abs=ROUNDING)
    assert run.counters.has_orphans
    assert run.counters.unreceived == pytest.approx(1.5, abs=ROUNDING)


def test_members_that_vanish_with_their_pid_namespace_keep_their_last_time() -> None:
    run = Tracked()
    first = run.machine.fork(ROOT)
    for seconds in (1.0, 2.0):
        run.machine.burn(run.machine.fork(first), seconds)
    run.machine.burn(first, 0.25)
    run.sample()
    run.machine.end_namespace(first)
    run.machine.reap(ROOT)
    for _ in range(2):
        assert run.sample() == pytest.approx(3.25, abs=2 * ROUNDING)
    assert run.counters.unreceived == pytest.approx(3.0, abs=2 * ROUNDING)
    assert not run.counters.has_orphans


def test_what_a_subreaper_has_waited_for_in_place_of_another_counts_once() -> None:
    run = Tracked()
    machine = run.machine
    machine.subreap(ROOT)
    above = machine.fork(ROOT)
    parent = machine.fork(above)
    machine.burn(parent, 0.25)
    child = machine.fork(parent)
    machine.burn(child, 0.4)
    machine.end(child)
    run.sample()
    machine.end(parent)
    machine.reap(above)
    machine.reap(ROOT)
    for _ in range(4):
        assert run.sample() == pytest.approx(0.65, abs=ROUNDING)


def test_a_child_that_ends_between_the_two_readings_of_its_parent_counts_once() -> None:
    run = Tracked()
    machine = run.machine
    first, second = machine.fork(ROOT), machine.fork(ROOT)
    machine.burn(second, 100.0)
    run.sample()
    machine.end(first)
    machine.reap(ROOT)
    machine.burn(second, 1.0)
    readings = 0

    def meanwhile() -> None:
        nonlocal readings
        readings += 1
        if readings == 4:  # the root, the first and the second were read; the root is read again
            machine.end(second)
            machine.reap(ROOT)

    machine.meanwhile = meanwhile
    assert run.sample() == pytest.approx(101.0, abs=ROUNDING)
    assert second not in machine.table


def test_the_time_of_samplers_that_were_reaped_is_taken_off() -> None:
    run = Tracked()
    run.machine.table[ROOT].reaped = 3.0
    run.machine.burn(ROOT, 0.0)
    run.tree.foreign_cpu = 1.0
    assert run.sample() == pytest.approx(2.0, abs=ROUNDING)


def test_the_end_of_the_root_keeps_what_it_had_reaped() -> None:
    run = Tracked()
    child = run.machine.fork(ROOT)
    run.machine.burn(child, 1.5)
    run.machine.burn(ROOT, 0.5)
    run.machine.end(child)
    run.machine.reap(ROOT)
    run.sample()
    del run.machine.table[ROOT]
    for _ in range(2):
        run.sample()
        main, descendants, *threads = run.counters.read()
        assert (main, descendants) == (pytest.approx(0.5, abs=ATOM), pytest.approx(1.5, abs=ROUNDING))
        assert threads == [0, 0]
    assert (run.counters.unreceived, run.counters.has_orphans) == (0.0, False)


class Cores:
    """Two cores, which have been busy for a second more at each reading."""

    ram_capacity = None
    cores = 2

    def __init__(self) -> None:
        self.busy = 0.0

    def ram(self) -> None:
        return None

    def cpu(self) -> float:
        self.busy += 1.0
        return self.busy


def test_the_evidence_of_a_run() -> None:
    machine = Machine()
    machine.burn(ROOT, 2.0)
    tree = tree_of(machine)
    cpu = Cpu(tree, Cores())
    machine.burn(ROOT, 1.0)  # while other resources are opened
    tree.refresh()
    cpu.sample(0.0, FIRST)
    child = machine.fork(ROOT)
    machine.burn(child, 0.5)
    machine.burn(ROOT, 0.75)
    tree.refresh()
    cpu.sample(1.0, LAST)
    found = cpu.totals()
    assert found['main'][0] == pytest.approx(0.75, abs=ATOM)
    assert found['descendants'][0] == pytest.approx(0.5, abs=ATOM)
    assert found['combined'][0] == pytest.approx(1.25, abs=ATOM)
    assert found['system'] == (1.0, 1.0)
    assert found['before'] == pytest.approx(3.0, abs=ATOM)
    del found['main'], found['descendants'], found['combined'], found['system'], found['before']
    assert found == {
        'threads': (1, 1, 2),
        'cores': 2,
        'unreceived': 0.0,
        'has_reaped': False,
        'has_orphans': False,
        'is_ignored': False,
        'counts_reaped': True,
    }
    assert cpu.used_so_far() == pytest.approx(1.25, abs=ATOM)
    assert len(cpu.row()) == len(cpu.columns)
    machine.end(child)
    machine.reap(ROOT)
    tree.refresh()
    cpu.sample(2.0, LAST)
    assert cpu.totals()['has_reaped'] is True
