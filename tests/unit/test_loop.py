from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from gpu_tracker.aggregation import Aggregator
from gpu_tracker.process_tree.process import Process
from gpu_tracker.sampler.control import STOP, TARGET_ENDED
from gpu_tracker.sampler.grid import Grid
from gpu_tracker.sampler.loop import Loop
from gpu_tracker.sources.reading import RamReading, Resident


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Tree:
    def __init__(self):
        self.root = Process(7)
        self.root_gone = False
        self.members = {7: self.root}
        self.gone: list[Process] = []
        self.begun = 0.0
        self.foreign_cpu = 0.0
        self.changes = 0

    def refresh(self):
        pass

    def refresh_root(self):
        pass

    def ignores_children(self, process: Process) -> bool:
        return False


class Ram:
    """Takes as long as it is told for the samples at some moments."""

    def __init__(self, clock: Clock, costs: dict[float, float]):
        self.clock = clock
        self.costs = costs
        self.samples: list[tuple[float, str]] = []

    def read(self, now: float, kind: str) -> RamReading:
        moment = round(now - 100, 6)
        self.clock.now += self.costs.get(moment, 0.0)
        self.samples.append((moment, kind))
        return RamReading(Resident(1), Resident(0), Resident(1), (1, 0, 1))

    def watch(self, process: Process) -> None:
        pass


class System:
    ram_capacity = 1
    cores = 1

    def ram(self) -> int:
        return 1

    def cpu(self) -> float:
        return 0.0


class Gpu:
    def __init__(self):
        self.told: list[tuple[int | None, frozenset[int]]] = []
        self.finished: list[float] = []

    def members(self, main: int | None, descendants: frozenset[int]) -> None:
        self.told.append((main, descendants))

    def finish(self, timeout: float) -> None:
        self.finished.append(timeout)


class Control:
    """Lets time pass until the next thing that happens."""

    def __init__(self, clock: Clock, events: list[tuple[float, str]]):
        self.clock = clock
        self.events = [(100 + at, event) for at, event in events]
        self.waits: list[float | None] = []

    def wait(self, seconds: float | None) -> str | None:
        self.waits.append(seconds)
        at, event = self.events[0]
        due = float('inf') if seconds is None else self.clock.now + max(0.0, seconds)
        if at <= due:
            self.clock.now = max(self.clock.now, at)
            self.events.pop(0)
            return event
        self.clock.now = due
        return None


class EarlySamples:
    """Has samples due at given moments; each reading tells another size."""

    def __init__(self, clock: Clock, moments: list[float]):
        self.clock = clock
        self.moments = [100 + at for at in moments]
        self.made: list[float] = []
        self.on_grid: list[float] = []

    def due(self) -> float:
        return self.moments[0] if self.moments else float('inf')

    def grid_sampled(self, now: float) -> None:
        self.on_grid.append(round(now - 100, 6))
        self.moments = [moment for moment in self.moments if moment > now]

    def sample(self, now: float) -> RamReading | None:
        self.moments.pop(0)
        self.made.append(round(now - 100, 6))
        if len(self.made) == 2:
            return None  # nothing has changed
        size = 10 * len(self.made)
        return RamReading(Resident(1), Resident(size), Resident(1 + size), (1, None, None))


CLOSE = [0.001, 0.003, 0.007, 0.015, 0.031, 0.063, 0.127, 0.255, 0.511]
"""Seconds after the start at which the first samples are made: 1, 2, 4, ... ms after one another."""


class Run(NamedTuple):
    """A loop that has ended, and what was around it."""

    grid: Grid
    ram: Ram
    gpu: Gpu
    published: list[bool]
    control: Control
    end: str
    early: EarlySamples
    totals: dict[str, Any]

    @property
    def samples(self) -> list[tuple[float, str]]:
        """Return the samples but for those of the close look at the start."""
        return [(at, kind) for at, kind in self.ram.samples if at not in CLOSE]


def run(events, *, interval=1.0, costs=None, tree=None, early=None) -> Run:
    clock = Clock()
    ram = Ram(clock, costs or {})
    early_samples = EarlySamples(clock, early or [])
    aggregator = Aggregator()
    gpu = Gpu()
    published: list[bool] = []
    grid = Grid(interval)
    loop = Loop(
        tree=tree or Tree(),
        ram=ram,
        system=System(),
        gpu=gpu,
        aggregator=aggregator,
        grid=grid,
        interval=interval,
        publish=lambda now, *, last, abandoned: published.append(last),
        watching=lambda: None,
        exec_handle=None,
        monotonic=clock,
        early=None if early is None else early_samples,
    )
    loop.first()
    control = Control(clock, events)
    end = loop.run(control)
    return Run(grid, ram, gpu, published, control, end, early_samples, aggregator.totals())


def test_samples_lie_on_a_fixed_grid_and_the_last_one_at_the_stop():
    ran = run([(3.5, STOP)])
    assert ran.samples == [(0, 'first'), (1, 'middle'), (2, 'middle'), (3, 'middle'), (3.5, 'last')]
    assert ran.published[-5:] == [False, False, False, False, True]
    assert ran.end == STOP
    assert ran.gpu.finished == [0.0, 0.012]  # asked for before the last sample, waited for after it


def test_a_sample_that_takes_longer_than_the_interval_skips_points_and_never_queues():
    ran = run([(6.5, STOP)], costs={1: 2.3})
    assert ran.samples == [(0, 'first'), (1, 'middle'), (4, 'middle'), (5, 'middle'), (6, 'middle'), (6.5, 'last')]
    assert (ran.grid.skipped, ran.grid.late) == (2, 0)
    assert ran.grid.mean_interval == 1.5


def test_short_delays_do_not_shift_the_grid():
    ran = run([(3.5, STOP)], costs={1: 0.4, 2: 0.7})
    assert [at for at, _ in ran.samples] == [0, 1, 2, 3, 3.5]
    assert ran.grid.skipped == 0


def test_the_end_of_the_target_is_looked_at_at_once_and_does_not_shift_the_grid():
    ran = run([(1.25, TARGET_ENDED), (2.5, STOP)])
    assert [at for at, _ in ran.samples] == [0, 1, 1.25, 2, 2.5]


@pytest.mark.parametrize(
    ('interval', 'close'),
    [
        (1.0, CLOSE),
        (10.0, CLOSE),
        (0.125, [0.001, 0.003, 0.007, 0.015, 0.031, 0.063]),
        (0.0078125, [0.001, 0.003, 0.007]),
    ],
)
def test_the_first_samples_follow_closely_until_the_interval_takes_over(interval: float, close: list[float]):
    ran = run([(30.5 * interval, STOP)], interval=interval)
    points = [round(point * interval, 6) for point in range(1, 31)]
    expected = [(at, 'middle') for at in sorted({*close, *points})]
    assert ran.ram.samples == [(0, 'first'), *expected, (round(30.5 * interval, 6), 'last')]
    assert (ran.grid.skipped, ran.grid.late) == (0, 0)


def test_an_end_in_the_first_moments_is_not_waited_for():
    ran = run([(0.02, STOP)])
    assert ran.ram.samples == [(0, 'first'), *[(at, 'middle') for at in CLOSE[:4]], (0.02, 'last')]


def test_early_samples_are_made_between_the_points_and_do_not_shift_them():
    ran = run([(2.5, STOP)], early=[0.02, 0.6, 1.2, 2.4])
    assert ran.early.made == [0.02, 0.6, 1.2, 2.4]
    assert [at for at, _ in ran.samples] == [0, 1, 2, 2.5]
    assert ran.early.on_grid == [0, *CLOSE, 1, 2, 2.5]


def test_what_early_samples_tell_counts():
    ran = run([(2.5, STOP)], early=[0.6, 0.7, 1.2])
    assert ran.totals['ram']['descendants'][0] == 30
    assert ran.totals['ram']['beside_descendants'] == 31
    assert ran.totals['samples'] == len(ran.ram.samples)


def test_an_early_sample_at_a_point_of_the_grid_is_left_to_that():
    ran = run([(1.5, STOP)], early=[1.0])
    assert ran.early.made == []


def test_nothing_is_sampled_once_all_processes_have_ended():
    tree = Tree()
    tree.root_gone = True
    tree.members = {}
    ran = run([(1000.5, STOP)], tree=tree, early=[600.0])
    assert ran.control.waits[-1] is None
    assert ran.control.waits.count(None) == 1
    assert ran.grid.skipped == 0
    assert ran.samples == [(0, 'first'), (1000.5, 'last')]
    assert ran.early.made == []
    assert ran.published == [True] * 11


def test_the_gpu_source_hears_of_the_members_when_they_change():
    assert run([(3.5, STOP)]).gpu.told == [(7, frozenset())]


def test_a_sample_that_begins_well_after_its_point_is_late():
    grid = Grid(1.0)
    grid.begin(100.0)
    for begun in (101.0, 102.09, 103.11, 104.0):
        grid.sampled(begun)
        grid.go_on(begun + 0.01)
    assert (grid.late, grid.skipped, grid.mean_interval) == (1, 0, 1.0)


def test_the_time_that_a_system_takes_to_wake_a_process_is_not_late():
    grid = Grid(0.01)
    grid.begin(100.0)
    grid.sampled(100.0119)
    assert grid.late == 0


def test_a_sample_between_two_points_is_not_one_on_the_grid():
    grid = Grid(1.0)
    grid.begin(100.0)
    grid.sampled(100.5)
    assert grid.mean_interval is None
    assert grid.due == 101.0


def test_points_that_were_passed_without_a_sample_are_told_at_the_end():
    grid = Grid(1.0)
    grid.begin(100.0)
    grid.sampled(101.0)
    grid.go_on(101.01)
    grid.finish(104.05)  # in place of the one at 104
    assert grid.skipped == 2
