from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.resources.cpu.counters import CpuCounters
from gpu_tracker.resources.cpu.missed_time import MissedTime
from support.simulated_processes import ROOT, Machine, SimulatedTree

STEPS = st.lists(
    st.tuples(
        st.sampled_from(['fork', 'burn', 'end', 'reap', 'ignore', 'burn', 'fork', 'sample', 'sample']),
        st.integers(0, 1000),
        st.floats(0.001, 3),
    ),
    max_size=60,
)
ATOM = 1e-6
FORK = 1e-9
"""CPU seconds that starting a child, or ignoring SIGCHLD, takes: who has not run has done neither."""


class Clocks:
    """Counts all that the simulated processes use, from its opening on."""

    def __init__(self, machine: Machine, tree: SimulatedTree, *, root_apart: bool) -> None:
        self._machine = machine
        self._root = machine.table[ROOT]
        self._root_apart = root_apart
        self._before = self._everything()
        self._of_root_before = self._root.cpu if root_apart else 0.0
        self.count = 1
        self.is_complete = True
        self.too_much = 1.0

    def total(self) -> float:
        return self.too_much * (self._everything() - self._before)

    def of_root(self) -> float:
        return (self.too_much if self._root_apart else 1.0) * (self._root.cpu - self._of_root_before)

    def _everything(self) -> float:
        return self._machine.of_descendants + self._root.cpu


class Cores:
    """A machine on which nothing but programs runs."""

    spent = (0.0, 0.0)


class Run:
    """A tracker's source of CPU times in a simulation."""

    def __init__(
        self,
        *,
        may_vanish: bool = False,
        permitted: bool = True,
        launched: bool = False,
        machine: Machine | None = None,
    ) -> None:
        self.machine = machine or Machine()
        self.tree = SimulatedTree(self.machine)
        self.cores = Cores()
        self.opened: list[Clocks] = []
        self._permitted = permitted
        self.missed = MissedTime(
            self.tree, self.cores, self._open, root_may_vanish=may_vanish, orphans_are_waited_for=launched
        )
        self.tree.refresh()
        self.source = CpuCounters(self.tree, self.missed)
        self.source.read()

    def _open(self, tree: SimulatedTree, root_may_vanish: bool) -> Clocks:
        if not self._permitted:
            raise PermissionError
        self.opened.append(Clocks(self.machine, tree, root_apart=root_may_vanish))
        return self.opened[-1]

    def sample(self) -> tuple[float, float]:
        self.tree.refresh()
        if ROOT not in self.machine.table:
            self.tree.root_gone = True
        reading = self.source.read()
        return reading.main, reading.descendants

    def child(self, parent: int = ROOT) -> int:
        before = set(self.machine.table)
        self.machine.fork(parent)
        self.machine.burn(parent, FORK)
        return (set(self.machine.table) - before).pop()

    def unseen_child(self, seconds: float, parent: int = ROOT) -> None:
        pid = self.child(parent)
        self.machine.burn(pid, seconds)
        self.machine.end(pid)
        self.machine.reap(parent)

    def vanish(self) -> None:
        """End the root, whose parent waits for it at once."""
        for process in self.machine.table.values():
            process.parent = 1 if process.parent == ROOT else process.parent
        del self.machine.table[ROOT]


def test_a_root_that_vanishes_keeps_what_it_and_its_children_have_used() -> None:
    run = Run(may_vanish=True)
    run.machine.burn(ROOT, 0.5)
    run.sample()
    run.machine.burn(ROOT, 0.25)
    run.unseen_child(0.125)
    run.vanish()
    assert run.sample() == (pytest.approx(0.75), pytest.approx(0.125))
    assert not run.missed.is_lower_bound


def test_without_clocks_a_root_that_vanishes_leaves_a_lower_bound() -> None:
    run = Run(may_vanish=True, permitted=False)
    run.machine.burn(ROOT, 0.5)
    run.sample()
    assert not run.missed.is_lower_bound
    run.machine.burn(ROOT, 0.25)
    run.vanish()
    assert run.sample() == (0.5, 0.0)
    assert run.missed.is_lower_bound


def test_a_root_that_was_seen_after_its_end_is_known_without_clocks() -> None:
    run = Run(may_vanish=True, permitted=False)
    run.machine.burn(ROOT, 0.5)
    run.machine.table[ROOT].ended = True
    run.sample()
    run.vanish()
    assert run.sample() == (0.5, 0.0)
    assert not run.missed.is_lower_bound


def test_children_that_were_seen_go_on_counting_after_the_root_has_vanished() -> None:
    run = Run(may_vanish=True)
    child = run.child()
    run.machine.burn(child, 1.0)
    run.sample()
    run.vanish()
    run.sample()
    run.machine.burn(child, 0.5)
    run.machine.end(child)
    assert run.sample() == (pytest.approx(FORK), pytest.approx(1.5))


def test_most_trees_have_no_clocks() -> None:
    run = Run()
    for _ in range(5):
        run.unseen_child(0.1)
        run.sample()
    assert run.opened == []
    assert not run.missed.is_added


def test_children_that_are_ignored_from_the_start_are_all_counted() -> None:
    machine = Machine()
    machine.ignore(ROOT)
    run = Run(machine=machine)
    for _ in range(5):
        run.unseen_child(0.1)
        run.machine.burn(ROOT, 0.2)
        run.sample()
    assert run.sample() == (pytest.approx(1.0), pytest.approx(0.5))
    assert len(run.opened) == 1
    assert run.missed.is_added
    assert not run.missed.is_lower_bound


def test_children_that_are_ignored_later_are_counted_from_the_next_look_on_and_the_rest_is_unknown() -> None:
    run = Run()
    run.unseen_child(0.5)
    run.sample()
    run.machine.ignore(ROOT)
    run.unseen_child(0.1)
    run.tree.refresh()
    run.missed.attach_where_ignored()
    run.unseen_child(0.2)
    assert run.sample()[1] == pytest.approx(0.7)
    assert run.missed.is_lower_bound


def test_where_clocks_were_there_from_the_start_nothing_is_missed_of_children_that_are_ignored_later() -> None:
    run = Run(may_vanish=True)
    run.machine.ignore(ROOT)
    run.unseen_child(0.1)
    assert run.sample()[1] == pytest.approx(0.1)
    assert not run.missed.is_lower_bound


def test_a_member_that_has_asked_for_its_children_not_to_wait_is_found_when_one_is_gone() -> None:
    run = Run()
    child = run.child()
    run.machine.burn(child, 0.5)
    run.sample()
    del run.machine.table[child]  # sigaction(2) with SA_NOCLDWAIT, which no file tells
    for _ in range(3):
        run.sample()
    run.machine.of_descendants += 0.25  # one that no sample sees
    assert run.sample()[1] == pytest.approx(0.75)
    assert run.missed.is_lower_bound


def test_children_that_are_ignored_just_before_the_end_of_a_root_are_known_where_it_has_clocks() -> None:
    run = Run(may_vanish=True)
    run.unseen_child(0.1)
    run.sample()
    run.machine.ignore(ROOT)
    run.unseen_child(0.2)
    run.machine.table[ROOT].ended = True
    run.machine.table[ROOT].ignores = False
    assert run.sample()[1] == pytest.approx(0.3)
    assert not run.missed.is_lower_bound


def test_without_clocks_a_root_tells_after_its_end_that_it_has_ignored_its_children() -> None:
    run = Run()
    run.machine.ignore(ROOT)
    run.unseen_child(0.2)
    run.machine.table[ROOT].ended = True
    run.sample()
    assert run.missed.is_lower_bound


def test_without_clocks_children_that_are_ignored_leave_a_lower_bound() -> None:
    run = Run(permitted=False)
    run.machine.ignore(ROOT)
    run.unseen_child(0.1)
    assert run.sample() == (pytest.approx(FORK), 0.0)
    assert run.missed.is_lower_bound


@pytest.mark.parametrize('launched', [False, True])
def test_a_daemon_that_somebody_else_waits_for_leaves_a_lower_bound_unless_that_one_tells(launched: bool) -> None:
    run = Run(launched=launched)
    parent = run.child()
    daemon = run.child(parent)
    run.sample()
    run.machine.end(parent)
    run.machine.reap(ROOT)
    run.sample()
    run.machine.burn(daemon, 1.0)
    run.machine.end(daemon)
    run.sample()
    assert run.missed.is_lower_bound is not launched


def test_a_process_that_was_refused_leaves_a_lower_bound() -> None:
    run = Run(may_vanish=True)
    run.opened[0].is_complete = False
    run.sample()
    assert not run.missed.is_lower_bound
    run.vanish()
    run.sample()
    assert run.missed.is_lower_bound


def test_what_no_program_got_is_taken_off_what_clocks_have_counted() -> None:
    run = Run(may_vanish=True)
    run.opened[0].too_much = 1.25
    run.machine.burn(ROOT, 0.4)
    run.unseen_child(0.8)
    run.cores.spent = (10.0, 2.0)
    run.vanish()
    assert run.sample() == (pytest.approx(0.4), pytest.approx(0.8))


def test_clocks_that_have_stopped_are_not_believed() -> None:
    run = Run(may_vanish=True)
    run.machine.burn(ROOT, 1.0)
    run.sample()
    run.opened[0].too_much = 0.5  # the root has executed a set-user-ID file
    run.machine.burn(ROOT, 1.0)
    run.sample()
    run.machine.burn(ROOT, 1.0)
    run.vanish()
    assert run.sample() == (2.0, 0.0)
    assert run.missed.is_lower_bound


def test_few_are_asked_at_a_sample_the_root_first_and_then_each_in_its_turn() -> None:
    run = Run()
    children = [run.child() for _ in range(6)]
    asked = []
    for _ in range(3):
        run.tree.questions.clear()
        for pid in (ROOT, *children):
            run.machine.burn(pid, 0.1)
        run.sample()
        asked.append(list(run.tree.questions))
    assert asked == [[2, 3, 4, 5], [2, 6, 7, 8], [2, 3, 4, 5]]


def test_nobody_is_asked_where_nothing_was_started_or_where_children_were_waited_for() -> None:
    run = Run()
    run.unseen_child(0.1)
    run.machine.burn(ROOT, 0.1)
    run.tree.questions.clear()
    run.sample()
    assert run.tree.questions == []
    run.machine.burn(ROOT, 0.1)
    run.tree.refresh()
    run.tree.listings -= 1
    run.source.read()
    assert run.tree.questions == []


def act(machine: Machine, step: tuple[str, int, float]) -> None:
    action, which, seconds = step
    pid = machine.living[which % len(machine.living)]
    if action == 'burn':
        machine.burn(pid, seconds)
    else:
        getattr(machine, action)(pid)
        if action in {'fork', 'ignore'}:
            machine.burn(pid, FORK)


@given(STEPS, st.booleans())
def test_with_clocks_from_the_start_everything_is_known_at_the_end_and_nothing_is_ever_too_much(
    steps: list[tuple[str, int, float]], permitted: bool
) -> None:
    run = Run(may_vanish=True, permitted=permitted)
    root = run.machine.table[ROOT]
    before = (0.0, 0.0)
    for step in steps:
        if step[0] == 'sample':
            main, descendants = run.sample()
            assert before[0] <= main <= root.cpu + ATOM
            assert before[1] <= descendants <= run.machine.of_descendants + ATOM
            before = (main, descendants)
        else:
            act(run.machine, step)
    run.vanish()
    main, descendants = run.sample()
    assert before[0] <= main <= root.cpu + ATOM
    assert before[1] <= descendants <= run.machine.of_descendants + ATOM
    if permitted:
        assert main == pytest.approx(root.cpu)
        assert descendants == pytest.approx(run.machine.of_descendants)
    assert run.missed.is_lower_bound is not permitted


@given(STEPS)
def test_with_clocks_later_or_never_nothing_is_ever_too_much_and_a_loss_is_recorded(
    steps: list[tuple[str, int, float]],
) -> None:
    run = Run()
    before = 0.0
    for step in (*steps, ('sample', 0, 0.0), ('sample', 0, 0.0), ('sample', 0, 0.0)):
        if step[0] == 'sample':
            main, descendants = run.sample()
            assert main == pytest.approx(run.machine.table[ROOT].cpu)
            assert before <= descendants <= run.machine.of_descendants + ATOM
            before = descendants
        else:
            act(run.machine, step)
    if 'ignore' not in {action for action, _, _ in steps}:
        missing = run.machine.of_descendants - before
        assert missing <= 0.02 * len(steps) or run.missed.is_lower_bound
