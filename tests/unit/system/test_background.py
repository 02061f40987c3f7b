"""Calls that may hang, and what is reported while they do not return."""

from __future__ import annotations

import threading

import pytest

from gpu_tracker.background import Call, Changes, Poll, Reported, call_in_time
from support.waiting import TIMEOUT, eventually


def test_a_call_in_time_returns_and_raises_as_the_call_does() -> None:
    assert call_in_time(lambda: 7, TIMEOUT) == 7
    with pytest.raises(ValueError, match='of all things'):
        call_in_time(lambda: int('of all things'), TIMEOUT)
    gate = threading.Event()
    with pytest.raises(TimeoutError):
        call_in_time(gate.wait, 0.01)
    gate.set()


def test_a_call_returns_and_raises_what_its_work_does() -> None:
    call = Call(lambda: int('of all things'))
    assert call.has_ended(TIMEOUT)
    with pytest.raises(ValueError, match='of all things'):
        call.result()


def test_a_call_that_hangs_delays_nobody() -> None:
    gate = threading.Event()
    call = Call(gate.wait)
    assert not call.has_ended(0.01)
    gate.set()
    assert call.has_ended(TIMEOUT)
    assert call.result() is True


def test_a_poll_is_done_again_until_it_says_that_it_is_done() -> None:
    pauses = [0.0, 0.0, None]
    poll = Poll(lambda: pauses.pop(0), 'test')
    assert poll.has_ended(TIMEOUT)  # it has not begun
    poll.start()
    assert poll.has_ended(TIMEOUT)
    assert pauses == []


def test_a_poll_that_pauses_is_woken_and_stopped() -> None:
    times: list[int] = []
    poll = Poll(lambda: times.append(1) or 3600.0, 'test')
    poll.start()
    assert eventually(lambda: len(times) == 1)
    poll.wake()
    assert eventually(lambda: len(times) == 2)
    poll.stop()
    assert poll.has_ended(TIMEOUT)
    assert len(times) == 2


def test_a_poll_that_hangs_is_overdue_and_reported_once() -> None:
    gate, begun, now = threading.Event(), threading.Event(), [100.0]

    def work() -> None:
        begun.set()
        gate.wait(TIMEOUT)

    poll = Poll(work, 'test', limit=2.0, clock=lambda: now[0])
    poll.start()
    assert begun.wait(TIMEOUT)
    assert not poll.is_overdue
    now[0] = 102.5
    assert (poll.seconds_under_way, poll.is_overdue) == (2.5, True)
    assert [poll.report_once(), poll.report_once()] == [True, False]
    assert not poll.has_ended(2.0)  # which are over already
    gate.set()
    now[0] = 100.0
    assert poll.has_ended(TIMEOUT)


def test_a_text_is_reported_once_as_long_as_its_cause_lasts() -> None:
    texts: list[str] = []
    reported = Reported(texts.append)
    for _ in range(2):
        reported.once('a', 'A')
        reported.once('b', 'B')
    assert texts == ['A', 'B']
    reported.keep({'b'})
    reported.once('a', 'A again')
    reported.once('b', 'B again')
    assert texts == ['A', 'B', 'A again']


def test_changes_are_reported_once_a_minute_at_most() -> None:
    texts: list[str] = []
    now = [0.0]
    changes = Changes(texts.append, 'over', lambda: now[0])
    changes.note(None)
    changes.note('lost')
    changes.note('hot')
    now[0] = 59.0
    changes.note(None)
    assert texts == ['lost']
    now[0] = 60.0
    changes.note('hot')
    now[0] = 120.0
    changes.note(None)
    assert texts == ['lost', 'hot', 'over']
