from __future__ import annotations

import os
import select
from typing import NamedTuple

import pytest

from gpu_tracker.processes.process import Process
from gpu_tracker.resources import Resource
from gpu_tracker.resources.budget import Budget
from gpu_tracker.sampler.control import LAUNCH, STOP, TARGET_ENDED
from gpu_tracker.sampler.grid import Grid
from gpu_tracker.sampler.lineage import Lineage
from gpu_tracker.sampler.loop import Loop


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
        self.changes = self.listings = 0
        self.changed_members = float('-inf')
        self.counts_reaped_faults = True
        self.may_miss_orphans = False

    def refresh(self):
        pass

    def refresh_root(self):
        pass

    def ignores_children(self, process: Process) -> bool:
        return False


class Slow(Resource):
    """Takes as long as it is told for the samples at some moments."""

    def __init__(self, clock: Clock, costs: dict[float, float]):
        self.clock = clock
        self.costs = costs
        self.samples: list[tuple[float, str]] = []
        self.followed: list[tuple[int | None, frozenset[int]]] = []
        self.calls: list[str] = []
        self.watched: list[float] = []

    def begin(self, now: float) -> None:
        self.calls.append('begin')

    def sample(self, now: float, kind: str) -> None:
        moment = round(now - 100, 6)
        self.clock.now += self.costs.get(moment, 0.0)
        self.samples.append((moment, kind))
        self.calls.append(kind)

    def watch(self, process: Process) -> None:
        self.watched.append(round(self.clock.now - 100, 6))
        self.clock.now += 0.008

    def follow(self, main: int | None, descendants: frozenset[int]) -> None:
        self.followed.append((main, descendants))

    def request_last(self) -> None:
        self.calls.append('request last')

    def wait_for_last(self) -> None:
        self.calls.append('wait for last')


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


CLOSE = [0.001, 0.003, 0.007, 0.015, 0.031, 0.063, 0.127, 0.255, 0.511]
"""Seconds after the start at which the first samples are made: 1, 2, 4, ... ms after one another."""


class Run(NamedTuple):
    """A loop that has ended, and what was around it."""

    grid: Grid
    resource: Slow
    published: list[bool]
    times: list[tuple[float, int]]
    """Seconds from the first sample and how many there were, at each publication."""
    control: Control
    end: str

    @property
    def samples(self) -> list[tuple[float, str]]:
        """Return the samples but for those of the close look at the start."""
        return [(at, kind) for at, kind in self.resource.samples if at not in CLOSE]


def run(events, *, interval=1.0, costs=None, tree=None, limits=None, exec_handle=None, clock=None, budget=None) -> Run:
    clock = clock or Clock()
    resource = Slow(clock, costs or {})
    published: list[bool] = []
    times: list[tuple[float, int]] = []
    grid = Grid(interval)
    tree = tree or Tree()

    def publish(now: float, *, seconds: float, samples: int, last: bool, abandoned: bool) -> None:
        published.append(last)
        times.append((seconds, samples))

    loop = Loop(
        tree=tree,
        lineage=Lineage(tree),
        resources=[resource],
        grid=grid,
        interval=interval,
        publish=publish,
        watching=lambda: None,
        exec_handle=exec_handle,
        monotonic=clock,
        limits=limits,
        budget=budget,
        cpu_time=lambda: clock.now - 100,
    )
    loop.first()
    control = Control(clock, events)
    end = loop.run(control)
    return Run(grid, resource, published, times, control, end)


def test_samples_lie_on_a_fixed_grid_and_the_last_one_at_the_stop():
    ran = run([(3.5, STOP)])
    assert ran.samples == [(0, 'first'), (1, 'middle'), (2, 'middle'), (3, 'middle'), (3.5, 'last')]
    assert ran.published[-5:] == [False, False, False, False, True]
    assert ran.end == STOP
    assert ran.resource.calls[:2] == ['begin', 'first']
    assert ran.resource.calls[-3:] == ['request last', 'last', 'wait for last']
    assert (ran.times[0], ran.times[-1]) == ((0.0, 1), (3.5, len(ran.resource.samples)))


class Limits:
    def __init__(self):
        self.checks = 0

    def check(self) -> None:
        self.checks += 1


def test_limits_are_compared_after_each_sample_but_the_first_and_the_last():
    limits = Limits()
    ran = run([(3.5, STOP)], limits=limits)
    assert limits.checks == len(ran.resource.samples) - 2


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
    assert ran.resource.samples == [(0, 'first'), *expected, (round(30.5 * interval, 6), 'last')]
    assert (ran.grid.skipped, ran.grid.late) == (0, 0)


class BusyTree(Tree):
    """Starts or ends a process at some moments."""

    def __init__(self, clock: Clock, moments: list[float], cost: float = 0.0):
        super().__init__()
        self.clock = clock
        self.moments = moments
        self.cost = cost

    def refresh(self):
        self.clock.now += self.cost if self.clock.now > 102 else 0.0
        if self.moments and self.clock.now - 100 >= self.moments[0]:
            self.changed_members = self.clock.now
            self.moments.pop(0)


TENTHS_AFTER_2 = [round(2 + tenth / 10, 6) for tenth in range(51)]


@pytest.mark.parametrize(
    ('moments', 'after_2'),
    [
        ([1.5], [at for at in TENTHS_AFTER_2 if at <= 5] + [6, 7]),
        ([1.5, 3.05], [at for at in TENTHS_AFTER_2 if at <= 6.1] + [7]),
    ],
)
def test_samples_are_made_ten_times_a_second_for_three_seconds_after_a_start_or_an_end(moments, after_2):
    clock = Clock()
    ran = run([(7.5, STOP)], tree=BusyTree(clock, moments), clock=clock, budget=Budget(100.0))
    assert [at for at, kind in ran.samples if at >= 2 and kind == 'middle'] == after_2
    assert ran.grid.skipped == 0


def test_extra_samples_stop_when_the_budget_is_spent():
    clock = Clock()
    tree = BusyTree(clock, [1.5], cost=0.02)
    ran = run([(4.95, STOP)], tree=tree, clock=clock, budget=Budget(100.0, most=0.045))
    assert [at for at, kind in ran.samples if at >= 2] == [2, 2.12, 3.02, 4.02, 4.14, 4.97]


def test_without_a_budget_there_are_no_extra_samples():
    clock = Clock()
    ran = run([(4.5, STOP)], tree=BusyTree(clock, [1.5]), clock=clock)
    assert ran.samples == [(0, 'first'), (1, 'middle'), (2, 'middle'), (3, 'middle'), (4, 'middle'), (4.5, 'last')]


def test_an_end_in_the_first_moments_is_not_waited_for():
    ran = run([(0.02, STOP)])
    assert ran.resource.samples == [(0, 'first'), *[(at, 'middle') for at in CLOSE[:4]], (0.02, 'last')]


class Pipe:
    """A pipe that a held command's exec closes the writing end of; waiting for that moves the clock."""

    def __init__(self, clock: Clock, closed: float):
        self.clock = clock
        self.closed = 100 + closed
        self.reading, self.writing = os.pipe()
        self.select = select.select

    def wait(self, reading, writing, exceptional, seconds):
        end = self.clock.now + seconds
        if self.closed <= end and self.writing != -1:
            end = self.closed
            self.close_writing()
        self.clock.now = end
        return self.select(reading, writing, exceptional, 0)

    def close_writing(self):
        os.close(self.writing)
        self.writing = -1


@pytest.mark.parametrize(
    ('closed', 'watched'),
    [
        (0.6, [0.6, 0.608, 0.616]),
        (3.5, [3.5, 3.508, 3.516]),
        (10.4, [10.4, 10.408, 10.416]),
        (11.0, [10.5, 10.508, 10.516]),  # 10 s after the launch was announced: watched as any other process
    ],
)
def test_a_held_command_is_watched_once_it_has_been_started(closed: float, watched: list[float], monkeypatch):
    clock = Clock()
    pipe = Pipe(clock, closed)
    monkeypatch.setattr(select, 'select', pipe.wait)
    try:
        ran = run([(0.5, LAUNCH), (20.5, STOP)], exec_handle=pipe.reading, clock=clock)
    finally:
        os.close(pipe.reading)
        if pipe.writing != -1:
            pipe.close_writing()
    assert ran.resource.watched == watched


def test_nothing_is_sampled_once_all_processes_have_ended():
    tree = Tree()
    tree.root_gone = True
    tree.members = {}
    ran = run([(1000.5, STOP)], tree=tree)
    assert ran.control.waits[-1] is None
    assert ran.control.waits.count(None) == 1
    assert ran.grid.skipped == 0
    assert ran.samples == [(0, 'first'), (1000.5, 'last')]
    assert ran.published == [True] * 11


def test_resources_are_given_the_members_when_they_change():
    assert run([(3.5, STOP)]).resource.followed == [(7, frozenset())]


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


def test_points_that_were_passed_without_a_sample_are_told_at_the_end():
    grid = Grid(1.0)
    grid.begin(100.0)
    grid.sampled(101.0)
    grid.go_on(101.01)
    grid.finish(104.05)  # in place of the one at 104
    assert grid.skipped == 2
