"""All configured hosts in nvgpu's form."""

from __future__ import annotations

import asyncio
import contextlib

from gpu_tracker.fleet.agent.answers import ClusterStatus
from gpu_tracker.fleet.agent.run import others_of
from gpu_tracker.fleet.config.cluster import Cluster, ConfiguredHost
from gpu_tracker.fleet.hosts.fleet import Fleet
from gpu_tracker.fleet.hosts.host import HostState
from gpu_tracker.fleet.hosts.report import HostReport

NOW = 1_800_000_000.0
THIS = HostState('0', 'this').reported(HostReport('this', 'gpu-tracker 6.0.0', ()), NOW)


class Host:
    """Stands in for the LocalHost of an agent."""

    def __init__(self, state: HostState = THIS) -> None:
        self._state = state

    def state(self) -> HostState:
        return self._state


class Others:
    """Two other hosts: the first answers at the first round, of the second nothing is heard."""

    def __init__(self, *, answers: bool = True) -> None:
        self.fleet = Fleet([HostState('0', 'node02'), HostState('1', 'node03')], interval=5.0)
        self._answers = answers
        self.has_ended = asyncio.Event()

    def error_for_nvgpu(self, host_id: str) -> str | None:
        return {'1': 'Connection timeout'}.get(host_id)

    async def run(self) -> None:
        try:
            if self._answers:
                self.fleet.put(self.fleet.state('0').reported(HostReport('node02', 'nvgpu', ()), NOW))
                self.fleet.put(self.fleet.state('1').failed('no answer within 1.5 s'))
            await asyncio.Event().wait()
        finally:
            self.has_ended.set()


def cluster(*urls: str | None, deadline: float = 1.5) -> Cluster:
    return Cluster(tuple(ConfiguredHost(url) for url in urls), deadline=deadline)


def answered(status: ClusterStatus) -> list[dict[str, object]]:
    async def ask() -> list[dict[str, object]]:
        running = asyncio.create_task(status.run())
        try:
            return list((await status.reports()).reports)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    return asyncio.run(asyncio.wait_for(ask(), 30))


def test_this_machine_alone() -> None:
    assert answered(ClusterStatus(cluster(None), Host(), None)) == [{'hostname': 'this', 'gpus': []}]


def test_nothing_is_configured() -> None:
    assert answered(ClusterStatus(cluster(), Host(), None)) == []


def test_hosts_stand_in_the_order_of_the_configuration() -> None:
    status = ClusterStatus(cluster('http://node02:1080', None, 'http://node03:1080'), Host(), Others)
    assert answered(status) == [
        {'hostname': 'node02', 'gpus': []},
        {'hostname': 'this', 'gpus': []},
        {'error': 'Connection timeout'},
    ]


def test_this_machine_without_a_driver_that_works() -> None:
    stale = HostState('0', 'this').reported(HostReport('this', 'gpu-tracker', None, 'the driver fails'), NOW)
    assert answered(ClusterStatus(cluster(None), Host(stale), None)) == [{'error': 'the driver fails'}]


def test_hosts_that_answer_nothing_at_all_do_not_delay_for_long() -> None:
    status = ClusterStatus(
        cluster(None, 'http://node02', 'http://node03', deadline=-0.49), Host(), lambda: Others(answers=False)
    )
    assert answered(status) == [
        {'hostname': 'this', 'gpus': []},
        {'error': 'Host not available'},
        {'error': 'Connection timeout'},
    ]


def test_the_others_are_asked_only_while_somebody_wants_to_know() -> None:
    made: list[Others] = []

    def make() -> Others:
        made.append(Others())
        return made[-1]

    async def ask() -> None:
        status = ClusterStatus(cluster('http://node02', 'http://node03'), Host(), make, timeout=0.01)
        running = asyncio.create_task(status.run())
        await asyncio.sleep(0)
        assert made == []
        first = list((await status.reports()).reports)
        await made[0].has_ended.wait()
        assert list((await status.reports()).reports) == first
        assert len(made) == 2
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        assert made[1].has_ended.is_set()

    asyncio.run(asyncio.wait_for(ask(), 30))


def test_after_a_change_of_the_cluster_the_new_hosts_are_asked_and_the_old_ones_left_alone() -> None:
    made: list[Others] = []

    def make() -> Others:
        made.append(Others())
        return made[-1]

    async def ask() -> None:
        status = ClusterStatus(cluster('http://node02', 'http://node03'), Host(), make)
        running = asyncio.create_task(status.run())
        assert len(list((await status.reports()).reports)) == 2
        status.update(cluster('http://node02', None, 'http://node03'), make)
        await made[0].has_ended.wait()
        assert len(made) == 1  # nobody has asked since
        assert [report.get('hostname') for report in (await status.reports()).reports] == ['node02', 'this', None]
        assert (len(made), made[1].has_ended.is_set()) == (2, False)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    asyncio.run(asyncio.wait_for(ask(), 30))


def test_a_change_of_the_cluster_during_a_round_changes_nothing_of_its_reports() -> None:
    made: list[Others] = []

    def make() -> Others:
        made.append(Others(answers=False))
        return made[-1]

    async def ask() -> None:
        status = ClusterStatus(cluster('http://node02', 'http://node03', None), Host(), make)
        waiting = asyncio.create_task(status.reports())
        await asyncio.sleep(0)
        status.update(cluster(None, 'http://node04', 'http://node05', 'http://node06'), make)
        fleet = made[0].fleet
        fleet.put(fleet.state('0').reported(HostReport('node02', 'nvgpu', ()), NOW))
        fleet.put(fleet.state('1').failed('no answer within 1.5 s'))
        assert list((await waiting).reports) == [
            {'hostname': 'node02', 'gpus': []},
            {'error': 'Connection timeout'},
            {'hostname': 'this', 'gpus': []},
        ]

    asyncio.run(asyncio.wait_for(ask(), 30))


def test_the_others_are_asked_often_whatever_the_interval_of_the_cluster_is() -> None:
    def interval_with(configured: float) -> float:
        make = others_of(cluster(None, 'http://node02:1080')._replace(interval=configured))
        assert make is not None
        return make().fleet.interval

    assert [interval_with(seconds) for seconds in (0.5, 60.0)] == [0.5, 5.0]
    assert others_of(cluster(None)) is None
