"""This machine as the agent tells of it."""

from __future__ import annotations

import asyncio
import os

import pytest

from gpu_tracker.fleet.agent.local_host import Audience, LocalHost, LocalSource
from gpu_tracker.fleet.hosts.host import HostState
from gpu_tracker.fleet.polling.own_report import OwnReport
from gpu_tracker.gpus.latest_reading import Reading, Watch
from support.gpus.brief_gpus import gpu
from support.gpus.polled_machine import NOW, PolledMachine
from support.waiting import TIMEOUT, eventually

NOT_YET = 'the GPU driver has not answered yet'


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class WatchedMachine(PolledMachine):
    """A machine with a watch that looks when the test asks for it."""

    def __init__(self, *gpus, answers: bool = True) -> None:
        super().__init__(list(gpus), answers=answers)
        self.clock = Clock()
        self.watch = Watch(self, 0.001, self.clock)
        self.host = LocalHost(self.watch, '6.0.0', lambda: NOW)

    def look_until(self, condition) -> None:
        """Have the watch look until something is so, and then no more."""
        self.watch.start()
        eventually(condition)
        self.watch.stop()


@pytest.fixture
def machine():
    machine = WatchedMachine(gpu(0))
    yield machine
    machine.watch.stop()


def test_before_the_first_reading(machine) -> None:
    body = machine.host.body()
    assert body.pop('time') == NOW
    assert body == {
        'hostname': os.uname().nodename,
        'driver_problem': NOT_YET,
        'claims_problem': None,
        'gpus': None,
        'age_seconds': None,
        'interval_seconds': 0.001,
        'agent_version': '6.0.0',
    }
    state = machine.host.state()
    assert (state.state, state.error, state.report.gpus) == ('stale', NOT_YET, None)
    assert (machine.host.reading, machine.host.time) == (None, None)


def test_a_reading_and_its_age(machine) -> None:
    machine.watch.start()
    machine.watch.wait_for_first(30)
    machine.may_answer.clear()
    looks = machine.looks
    eventually(lambda: machine.looks > looks)
    machine.clock.now = 7.5
    body = machine.host.body()
    assert (body['age_seconds'], body['time'], body['driver_problem']) == (7.5, NOW, None)
    assert body['interval_seconds'] == 0.001
    assert [found['uuid'] for found in body['gpus']] == ['GPU-0']
    state = machine.host.state()
    assert (state.state, state.error, state.last_seen, machine.host.time) == ('up', None, NOW, NOW)
    assert (state.report.agent, state.report.age) == ('gpu-tracker 6.0.0', 7.5)
    machine.clock.now = 25.0
    state = machine.host.state()
    assert (state.state, state.error) == ('stale', 'its GPUs have not been read for 25 s')
    assert (state.last_seen, [found.key for found in state.report.gpus]) == (NOW - 25, ['GPU-0'])
    machine.may_answer.set()
    assert eventually(lambda: machine.host.state().state == 'up')


def test_what_was_known_last_is_kept_while_the_driver_fails(machine) -> None:
    machine.watch.start()
    machine.watch.wait_for_first(30)
    assert machine.host.state().state == 'up'
    machine.failure = RuntimeError('broken')
    state = eventually(lambda: machine.host.state() if machine.host.state().state == 'stale' else None)
    assert state.error == 'the GPUs cannot be read: RuntimeError: broken'
    assert [found.key for found in state.report.gpus] == ['GPU-0']
    assert machine.host.body()['gpus'] is None
    assert machine.host.time == NOW


def test_its_own_page_has_this_host_with_its_past(machine) -> None:
    async def read() -> None:
        source = LocalSource(machine.host, Audience(machine.watch, frozenset()), 0.001, print)
        assert [(host.id, host.name, host.state) for host in source.fleet.states()] == [
            ('0', os.uname().nodename, 'stale')
        ]
        machine.watch.start()
        running = asyncio.create_task(source.run())
        while source.fleet.state('0').state != 'up':
            await source.fleet.change(source.fleet.version)
        past = await source.past('0', 60)
        assert list(past.gpus) == ['GPU-0']
        assert past.gpus['GPU-0'].utilization[-1] == 0
        assert await source.past('1', 60) is None
        while source.fleet.totals_history.past(10).hosts_up != [1]:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)
        running.cancel()
        source.fleet.close()

    asyncio.run(asyncio.wait_for(read(), TIMEOUT))


def test_a_machine_whose_gpus_were_never_read_has_no_time_of_a_reading(machine) -> None:
    machine.failure = RuntimeError('broken')
    machine.look_until(lambda: machine.host.reading is not None)
    assert machine.host.time is None


class FailingHost:
    """A LocalHost that fails, until it does not."""

    def __init__(self) -> None:
        self.is_broken = False
        self.asked = 0
        self.reading = None

    def state(self) -> HostState:
        self.asked += 1
        if self.is_broken:
            raise ValueError('out of luck')
        return HostState('0', 'here', state='up', error=f'{self.asked}')


def test_nothing_that_a_reading_holds_ends_the_page() -> None:
    told = []

    class Asked:
        def __init__(self) -> None:
            self.times = 0

        def ask_if_there(self) -> None:
            self.times += 1

    async def read() -> None:
        host, audience = FailingHost(), Asked()
        source = LocalSource(host, audience, 0.001, told.append)
        host.is_broken = True
        running = asyncio.create_task(source.run())
        while host.asked < 3:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)
        host.is_broken = False
        version = source.fleet.version
        await source.fleet.change(version)
        running.cancel()
        assert audience.times >= 3

    asyncio.run(asyncio.wait_for(read(), TIMEOUT))
    assert told == ['a reading cannot be shown: ValueError: out of luck']


def test_a_reading_that_cannot_be_told_is_a_problem_and_no_end(machine) -> None:
    watch = machine.watch
    snapshot = {'hostname': 'here', 'driver_problem': None, 'gpus': [{}] * 257}
    report = OwnReport(watch, '6.0.0').of(Reading(0.0, snapshot))
    assert report.gpus is None
    assert report.driver_problem == 'the data of the GPU driver cannot be used: gpus has more than 256 entries'


def test_who_waits_for_an_answer_keeps_the_watch_awake(machine) -> None:
    asked = []

    class Asked:
        def latest(self) -> None:
            asked.append('latest')

    async def ask() -> None:
        audience = Audience(Asked(), frozenset({'/healthz'}))
        may_end = asyncio.Event()
        seen = []

        async def app(scope, receive, send) -> None:
            seen.append(scope['path'])
            await may_end.wait()

        observed = audience.around(app)
        healthy = asyncio.create_task(observed({'type': 'http', 'path': '/healthz'}, None, None))
        await asyncio.sleep(0)
        audience.ask_if_there()
        assert (seen, asked) == (['/healthz'], [])
        page = asyncio.create_task(observed({'type': 'http', 'path': '/api/v1/events'}, None, None))
        await asyncio.sleep(0)
        audience.ask_if_there()
        assert asked == ['latest', 'latest']
        may_end.set()
        await asyncio.gather(healthy, page)
        audience.ask_if_there()
        assert asked == ['latest', 'latest']

    asyncio.run(ask())
