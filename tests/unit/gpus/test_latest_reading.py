"""The thread that looks at this machine for all who want to know."""

from __future__ import annotations

import pytest

from gpu_tracker.gpus.latest_reading import Watch, pause_between
from support.gpus.brief_gpus import gpu
from support.gpus.polled_machine import PolledMachine
from support.waiting import eventually

SOON = 0.001


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watching():
    """Return a function that starts a watch, which ends with the test."""
    watches = []

    def start(machine, **options) -> Watch:
        watch = Watch(machine, **options)
        watches.append((watch, machine))
        watch.start()
        return watch

    yield start
    for watch, machine in watches:
        machine.may_answer.set()
        watch.stop()


def indices(watch: Watch) -> list[int]:
    return [found['index'] for found in watch.latest().snapshot['gpus']]


def test_the_newest_reading_is_at_hand(watching) -> None:
    machine = PolledMachine([gpu(0)])
    watch = watching(machine, interval=SOON)
    assert watch.wait_for_first(30)
    assert indices(watch) == [0]
    machine.gpus = [gpu(0), gpu(1)]
    assert eventually(lambda: indices(watch) == [0, 1])


def test_there_is_nothing_until_the_first_look_has_ended(watching) -> None:
    machine = PolledMachine([gpu(0)], answers=False)
    watch = watching(machine)
    assert watch.latest() is None
    assert not watch.wait_for_first(0)
    machine.may_answer.set()
    assert watch.wait_for_first(30)
    assert indices(watch) == [0]


def test_a_driver_that_hangs_makes_the_reading_old(watching) -> None:
    machine, clock = PolledMachine([gpu(0)]), Clock()
    watch = watching(machine, interval=SOON, clock=clock)
    watch.wait_for_first(30)
    machine.may_answer.clear()
    looks = machine.looks
    eventually(lambda: machine.looks > looks)
    clock.now = 25.0
    assert watch.age(watch.latest()) == 25.0
    machine.may_answer.set()
    assert eventually(lambda: watch.age(watch.latest()) == 0.0)


def test_whatever_a_look_raises_the_next_is_due(watching) -> None:
    machine = PolledMachine([gpu(0)])
    machine.failure = RuntimeError('out of luck')
    watch = watching(machine, interval=SOON)
    watch.wait_for_first(30)
    snapshot = watch.latest().snapshot
    problem = 'the GPUs cannot be read: RuntimeError: out of luck'
    assert (snapshot['gpus'], snapshot['driver_problem']) == (None, problem)
    machine.failure = None
    assert eventually(lambda: watch.latest().snapshot['driver_problem'] is None)
    assert set(machine.told) == {problem}


def test_a_machine_without_a_gpu_is_told_of(watching) -> None:
    machine = PolledMachine([])
    watching(machine).wait_for_first(30)
    assert machine.told == ['nothing is here']


def test_it_ends_when_it_is_told_to(watching) -> None:
    machine = PolledMachine([gpu(0)])
    watch = watching(machine, interval=3600.0)
    watch.wait_for_first(30)
    watch.stop()
    stopped = Watch(machine, SOON)
    stopped.stop()
    stopped.start()
    assert machine.looks == 1
    assert not stopped.wait_for_first(0)


def test_where_nobody_asks_it_looks_less_often() -> None:
    machine, clock = PolledMachine([gpu(0)]), Clock()
    watch = Watch(machine, 2.0, clock)
    assert watch._read() == 2.0
    clock.now = 60.0
    assert watch._read() == 2.0
    clock.now = 61.0
    assert watch._read() == 6.0
    watch.latest()
    assert watch._read() == 2.0
    assert Watch(machine, 60.0, clock)._read() == 60.0


def test_a_question_after_a_minute_without_one_has_it_look_at_once(watching) -> None:
    machine, clock = PolledMachine([gpu(0)]), Clock()
    watch = watching(machine, interval=3600.0, clock=clock)
    watch.wait_for_first(30)
    clock.now = 61.0
    assert watch.age(watch.newest) == 61.0
    assert watch.latest() is watch.newest
    assert eventually(lambda: watch.age(watch.latest()) == 0.0)
    assert machine.looks == 2


class SlowMachine(PolledMachine):
    """Each look takes as many seconds as the test says, by a clock of its own."""

    def __init__(self, *seconds: float) -> None:
        super().__init__([gpu(0)])
        self.clock = Clock()
        self._seconds = list(seconds)

    def read_again(self):
        self.clock.now += self._seconds.pop(0)
        return super().read_again()


@pytest.mark.parametrize(
    ('seconds', 'interval'),
    [
        ((0.01,), 2.0),
        ((0.01, 0.01, 1.5), 2.0),
        ((1.5,), 3.0),
        ((5.0, 5.0, 5.0), 7.0),  # so that what is up to 12 s old is not taken for old
        ((0.01, 60.0, 0.01), 2.0),  # a look that hung says nothing of the next
        ((5.0, 5.0, 5.0, 0.01, 0.01), 2.0),
        ((25.0, 25.0, 25.0), 10.0),  # what is half a minute old is old, however slow the driver is
    ],
)
def test_the_usual_interval_is_that_of_a_slow_driver(seconds, interval) -> None:
    machine = SlowMachine(*seconds)
    watch = Watch(machine, 2.0, machine.clock)
    assert watch.usual_interval == 2.0
    for _ in seconds:
        watch._read()
    assert watch.usual_interval == interval


def test_a_longer_interval_that_was_asked_for_is_the_usual_one() -> None:
    assert Watch(PolledMachine([gpu(0)]), 60.0, Clock()).usual_interval == 60.0


@pytest.mark.parametrize(
    ('interval', 'took', 'pause'),
    [
        (2.0, 0.0, 2.0),
        (2.0, 0.5, 1.5),
        (2.0, 1.5, 1.5),  # a slow driver is left alone for as long as it has taken
        (2.0, 60.0, 2.0),
    ],
)
def test_the_pause_between_two_looks(interval, took, pause) -> None:
    assert pause_between(interval, took) == pause
