"""How long clients wait that may be guessing."""

from __future__ import annotations

import asyncio

import pytest

from gpu_tracker.fleet.web.guesses import DELAY, MEMORY, MOST_OF_ALL, MOST_OF_AN_ADDRESS, MOST_WAITING, Guesses


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def guesses(clock: Clock) -> Guesses:
    return Guesses(clock)


def test_who_is_wrong_too_often_waits_and_nobody_else_does(guesses: Guesses, clock: Clock) -> None:
    for _ in range(MOST_OF_AN_ADDRESS):
        assert guesses.delay('a') == 0
        guesses.was_wrong('a')
    assert (guesses.delay('a'), guesses.delay('b')) == (DELAY, 0)
    guesses.was_right('a')
    assert guesses.delay('a') == DELAY  # or somebody who knows one secret could look for another
    clock.now += MEMORY
    assert guesses.delay('a') == 0
    guesses.was_wrong('a')
    assert guesses.delay('a') == 0


def test_where_many_guess_all_wait_but_those_who_were_right_lately(guesses: Guesses, clock: Clock) -> None:
    guesses.was_right('known')
    for number in range(MOST_OF_ALL):
        assert guesses.delay('new') == 0
        guesses.was_wrong(f'10.0.{number}.1')
    assert (guesses.delay('new'), guesses.delay('known')) == (DELAY, 0)
    clock.now += MEMORY
    assert guesses.delay('new') == 0
    clock.now += 3600
    for number in range(MOST_OF_ALL):
        guesses.was_wrong(f'10.0.{number}.1')
    assert guesses.delay('known') == DELAY


def test_so_many_of_one_address_wait_at_a_time(clock: Clock) -> None:
    async def wait_for_ever(seconds: float) -> None:
        assert seconds == DELAY
        await asyncio.Event().wait()

    async def come() -> list[bool]:
        guesses = Guesses(clock, wait_for_ever)
        assert await guesses.wait('a')
        for _ in range(MOST_OF_AN_ADDRESS):
            guesses.was_wrong('a')
            guesses.was_wrong('b')
        waiting = [asyncio.create_task(guesses.wait('a')) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0)
        assert not await guesses.wait('a')
        waiting += [asyncio.create_task(guesses.wait('b'))]
        waiting[0].cancel()
        await asyncio.wait(waiting[:1])
        waiting += [asyncio.create_task(guesses.wait('a'))]
        await asyncio.sleep(0)
        assert not await guesses.wait('a')
        still = [not task.done() for task in waiting]
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        return still

    assert asyncio.run(come()) == [False] + [True] * (MOST_WAITING + 1)


def test_addresses_without_number_fill_no_memory(guesses: Guesses) -> None:
    for number in range(10_000):
        guesses.was_wrong(str(number))
    assert len(guesses._of_address) == 4096
