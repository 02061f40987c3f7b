from __future__ import annotations

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
    """Takes as long for each sample as it is told."""

    def __init__(self, clock: Clock, costs: dict[int, float]):
        self.clock = clock
        self.costs = costs
        self.samples: list[tuple[float, str]] = []

    def read(self, now: float, kind: str) -> RamReading:
        self.clock.now += self.costs.get(len(self.samples), 0.0)
        self.samples.append((round(now - 100, 6), kind))
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


def run(events, *, interval=1.0, costs=None, tree=None):
    clock = Clock()
    ram = Ram(clock, costs or {})
    gpu = Gpu()
    published: list[bool] = []
    grid = Grid(interval)
    loop = Loop(
        tree=tree or Tree(),
        ram=ram,
        system=System(),
        gpu=gpu,
        aggregator=Aggregator(),
        grid=grid,
        interval=interval,
        publish=lambda now, *, last, abandoned: published.append(last),
        watching=lambda: None,
        exec_handle=None,
        monotonic=clock,
    )
    loop.first()
    control = Control(clock, events)
    end = loop.run(control)
    return grid, ram, gpu, published, control, end


def test_samples_lie_on_a_fixed_grid_and_the_last_one_at_the_stop():
    _, ram, gpu, published, _, end = run([(3.5, STOP)])
    assert ram.samples == [(0, 'first'), (1, 'middle'), (2, 'middle'), (3, 'middle'), (3.5, 'last')]
    assert published == [False, False, False, False, True]
    assert end == STOP
    assert gpu.finished == [0.0, 0.012]  # asked for before the last sample, waited for after it


def test_a_sample_that_takes_longer_than_the_interval_skips_points_and_never_queues():
    grid, ram, *_ = run([(6.5, STOP)], costs={1: 2.3})
    assert ram.samples == [(0, 'first'), (1, 'middle'), (4, 'middle'), (5, 'middle'), (6, 'middle'), (6.5, 'last')]
    assert (grid.skipped, grid.late) == (2, 0)
    assert grid.mean_interval == 1.5


def test_short_delays_do_not_shift_the_grid():
    grid, ram, *_ = run([(3.5, STOP)], costs={1: 0.4, 2: 0.7})
    assert [at for at, _ in ram.samples] == [0, 1, 2, 3, 3.5]
    assert grid.skipped == 0


def test_the_end_of_the_target_is_looked_at_at_once_and_does_not_shift_the_grid():
    _, ram, *_ = run([(1.25, TARGET_ENDED), (2.5, STOP)])
    assert [at for at, _ in ram.samples] == [0, 1, 1.25, 2, 2.5]


def test_nothing_is_sampled_once_all_processes_have_ended():
    tree = Tree()
    tree.root_gone = True
    tree.members = {}
    grid, ram, _, _, control, _ = run([(1000.5, STOP)], tree=tree)
    assert control.waits == [None]
    assert grid.skipped == 0
    assert ram.samples == [(0, 'first'), (1000.5, 'last')]


def test_the_gpu_source_hears_of_the_members_when_they_change():
    _, _, gpu, *_ = run([(3.5, STOP)])
    assert gpu.told == [(7, frozenset())]


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
