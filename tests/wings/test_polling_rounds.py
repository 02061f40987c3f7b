"""Asking hosts again and again: over one connection, in the form they know, and less often while they are dead."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.fleet.config.cluster import Cluster, ConfiguredHost, Token
from gpu_tracker.fleet.hosts.fleet import Fleet
from gpu_tracker.fleet.hosts.history import History
from gpu_tracker.fleet.polling.http_client import HttpClient
from gpu_tracker.fleet.polling.poller import Poller, waiting_hosts
from gpu_tracker.fleet.resolver import Resolver
from gpu_tracker.gpus.latest_reading import Reading
from support.fleet.hostile_agents import (
    NVGPU_GPU,
    Recorder,
    answer,
    closed_port,
    report,
    requested,
    serving,
    url_of,
)
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from gpu_tracker.fleet.hosts.host import HostState

OURS = '/api/v1/host'
NVGPUS = '/gpu_status'
REPORT = answer(report())
NVGPU_REPORT = b'{"hostname": "old", "gpus": [' + repr(NVGPU_GPU).encode().replace(b"'", b'"') + b']}'
NVGPU_REPORT = NVGPU_REPORT.replace(b'True', b'true').replace(b'None', b'null')


def poller(*hosts: ConfiguredHost, interval: float = 5.0, **options: object) -> Poller:
    cluster = Cluster(hosts, interval, deadline=TIMEOUT)
    return Poller(cluster, Fleet(waiting_hosts(cluster), interval=interval, history=History()), **options)


@contextlib.asynccontextmanager
async def client() -> AsyncIterator[HttpClient]:
    made = HttpClient()
    try:
        yield made
    finally:
        await made.close()


async def becomes(asking: Poller, state: str, host_id: str = '0') -> HostState:
    """Wait until a host is in a state."""
    while True:
        host = asking.fleet.state(host_id)
        assert host is not None
        if host.state == state:
            return host
        await asking.fleet.change(asking.fleet.version)


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), TIMEOUT))


def test_a_host_is_asked_over_one_connection():
    async def test() -> None:
        agent = Recorder({OURS: REPORT})
        async with serving(agent) as url, client() as asked:
            asking = poller(ConfiguredHost(url, token=Token('s3cret')))
            for _ in range(3):
                await asking.round(asked)
        assert agent.connections == 1
        assert agent.asked_paths == [OURS] * 3
        assert agent.header('Authorization') == ['Bearer s3cret'] * 3
        assert agent.header('Accept-Encoding') == ['identity'] * 3
        assert agent.header('User-Agent')[0].startswith('gpu-tracker/')

    run(test)


def test_a_host_is_called_as_configured_or_as_it_calls_itself():
    async def test() -> None:
        async with (
            serving(Recorder({OURS: REPORT})) as one,
            serving(Recorder({OURS: REPORT})) as two,
            client() as asked,
        ):
            asking = poller(ConfiguredHost(one, 'front', 'login'), ConfiguredHost(two))
            before = [(host.name, host.group, host.state) for host in asking.fleet.states()]
            await asking.round(asked)
        assert before == [('front', 'login', 'waiting'), (two.removeprefix('http://'), None, 'waiting')]
        assert [(host.name, host.group, host.state) for host in asking.fleet.states()] == [
            ('front', 'login', 'up'),
            ('node01', None, 'up'),
        ]
        past = await asking.past('0', 60)
        assert past is not None
        assert past.gpus['GPU-a'].utilization[-1] == 5
        assert await asking.past('2', 60) is None

    run(test)


def test_hosts_that_call_themselves_alike_are_told_apart():
    async def test() -> None:
        lone = Recorder({OURS: answer(report(hostname='lone'))})
        async with (
            serving(Recorder({OURS: REPORT})) as one,
            serving(Recorder({OURS: REPORT})) as two,
            serving(lone) as three,
            client() as asked,
        ):
            asking = poller(ConfiguredHost(one), ConfiguredHost(two), ConfiguredHost(three))
            places = [url.removeprefix('http://') for url in (one, two)]
            assert [host.url for host in asking.fleet.states()] == [one, two, three]
            for _ in range(2):
                await asking.round(asked)
                assert [(host.name, host.state) for host in asking.fleet.states()] == [
                    (f'node01 ({places[0]})', 'up'),
                    (f'node01 ({places[1]})', 'up'),
                    ('lone', 'up'),
                ]
            lone.paths[OURS] = REPORT  # its name has been changed
            await asking.round(asked)
            assert asking.fleet.states()[2].name == f'node01 ({three.removeprefix("http://")})'

    run(test)


def test_since_when_processes_run_is_told_by_this_machine_s_clock():
    async def test() -> None:
        an_hour_behind = time.time() - 3600
        process = {'pid': 7, 'started': an_hour_behind - 60}
        told = report(time=an_hour_behind, age_seconds=0.0, gpus=[{'uuid': 'GPU-a', 'processes': [process]}])
        async with serving(Recorder({OURS: answer(told)})) as url, client() as asked:
            asking = poller(ConfiguredHost(url))
            await asking.round(asked)
        (gpu,) = asking.fleet.states()[0].report.gpus
        assert gpu.processes[0].started == pytest.approx(an_hour_behind + 3600 - 60, abs=TIMEOUT)

    run(test)


def test_an_agent_of_nvgpu_is_asked_in_its_form_and_for_ours_again_after_a_while():
    async def test() -> None:
        agent = Recorder({NVGPUS: answer(NVGPU_REPORT)})
        async with serving(agent) as url, client() as asked:
            now = [0.0]
            asking = poller(ConfiguredHost(url), clock=lambda: now[0])
            for now[0] in (0.0, 30.0, 59.0, 60.0, 61.0):
                await asking.round(asked)
            (state,) = asking.fleet.states()
            assert (state.state, state.name) == ('up', 'old')
            assert state.report is not None
            assert state.report.agent == 'nvgpu'
            assert agent.asked_paths == [OURS, NVGPUS, NVGPUS, NVGPUS, OURS, NVGPUS, NVGPUS]
            assert agent.connections <= 2
            agent.paths = {OURS: REPORT}  # it was updated
            await asking.round(asked)
            assert asking.fleet.states()[0].error == 'answered 404: no agent is there, but another program'
            await asking.round(asked)
            assert asking.fleet.states()[0].name == 'node01'

    run(test)


def test_an_agent_that_answers_in_nvgpus_form_where_ours_is_asked_for_is_read_as_one_of_nvgpu():
    async def test() -> None:
        agent = Recorder({OURS: answer(NVGPU_REPORT)})
        async with serving(agent) as url, client() as asked:
            asking = poller(ConfiguredHost(url))
            await asking.round(asked)
            (state,) = asking.fleet.states()
            assert state.report is not None
            assert (state.state, state.report.agent, state.report.gpus[0].status) == ('up', 'nvgpu', 'free')

    run(test)


def test_an_agent_of_ours_in_the_place_of_nvgpus_is_asked_in_our_form_at_once():
    async def test() -> None:
        agent = Recorder({NVGPUS: answer(NVGPU_REPORT)})
        async with serving(agent) as url, client() as asked:
            asking = poller(ConfiguredHost(url))
            await asking.round(asked)
            agent.paths = {NVGPUS: answer(NVGPU_REPORT.replace(b'"type"', b'"index": "0", "type"')), OURS: REPORT}
            await asking.round(asked)
            (state,) = asking.fleet.states()
            assert state.report is not None
            assert (state.name, state.report.agent) == ('node01', 'gpu-tracker 6.0.0')
            await asking.round(asked)
        assert agent.asked_paths == [OURS, NVGPUS, NVGPUS, OURS, OURS]

    run(test)


def test_an_agent_of_ours_of_which_only_nvgpus_form_is_to_be_had():
    async def test() -> None:
        agent = Recorder({NVGPUS: answer(NVGPU_REPORT.replace(b'"type"', b'"index": "0", "type"'))})
        async with serving(agent) as url, client() as asked:
            asking = poller(ConfiguredHost(url))
            await asking.round(asked)
            await asking.round(asked)
            (state,) = asking.fleet.states()
            assert (state.state, state.name) == ('up', 'old')
        assert agent.asked_paths == [OURS, NVGPUS, NVGPUS, OURS]

    run(test)


def test_a_host_dies_and_comes_back():
    async def test() -> None:
        with closed_port() as bound:
            asking = poller(ConfiguredHost(url_of(bound)), interval=0.02, longest_pause=0.05)
            task = asyncio.create_task(asking.run())
            down = await becomes(asking, 'down')
            assert (down.error, down.last_seen, down.report) == ('cannot connect: connection refused', None, None)
            async with serving(Recorder({OURS: REPORT}), bound):
                up = await becomes(asking, 'up')
                assert (up.error, asking.error_for_nvgpu('0')) == (None, None)
                while 1 not in asking.fleet.totals_history.past(10).hosts_up:  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0)
            down = await becomes(asking, 'down')
            assert down.last_seen is not None
            assert down.report is not None
            assert down.report.hostname == 'node01'
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(test)


def test_a_dead_host_is_asked_less_and_less_often():
    async def test() -> None:
        agent = Recorder({OURS: answer(b'', '500 Oops')})
        times: list[int] = []
        async with serving(agent) as url, client() as asked:
            now = [0]
            asking = poller(ConfiguredHost(url), clock=lambda: now[0])
            while len(times) < 7:
                before = len(agent.requests)
                await asking.round(asked)
                times += now * (len(agent.requests) - before)
                now[0] += 5
        pauses = [after - before for before, after in itertools.pairwise(times)]
        assert pauses[0] == 5
        assert all(5 <= pause <= 30 for pause in pauses)
        assert pauses[-1] >= 15

    run(test)


class StillWatch:
    """A watch that has looked once, or never."""

    usual_interval = 2.0

    def __init__(self, snapshot: dict[str, object] | None = None) -> None:
        self.reading = None if snapshot is None else Reading(0.0, snapshot)

    def latest(self) -> Reading | None:
        return self.reading

    def age(self, reading: Reading) -> float:
        return 1.0


def test_this_machine_is_looked_at_without_http():
    async def test() -> None:
        watch = StillWatch({'hostname': 'here', 'driver_problem': None, 'gpus': [{'index': 0, 'status': 'free'}]})
        asking = poller(ConfiguredHost(None), watch=watch)
        async with client() as asked:
            await asking.round(asked)
            (state,) = asking.fleet.states()
            assert (state.name, state.state) == ('here', 'up')
            watch.reading = Reading(2.0, {'hostname': 'here', 'driver_problem': 'lost', 'gpus': None})
            await asking.round(asked)
            (state,) = asking.fleet.states()
            assert (state.state, state.error) == ('stale', 'lost')

    run(test)


def test_this_machine_is_asked_in_each_round_however_often_its_driver_was_silent():
    async def test() -> None:
        now = [0.0]
        watch = StillWatch()
        cluster = Cluster((ConfiguredHost(None),), deadline=0.01)
        asking = Poller(
            cluster, Fleet(waiting_hosts(cluster), interval=5), watch=watch, clock=lambda: now[0], longest_pause=1e9
        )
        async with client() as asked:
            for _ in range(5):
                await asking.round(asked)
                now[0] += 5
            assert asking.fleet.states()[0].state == 'down'
            watch.reading = Reading(0.0, {'hostname': 'here', 'driver_problem': None, 'gpus': []})
            await asking.round(asked)
        assert asking.fleet.states()[0].state == 'up'

    run(test)


def test_no_proxy_sees_a_token(monkeypatch):
    async def test() -> None:
        proxy, agent = Recorder({}), Recorder({OURS: REPORT})
        async with serving(proxy) as between, serving(agent) as url:
            for name in ('no_proxy', 'NO_PROXY'):
                monkeypatch.delenv(name, raising=False)
            for name in ('http_proxy', 'HTTP_PROXY', 'all_proxy', 'ALL_PROXY'):
                monkeypatch.setenv(name, between)
            async with client() as asked:
                asking = poller(ConfiguredHost(url, token=Token('s3cret')))
                await asking.round(asked)
        assert (asking.fleet.states()[0].state, proxy.requests) == ('up', [])

    run(test)


def test_where_there_are_fewer_connections_than_hosts_they_take_turns():
    async def test() -> None:
        asked_now: set[str] = set()

        class Slow(Recorder):
            async def __call__(self, reader, writer) -> None:
                self.connections += 1
                while await requested(reader):
                    asked_now.add(str(self))
                    assert len(asked_now) == 1
                    for _ in range(50):
                        await asyncio.sleep(0)
                    asked_now.clear()
                    writer.write(REPORT)

        agents = [Slow({}) for _ in range(3)]
        async with contextlib.AsyncExitStack() as stack:
            urls = [await stack.enter_async_context(serving(agent)) for agent in agents]
            asking = poller(*map(ConfiguredHost, urls))
            asked = HttpClient(hosts=3, most=1)
            await asking.round(asked)
            await asking.round(asked)
            assert [state.state for state in asking.fleet.states()] == ['up'] * 3
            await asked.close()
        # None is kept: those would be open beside the one that is allowed.
        assert [agent.connections for agent in agents] == [2, 2, 2]

    run(test)


def test_a_host_whose_name_is_looked_up_for_long_says_so():
    async def test() -> None:
        release = threading.Event()

        def look_up(_: str):
            release.wait(TIMEOUT)
            return ((int(socket.AF_INET), '127.0.0.1'),)

        async with serving(Recorder({OURS: REPORT})) as url:
            cluster = Cluster((ConfiguredHost(url.replace('127.0.0.1', 'node02')),), deadline=0.05)
            asking = Poller(cluster, Fleet(waiting_hosts(cluster), interval=5))
            asked = HttpClient(Resolver(look_up))
            await asking.round(asked)
            assert asking.fleet.states()[0].error == 'the name of the host is still being resolved'
            assert asking.error_for_nvgpu('0') == 'Host not available'
            release.set()
            await asked.close()

    run(test)


def test_a_driver_that_does_not_answer_is_no_reason_to_wait():
    async def test() -> None:
        cluster = Cluster((ConfiguredHost(None),), deadline=0.1)
        asking = Poller(cluster, Fleet(waiting_hosts(cluster), interval=5), watch=StillWatch())
        assert asking.fleet.states()[0].name == 'self'
        async with client() as asked:
            await asking.round(asked)
        assert asking.fleet.states()[0].error == 'the GPU driver has not responded yet'

    run(test)


def test_a_cluster_of_nobody():
    async def test() -> None:
        asking = poller()
        async with client() as asked:
            await asking.round(asked)
        assert asking.fleet.states() == ()

    run(test)
