from __future__ import annotations

import asyncio
import threading

import pytest

from gpu_tracker.errors import GpuError
from gpu_tracker.idle.observing.driver import CHEAP, Driver, DriverAnswer
from support.gpus.gpu_readings import reading
from support.waiting import TIMEOUT, eventually

A = reading(0, 'GPU-a')
B = reading(1, 'GPU-b')
LOST = reading(0, problem='lost')
SILENT = DriverAnswer(None, 'the GPU driver does not answer', is_awaited=True)
BROKEN = GpuError('The driver is broken.', 'broken')


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Backend:
    """An opened driver with these GPUs, which answers as soon as ``may_answer`` is set."""

    def __init__(self, *gpus) -> None:
        self.gpus = gpus
        self.failure = None
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.looks = 0
        self.is_closed = False

    def survey(self, *, with_sensors):
        assert with_sensors is False
        self.looks += 1
        self.may_answer.wait(TIMEOUT)
        if self.failure is not None:
            raise self.failure
        return list(self.gpus)

    def close(self) -> None:
        self.is_closed = True


class Opener:
    """Opens one backend after the other; an exception is raised, and the last is opened again and again."""

    def __init__(self, *opened) -> None:
        self.opened = list(opened)
        self.attempts = 0

    def __call__(self):
        self.attempts += 1
        found = self.opened.pop(0) if len(self.opened) > 1 else self.opened[0]
        if isinstance(found, Exception):
            raise found
        return found


class Machine:
    """A driver that ``clock`` is for, and looks at it in an event loop that lasts."""

    def __init__(self, runner: asyncio.Runner, opener=lambda: None) -> None:
        self.clock = Clock()
        self.driver = Driver(opener, timeout=5, clock=self.clock)
        self.run = runner.run

    def poll(self, *, later: float = 0):
        self.clock.now += later
        return self.run(self.driver.poll())

    def look_briefly(self):
        """Poll with a time-out that is over soon."""
        self.driver._timeout = 0.01
        try:
            return self.run(self.driver.poll())
        finally:
            self.driver._timeout = 5


@pytest.fixture
def runner():
    with asyncio.Runner() as runner:
        yield runner


def test_a_driver_is_opened_once_and_asked_at_each_look(runner) -> None:
    opener = Opener(Backend(A, B))
    machine = Machine(runner, opener)
    assert machine.poll() == DriverAnswer((A, B))
    assert machine.poll() == DriverAnswer((A, B))
    assert (opener.attempts, opener.opened[0].looks) == (1, 2)


def test_without_any_driver_nothing_is_told_and_nothing_is_wrong(runner) -> None:
    assert Machine(runner, Opener(None)).poll() == DriverAnswer(None, None)


def test_a_driver_that_appears_is_found_at_the_next_look(runner) -> None:
    machine = Machine(runner, Opener(None, None, Backend(A)))
    assert [machine.poll() for _ in range(3)] == [DriverAnswer(), DriverAnswer(), DriverAnswer((A,))]


def test_a_missing_driver_that_takes_long_to_miss_is_tried_again_after_10_seconds(runner) -> None:
    machine = Machine(runner)

    def without_driver():
        machine.clock.now += 2 * CHEAP

    opener = Opener(None)
    machine.driver = Driver(lambda: opener() or without_driver(), timeout=5, clock=machine.clock)
    assert machine.poll() == DriverAnswer()
    assert machine.poll(later=9.9) == DriverAnswer()
    assert opener.attempts == 1
    assert machine.poll(later=0.2) == DriverAnswer()
    assert opener.attempts == 2


def test_a_driver_that_does_not_work_is_tried_again_after_10_seconds_and_its_problem_stays_told(runner) -> None:
    opener = Opener(BROKEN, Backend(A))
    machine = Machine(runner, opener)
    assert machine.poll() == DriverAnswer(None, 'The driver is broken.')
    assert machine.poll(later=9.9) == DriverAnswer(None, 'The driver is broken.')
    assert opener.attempts == 1
    assert machine.poll(later=0.1) == DriverAnswer((A,))


def test_a_driver_that_stops_working_is_opened_anew_at_the_next_look(runner) -> None:
    first, second = Backend(A), Backend(A, B)
    machine = Machine(runner, Opener(first, second))
    machine.poll()
    first.failure = BROKEN
    assert machine.poll() == DriverAnswer(None, 'The driver is broken.')
    assert first.is_closed
    assert machine.poll() == DriverAnswer((A, B))


def test_a_driver_that_works_only_until_it_is_asked_is_opened_every_10_seconds(runner) -> None:
    backend = Backend(A)
    backend.failure = BROKEN
    opener = Opener(backend)
    machine = Machine(runner, opener)
    for _ in range(3):
        assert machine.poll(later=4) == DriverAnswer(None, 'The driver is broken.')
    assert opener.attempts == 1
    assert machine.poll(later=4) == DriverAnswer(None, 'The driver is broken.')
    assert opener.attempts == 2


def test_a_look_does_not_wait_for_a_driver_that_hangs_and_asks_it_once(runner) -> None:
    backend = Backend(A)
    machine = Machine(runner, Opener(backend))
    machine.poll()
    backend.may_answer.clear()
    assert machine.look_briefly() == SILENT
    eventually(lambda: backend.looks == 2)
    assert [machine.poll() for _ in range(3)] == [SILENT] * 3  # although these would wait for long
    assert backend.looks == 2
    backend.may_answer.set()


def test_a_late_answer_brings_the_driver_back_and_is_not_itself_told(runner) -> None:
    backend = Backend(A)
    machine = Machine(runner, Opener(backend))
    backend.may_answer.clear()
    assert machine.look_briefly() == SILENT
    backend.gpus = (A, B)
    backend.may_answer.set()
    assert eventually(lambda: machine.poll() != SILENT)
    assert machine.poll() == DriverAnswer((A, B))
    assert backend.looks == 3


def test_a_driver_that_is_long_in_opening_is_there_once_it_is_open(runner) -> None:
    may_open = threading.Event()
    backend = Backend(A)
    attempts = []

    def open_slowly():
        attempts.append(None)
        may_open.wait(TIMEOUT)
        return backend

    machine = Machine(runner, open_slowly)
    assert machine.look_briefly() == SILENT
    assert machine.poll() == SILENT
    may_open.set()
    assert eventually(lambda: machine.poll() == DriverAnswer((A,)))
    assert len(attempts) == 1


def test_a_failure_that_comes_late_is_handled_like_any_other(runner) -> None:
    first, second = Backend(A), Backend(B)
    machine = Machine(runner, Opener(first, second))
    machine.poll()
    first.may_answer.clear()
    first.failure = BROKEN
    assert machine.look_briefly() == SILENT
    first.may_answer.set()
    assert eventually(lambda: machine.poll() == DriverAnswer((B,)))


def test_a_driver_that_cannot_read_all_its_gpus_is_opened_anew_every_minute(runner) -> None:
    opener = Opener(Backend(LOST), Backend(LOST), Backend(A))
    machine = Machine(runner, opener)
    assert machine.poll() == DriverAnswer((LOST,))
    assert machine.poll(later=59.9) == DriverAnswer((LOST,))
    assert opener.attempts == 1
    assert machine.poll(later=0.2) == DriverAnswer((LOST,))
    assert machine.poll() == DriverAnswer((LOST,))
    assert opener.attempts == 2
    assert machine.poll(later=61) == DriverAnswer((LOST,))
    assert machine.poll() == DriverAnswer((A,))
    assert machine.poll(later=1000) == DriverAnswer((A,))
    assert machine.poll() == DriverAnswer((A,))
    assert opener.attempts == 3


def test_a_driver_without_gpus_is_opened_anew_every_minute(runner) -> None:
    machine = Machine(runner, Opener(Backend(), Backend(A)))
    assert machine.poll() == DriverAnswer(())
    assert machine.poll(later=60) == DriverAnswer(())
    assert machine.poll() == DriverAnswer((A,))


def test_a_driver_is_opened_anew_when_there_may_be_another_gpu(runner) -> None:
    first = Backend(A)
    machine = Machine(runner, Opener(first, Backend(A, B)))
    assert machine.poll() == DriverAnswer((A,))
    machine.driver.open_anew()
    assert machine.poll() == DriverAnswer((A, B))
    assert first.is_closed


def test_closing_lets_go_of_the_driver(runner) -> None:
    backend = Backend(A)
    machine = Machine(runner, Opener(backend))
    machine.poll()
    machine.run(machine.driver.close())
    assert backend.is_closed
    machine.run(machine.driver.close())  # nothing is open


def test_a_driver_that_hangs_is_not_let_go_of(runner) -> None:
    backend = Backend(A)
    machine = Machine(runner, Opener(backend))
    backend.may_answer.clear()
    assert machine.look_briefly() == SILENT
    machine.run(machine.driver.close())
    assert not backend.is_closed
    backend.may_answer.set()


def test_closing_does_not_wait_for_a_driver_that_cannot_be_left(runner) -> None:
    backend = Backend(A)
    machine = Machine(runner, Opener(backend))
    machine.poll()
    may_end = threading.Event()
    backend.close = lambda: may_end.wait(TIMEOUT)
    machine.driver._timeout = 0.01
    machine.run(machine.driver.close())
    may_end.set()
