from __future__ import annotations

import asyncio
import threading
import time

import pytest

from gpu_tracker.atopgpud import observer
from support.atop.observed_gpus import Backend, Monitor, Scene, observing, until
from support.waiting import TIMEOUT

A = 'GPU 0 (NVIDIA H200, 00000000:00:00.0)'
B = 'GPU 1 (NVIDIA H200, 00000000:01:00.0)'
SWITCHED_ON = (
    f'warning: atopgpud switched on accounting mode of {A}. Accounting mode stays on after atopgpud ends. '
    'To switch it off, run nvidia-smi -am 0 or reload the driver'
)


def test_a_gpu_that_fails_is_unknown_and_logged_once_and_so_is_its_end():
    async def scenario():
        backend = Backend(Monitor(0), Monitor(1))
        async with observing(backend) as scene:
            backend.gpus[1].problem = 'lost'
            await until(lambda: scene.busy() == [10, -1])
            looks = backend.gpus[1].looks
            await until(lambda: backend.gpus[1].looks > looks + 5)
            backend.gpus[1].problem = None
            await until(lambda: scene.busy() == [10, 11])
            looks = backend.gpus[1].looks
            await until(lambda: backend.gpus[1].looks > looks + 5)
            assert scene.lines == [f'warning: {B}: lost', f'warning: {B}: works again']

    asyncio.run(scenario())


def test_another_problem_is_another_message():
    async def scenario():
        backend = Backend(Monitor(0))
        async with observing(backend) as scene:
            for problem in ('lost', 'needs a reset', None):
                backend.gpus[0].problem = problem
                seen = len(scene.lines)
                await until(lambda seen=seen: len(scene.lines) > seen)
            assert scene.lines == [
                f'warning: {A}: lost',
                f'warning: {A}: needs a reset',
                f'warning: {A}: works again',
            ]

    asyncio.run(scenario())


def test_what_is_not_known_of_a_gpu_for_a_failure_is_logged_once_and_so_is_its_end():
    async def scenario():
        backend = Backend(Monitor(0), Monitor(1))
        async with observing(backend) as scene:
            backend.gpus[1].gap = 'its processes are unknown'
            await until(lambda: scene.lines)
            looks = backend.gpus[1].looks
            await until(lambda: backend.gpus[1].looks > looks + 5)
            assert scene.busy() == [10, 11]
            backend.gpus[1].gap = None
            await until(lambda: len(scene.lines) > 1)
            looks = backend.gpus[1].looks
            await until(lambda: backend.gpus[1].looks > looks + 5)
            assert scene.lines == [
                f'warning: {B}: its processes are unknown',
                f'warning: {B}: works again',
            ]

    asyncio.run(scenario())


def test_a_gpu_that_cannot_be_read_at_all_is_told_as_such_and_not_by_what_was_unknown_before():
    async def scenario():
        backend = Backend(Monitor(0))
        async with observing(backend) as scene:
            for gap, problem in (('half known', None), ('half known', 'lost'), ('half known', None), (None, None)):
                backend.gpus[0].gap, backend.gpus[0].problem = gap, problem
                seen = len(scene.lines)
                await until(lambda seen=seen: len(scene.lines) > seen)
            assert scene.lines == [
                f'warning: {A}: half known',
                f'warning: {A}: lost',
                f'warning: {A}: half known',
                f'warning: {A}: works again',
            ]

    asyncio.run(scenario())


def test_a_gpu_that_fails_again_and_again_fills_no_disk():
    async def scenario():
        backend = Backend(Monitor(0))
        async with observing(backend) as scene:
            for number in range(25):
                backend.gpus[0].gap = None if number % 2 else 'its processes are unknown'
                looks = backend.gpus[0].looks
                await until(lambda looks=looks: backend.gpus[0].looks > looks + 2)  # the last but one saw it
            assert scene.lines == [f'warning: {A}: its processes are unknown', f'warning: {A}: works again'] * 5
            scene.observer.check()
            assert len(scene.lines) == 10
            scene.observer._tell._clock = lambda: time.monotonic() + 61
            scene.observer.check()
            assert scene.lines[10:] == ['warning: 15 more messages like these were left out']

    asyncio.run(scenario())


def test_an_opening_that_takes_long_is_told(monkeypatch):
    monkeypatch.setattr(observer, '_LONG', 0.01)

    async def scenario():
        backend = Backend(Monitor(0))
        scene = Scene(backend, TIMEOUT)
        may_open = threading.Event()
        scene.drivers.open = lambda opens=scene.drivers.open: may_open.wait(TIMEOUT) and opens()
        opening = asyncio.create_task(scene.observer.open())
        await until(lambda: scene.lines)
        assert not opening.done()
        may_open.set()
        assert await opening == 1
        assert scene.lines == ['warning: waiting for the GPU driver to respond']
        assert await observer.in_thread(lambda: scene.observer.stop(TIMEOUT))

    asyncio.run(scenario())


def test_an_opening_that_fails_at_once_is_no_long_one():
    async def scenario():
        scene = Scene(Backend(), TIMEOUT)

        def fail():
            raise ValueError('of all things')

        scene.drivers.open = fail
        with pytest.raises(ValueError, match='of all things'):
            await scene.observer.open()
        assert scene.lines == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ('was_on', 'why_not', 'lines'),
    [
        (True, None, []),
        (False, 'needs root', [f'warning: accounting mode of {A} could not be switched on: needs root']),
        (False, None, [SWITCHED_ON]),
    ],
)
def test_accounting_mode_is_told_where_it_was_switched_on_or_could_not_be(was_on, why_not, lines):
    async def scenario():
        monitor = Monitor(0, accounts=why_not)
        monitor.gpu = monitor.gpu._replace(keeps_accounts=was_on)
        async with observing(Backend(monitor), keep_accounts=True) as scene:
            assert scene.lines == lines

    asyncio.run(scenario())
