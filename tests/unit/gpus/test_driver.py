"""A driver that is asked in a thread of its own."""

from __future__ import annotations

import threading

import pytest

from gpu_tracker.gpus.driver import Driver
from support.waiting import TIMEOUT, eventually


class Backend:
    def __init__(self) -> None:
        self.is_closed = False
        self.may_close = threading.Event()
        self.may_close.set()

    def close(self) -> None:
        self.may_close.wait(TIMEOUT)
        self.is_closed = True


def answer(driver: Driver, question, timeout: float = TIMEOUT):
    driver.ask(question)
    return driver.answer(timeout)


def test_a_driver_is_opened_once_and_asked_in_one_thread() -> None:
    opened: list[Backend] = []

    def open_backend() -> Backend:
        opened.append(Backend())
        return opened[-1]

    driver = Driver('test', open_backend)
    assert driver.backend is None
    threads = {answer(driver, lambda _: threading.get_ident()) for _ in range(3)}
    assert (len(opened), len(threads), threads & {threading.get_ident()}) == (1, 1, set())
    with pytest.raises(ValueError, match='of all things'):
        answer(driver, lambda _: int('of all things'))
    assert answer(driver, lambda backend: backend) is opened[0] is driver.backend


def test_a_driver_that_is_missing_is_looked_for_with_each_question_and_needs_no_thread_meanwhile() -> None:
    before = threading.active_count()
    found: list[Backend | None] = [Backend(), None]
    driver = Driver('test', found.pop)
    assert answer(driver, lambda _: 7) is None
    assert eventually(lambda: threading.active_count() == before)
    assert answer(driver, lambda _: 7) == 7


def test_a_driver_that_hangs_gets_no_other_question_until_it_answers() -> None:
    gate = threading.Event()
    driver = Driver('test', Backend)
    with pytest.raises(TimeoutError):
        answer(driver, lambda _: gate.wait(TIMEOUT), 0.01)
    asked: list[int] = []
    with pytest.raises(TimeoutError):
        answer(driver, lambda _: asked.append(1))
    gate.set()

    def is_asked_again() -> bool:
        try:
            return answer(driver, lambda _: asked.append(2) or True)
        except TimeoutError:
            return False

    assert eventually(is_asked_again)
    assert asked == [2]


def test_drivers_answer_at_the_same_time_and_their_cpu_time_is_charged() -> None:
    both, charged = threading.Barrier(2), []
    one, other = Driver('one', Backend, charged.append), Driver('other', Backend)
    one.ask(lambda _: both.wait(TIMEOUT))
    other.ask(lambda _: both.wait(TIMEOUT))
    assert {one.answer(TIMEOUT), other.answer(TIMEOUT)} == {0, 1}
    assert [seconds > 0 for seconds in charged] == [True]


def test_closing_ends_the_thread() -> None:
    driver, before = Driver('test', Backend), threading.active_count()
    driver.close(TIMEOUT)
    assert threading.active_count() == before
    backend = answer(driver, lambda backend: backend)
    driver.close(TIMEOUT)
    assert (backend.is_closed, driver.backend) == (True, None)
    assert eventually(lambda: threading.active_count() == before)


def test_a_driver_that_hangs_when_it_is_closed_delays_nobody() -> None:
    backend = Backend()
    backend.may_close.clear()
    driver = Driver('test', lambda: backend)
    answer(driver, lambda _: None)
    driver.close(0.01)
    assert not backend.is_closed
    backend.may_close.set()
    assert eventually(lambda: backend.is_closed)
