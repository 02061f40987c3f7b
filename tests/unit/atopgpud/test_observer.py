from __future__ import annotations

import asyncio
import threading
import time

import pytest

from gpu_tracker.background import in_thread
from gpu_tracker.errors import GpuError
from support.atop.observed_gpus import Backend, Clock, Monitor, Scene, observing, until
from support.gpus.gpu_readings import known
from support.waiting import TIMEOUT

IMPATIENT = 1.5

A = 'GPU 0 (NVIDIA H200, 00000000:00:00.0)'
B = 'GPU 1 (NVIDIA H200, 00000000:01:00.0)'


def test_each_gpu_is_read_again_and_again():
    async def scenario():
        async with observing(Backend(Monitor(0), Monitor(1))) as scene:
            assert scene.busy() == [10, 11]
            before = scene.samples()
            await until(lambda: all(now > then + 3 for now, then in zip(scene.samples(), before, strict=True)))
            assert scene.lines == []

    asyncio.run(scenario())


def test_without_a_gpu_the_driver_is_let_go():
    async def scenario():
        backend = Backend()
        scene = Scene(backend, TIMEOUT)
        assert await scene.observer.open() == 0
        assert (backend.opened, backend.is_open) == (1, False)
        assert scene.lines == []

    asyncio.run(scenario())


def test_a_driver_that_does_not_work_is_an_error():
    async def scenario():
        backend = Backend()
        backend.problem = GpuError('The driver is broken.', 'broken')
        scene = Scene(backend, TIMEOUT)
        assert await scene.observer.open() == 0
        assert scene.lines == ['error: The driver is broken.']

    asyncio.run(scenario())


def test_a_gpu_that_hangs_is_unknown_and_the_others_are_read():
    async def scenario():
        backend = Backend(Monitor(0), Monitor(1))
        backend.gpus[0].may_answer.clear()
        clock = Clock()
        async with observing(backend, IMPATIENT, monotonic=clock) as scene:
            assert scene.bus_ids() == ['00000000:00:00.0', '00000000:01:00.0']
            await until(lambda: scene.busy() == [-1, 11])
            scene.observer.check()
            assert scene.lines == []
            clock.now = 2 * IMPATIENT
            before = scene.samples()
            await until(lambda: scene.samples()[1] > before[1] + 3)
            for _ in range(2):
                scene.observer.check()
            assert scene.lines == [
                f'warning: {A}: has not answered in time: its figures are unknown until it does',
            ]
            backend.gpus[0].may_answer.set()
            await until(lambda: scene.busy() == [10, 11])
            assert scene.lines[1:] == [f'warning: {A}: works again']

    asyncio.run(scenario())


def test_a_gpu_that_has_gone_is_not_told_as_one_that_hangs():
    async def scenario():
        backend = Backend(Monitor(0), Monitor(1))
        clock = Clock()
        async with observing(backend, IMPATIENT, monotonic=clock) as scene:
            backend.gpus = backend.gpus[1:]
            await scene.observer.open_again()
            hanging = backend.gpus[0]
            hanging.may_answer.clear()
            scene.lines.clear()

            def is_told():
                clock.now += 2 * IMPATIENT
                scene.observer.check()
                return scene.lines

            await until(is_told)
            assert scene.lines == [f'warning: {B}: has not answered in time: its figures are unknown until it does']

    asyncio.run(scenario())


def test_gpus_that_come_and_go_are_found_when_they_are_looked_for():
    async def scenario():
        backend = Backend(Monitor(0))
        async with observing(backend) as scene:
            early = scene.client
            backend.gpus = (backend.gpus[0], Monitor(1))
            await scene.observer.open_again()
            assert scene.bus_ids() == ['00000000:00:00.0', '00000000:01:00.0']
            assert scene.busy() == [10]  # who was told of one is told of one
            scene.join()
            await until(lambda: scene.busy() == [10, 11])
            backend.gpus = backend.gpus[1:]
            await scene.observer.open_again()
            assert scene.bus_ids() == ['00000000:01:00.0']
            assert scene.busy()[0] == -1
            samples = scene.samples()
            await until(lambda: scene.samples()[1] > samples[1] + 3)
            assert scene.samples()[0] == samples[0]
            assert scene.busy() == [-1, 11]
            scene.client = early
            assert scene.busy() == [-1]
            assert backend.opened == 3
            assert scene.lines == [f'warning: {A}: has gone']

    asyncio.run(scenario())


def test_counters_go_on_after_the_gpus_were_looked_for():
    async def scenario():
        backend = Backend(Monitor(0))
        async with observing(backend) as scene:
            await until(lambda: scene.samples()[0] > 5)
            (before,) = scene.samples()
            await scene.observer.open_again()
            await until(lambda: scene.samples()[0] > before + 5)

    asyncio.run(scenario())


def test_where_no_gpu_is_left_those_known_stay_and_can_come_back():
    async def scenario():
        backend = Backend(Monitor(0))
        async with observing(backend) as scene:
            gpus, backend.gpus = backend.gpus, ()
            await scene.observer.open_again()
            assert scene.lines == [
                'warning: the driver lists no GPU any more: the GPUs seen before are reported as unreadable',
                f'warning: {A}: has gone',
            ]
            assert not backend.is_open
            assert scene.bus_ids() == ['00000000:00:00.0']
            assert scene.busy() == [-1]
            backend.gpus = gpus
            (before,) = scene.samples()
            await scene.observer.open_again()
            await until(lambda: scene.samples()[0] > before)
            assert scene.busy() == [10]
            assert scene.lines[2:] == [f'warning: {A}: works again']

    asyncio.run(scenario())


def test_a_gpu_that_was_lost_at_the_start_is_told_on_to_those_who_know_it_after_the_gpus_were_looked_for():
    async def scenario():
        backend = Backend(Monitor(0), Monitor(1))
        monitor = backend.gpus[1]
        found = monitor.gpu
        monitor.gpu = known(1)
        monitor.problem = 'lost'
        async with observing(backend) as scene:
            assert scene.busy() == [10, -1]
            monitor.gpu = found
            monitor.problem = None
            await until(lambda: scene.busy() == [10, 11])
            for _ in range(2):
                backend.gpus = (Monitor(0), Monitor(1))
                await scene.observer.open_again()
                before = scene.samples()
                await until(lambda before=before: scene.samples()[1] > before[1] + 3)
                assert scene.busy() == [10, 11]
            early, samples = scene.client, scene.samples()
            scene.join()
            assert scene.samples()[1] >= samples[1]  # what has been counted goes on for new clients too
            assert scene.bus_ids() == ['00000000:00:00.0', '00000000:01:00.0']
            backend.gpus = backend.gpus[:1]
            await scene.observer.open_again()
            scene.client = early
            await until(lambda: scene.busy() == [10, -1])
            assert scene.lines == [
                'warning: GPU 1 (unknown, unknown place): lost',
                f'warning: {B}: works again',
                f'warning: {B}: has gone',
            ]

    asyncio.run(scenario())


def test_two_gpus_of_which_first_one_and_then_the_other_was_lost_are_never_taken_for_each_other():
    async def scenario():
        backend = Backend(Monitor(0), Monitor(1))
        monitor = backend.gpus[1]
        found = monitor.gpu
        monitor.gpu = known(1)
        monitor.problem = 'lost'
        async with observing(backend) as scene:
            monitor.gpu = found
            monitor.problem = None
            await until(lambda: scene.busy() == [10, 11])
            backend.gpus = (Monitor(1), Monitor(0))  # they have changed places
            monitor = backend.gpus[1]
            found = monitor.gpu
            monitor.gpu = known(1)
            monitor.problem = 'lost'
            await scene.observer.open_again()
            await until(lambda: scene.busy() == [-1, 11])
            early = scene.client
            scene.join()
            await until(lambda: scene.busy() == [11, -1])
            before = scene.samples()
            await until(lambda: scene.samples()[0] > before[0] + 3)
            assert scene.samples()[1] == 0
            monitor.gpu = found
            monitor.problem = None
            await until(lambda: scene.busy() == [11, 10])
            scene.client = early
            assert scene.busy() == [-1, 11]

    asyncio.run(scenario())


def test_while_a_driver_hangs_looking_for_gpus_changes_nothing():
    async def scenario():
        backend = Backend(Monitor(0), Monitor(1))
        async with observing(backend) as scene:
            await until(lambda: scene.busy() == [10, 11])
            backend.gpus[1].may_answer.clear()
            looks = backend.gpus[1].looks
            await until(lambda: backend.gpus[1].looks > looks)
            threads = set(threading.enumerate())
            message = 'warning: a GPU driver does not respond: atopgpud keeps its previous list of GPUs'
            for times in (1, 2):
                looking = asyncio.create_task(scene.observer.open_again())
                while not looking.done():
                    assert scene.busy()[0] == 10
                    scene.observer.check()
                    await asyncio.sleep(0.005)
                before = scene.samples()
                await until(lambda before=before: scene.samples()[0] > before[0] + 3)
                assert [line for line in scene.lines if line == message] == [message] * times
                # The one that looks at the first GPU is another; those that have done their work end in their own time.
                await until(lambda: len(set(threading.enumerate()) - threads) == 1)
            assert backend.opened == 1
            before = scene.samples()
            backend.gpus[1].may_answer.set()
            await until(lambda: scene.samples()[1] > before[1] + 3)
            assert scene.busy() == [10, 11]
            await scene.observer.open_again()
            assert backend.opened == 2

    asyncio.run(scenario())


def test_a_stop_does_not_wait_for_what_hangs():
    async def scenario():
        backend = Backend(Monitor(0), Monitor(1))
        backend.gpus[0].may_answer.clear()
        async with observing(backend, IMPATIENT) as scene:
            await until(lambda: backend.gpus[0].looks)
            assert not scene.observer.stop()

    asyncio.run(scenario())


def test_what_a_gpu_is_may_become_known_later():
    async def scenario():
        backend = Backend(Monitor(0))
        async with observing(backend) as scene:
            identity = backend.gpus[0].gpu
            backend.gpus[0].gpu = identity._replace(pci_bus_id='00000000:65:00.0')
            await until(lambda: scene.bus_ids() == ['00000000:65:00.0'])

    asyncio.run(scenario())


def test_more_gpus_than_atop_knows_are_left_out():
    async def scenario():
        async with observing(Backend(*map(Monitor, range(33)))) as scene:
            assert scene.busy() == list(range(10, 42))
            assert scene.lines == [
                'warning: this machine has 33 GPUs, but atop supports at most 32: the remaining GPUs are not reported'
            ]

    asyncio.run(scenario())


def test_work_in_a_thread_gives_its_result_or_its_failure_and_keeps_nobody_from_ending():
    async def scenario():
        assert await in_thread(lambda: 5) == 5
        with pytest.raises(ZeroDivisionError):
            await in_thread(lambda: 1 // 0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(in_thread(ends_late.wait), 0.01)

    ends_late = threading.Event()
    asyncio.run(scenario())
    threads = threading.active_count()
    ends_late.set()
    deadline = time.monotonic() + TIMEOUT
    while threading.active_count() == threads:
        assert time.monotonic() < deadline
