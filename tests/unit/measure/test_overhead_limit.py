from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.resources.budget import OverheadLimit
from gpu_tracker.resources.ram import Ram
from gpu_tracker.resources.ram.linux import LinuxRamReader
from gpu_tracker.sampler.control import STOP
from gpu_tracker.sampler.grid import Grid
from gpu_tracker.sampler.lineage import Lineage
from gpu_tracker.sampler.loop import Loop
from support.simulated_memory import FAULTS, Files, Tree

ROOT = 10
SHARE = 0.01


class WritingTree(Tree):
    """A program and copies of it, which may all make copies of pages all the time; reading them costs CPU time."""

    def __init__(self) -> None:
        super().__init__()
        self.files = Files(self)
        self.refresh_cost = 0.0

    def become(self, processes: int) -> None:
        for pid in list(self.memory):
            if pid >= ROOT + processes:
                self.end(pid)
                self.reap(pid)
        for pid in range(ROOT + 1, ROOT + processes):
            if pid not in self.memory:
                self.fork(ROOT, pid)

    def refresh(self) -> None:
        self.files.spent += self.refresh_cost
        for memory in self.memory.values():
            memory.faults += 5 * FAULTS
        super().refresh()


class Machine:
    """Everything around a loop, on a clock that goes on where the loop waits."""

    ram_capacity = cores = 1

    def __init__(self) -> None:
        self.now = 100.0
        self.tree = WritingTree()
        self.tree.start(ROOT, 300)
        self.tree.refresh()
        files = self.tree.files
        self.limit = OverheadLimit(SHARE, files.cpu_time)
        self.samples = 0
        self.grid = Grid(1.0, self.limit)
        self.loop = Loop(
            tree=self.tree,
            lineage=Lineage(self.tree),
            resources=[Ram(LinuxRamReader(self.tree, files, self.limit, files.cpu_time), self, self.tree)],
            grid=self.grid,
            interval=1.0,
            publish=self.publish,
            watching=lambda: None,
            exec_handle=None,
            monotonic=lambda: self.now,
        )
        self.phases: list[tuple[float, object]] = []
        self.seen: list[tuple[int, int, int]] = []

    def ram(self) -> int:
        return 1

    def publish(self, now: float, *, seconds: float, samples: int, last: bool, abandoned: bool) -> None:
        self.samples = samples

    def wait(self, seconds: float) -> str | None:
        due = self.now + max(0.0, seconds)
        if self.phases and due >= self.phases[0][0]:
            self.count()
            self.phases.pop(0)[1]()
            if not self.phases:
                return STOP
        self.now = due
        return None

    def count(self) -> None:
        files = self.tree.files
        names = [name for name, _ in files.read]
        self.seen.append((self.samples, names.count('pages'), names.count('mark')))


def test_under_a_limit_the_sampling_degrades_step_by_step_and_recovers() -> None:
    machine = Machine()
    tree, files = machine.tree, machine.tree.files

    def phase(processes: int, *, refresh: float, reading: float):
        def enter():
            tree.become(processes)
            tree.refresh_cost, files.cost = refresh, reading

        return enter

    cheap = phase(2, refresh=0.001, reading=0.002)
    cheap()
    machine.phases = [
        (200.0, phase(8, refresh=0.001, reading=0.002)),
        (300.0, phase(100, refresh=0.005, reading=0.002)),
        (400.0, phase(100, refresh=0.03, reading=0.002)),
        (700.0, cheap),
        (900.0, lambda: None),
    ]
    machine.loop.first()
    before = files.spent
    assert machine.loop.run(machine) == STOP

    starts = [(1, 0, 0), *machine.seen]
    samples, exact, marks = zip(
        *[tuple(b - a for a, b in zip(*pair, strict=True)) for pair in pairwise(starts)],
        strict=True,
    )
    # While all is affordable, all is read at every sample.
    assert samples[0] == pytest.approx(100, abs=1)
    assert exact[0] == pytest.approx(2 * 100, rel=0.1)
    assert marks[0] == pytest.approx(2 * 100, rel=0.1)
    # First exact readings become fewer; a sample is never left out.
    assert samples[1] == 100
    assert 8 * 40 < exact[1] < 8 * 95
    assert 100 < marks[1] <= 8 * 100
    # An exact reading of a large tree has to be saved up for; of the marks only the root's is read meanwhile.
    assert samples[2] == 100
    assert exact[2] <= 100
    assert 100 <= marks[2] < 10 * 100
    # Then samples are skipped, one in four being affordable; something is kept for exact readings.
    assert 60 <= samples[3] <= 105
    assert 100 <= exact[3] <= 300
    # Once there is less to read, all is read again; exact readings only where there may be a new maximum.
    assert samples[4] > 180
    assert marks[4] > 2 * 170
    assert exact[4] > 50
    assert machine.grid.is_limited
    assert machine.grid.skipped == 799 - sum(samples)  # the last sample takes the place of the last point
    assert files.spent - before <= SHARE * (10 + 800) + 0.03


def test_without_a_need_nothing_is_skipped() -> None:
    machine = Machine()
    machine.tree.refresh_cost = 0.002
    machine.phases = [(200.0, lambda: None)]
    machine.loop.first()
    machine.loop.run(machine)
    assert (machine.grid.skipped, machine.grid.late, machine.grid.is_limited) == (0, 0, False)
    assert machine.grid.mean_interval == 1.0


def test_points_that_are_skipped_at_the_end_count_in_the_mean_interval() -> None:
    grid = Grid(1.0)
    grid.begin(100.0)
    for now in (101.0, 102.0):
        grid.sampled(now)
        grid.go_on(now)
    grid.finish(102.5)
    assert (grid.skipped, grid.mean_interval) == (0, 1.0)
    grid.finish(112.0)
    assert (grid.skipped, grid.mean_interval) == (9, 4.0)


@given(
    st.floats(0.001, 1.0),
    st.lists(st.tuples(st.floats(0.001, 5), st.floats(1e-5, 0.5), st.floats(1e-5, 0.1)), min_size=1, max_size=100),
)
def test_no_more_than_the_share_is_ever_spent(share: float, steps: list[tuple[float, float, float]]) -> None:
    spent = now = 0.0
    limit = OverheadLimit(share, lambda: spent)
    limit.begin(0.0)
    largest = 0.0
    for passed, optional, basic in steps:
        now += passed + limit.seconds_to_next_sample(now)
        if limit.affords(now, optional):
            spent += optional
            limit.spend(optional)
        spent += basic
        largest = max(largest, basic)
        assert spent <= share * (10 + now) + largest + 1e-9


def test_at_the_end_a_reading_needs_what_was_saved_up() -> None:
    limit = OverheadLimit(SHARE, lambda: 0.0)
    assert limit.affords_at_edge(0.0, 0.005, 0.005)  # before the start, which does not count
    limit.begin(0.0)
    assert limit.affords_at_edge(0.0, 0.1, 0.2)
    assert not limit.affords_at_edge(4.0, 0.15, 0.2)
    assert limit.affords_at_edge(5.1, 0.15, 0.2)
    assert not limit.affords_at_edge(50.0, 0.25, 0.2)


def test_a_limit_that_is_never_enough_only_makes_the_pauses_long() -> None:
    limit = OverheadLimit(1e-300, lambda: 0.0)
    limit.begin(0.0)
    assert limit.seconds_to_next_sample(0.0) == 1e6
