"""From an agent through a real Prometheus to the dashboard nothing changes, and nothing is made up."""

from __future__ import annotations

import asyncio
import time

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gpu_tracker.fleet.agent.metrics import HostCollector
from gpu_tracker.fleet.hosts.totals import totals_of
from gpu_tracker.fleet.prometheus import queries
from gpu_tracker.fleet.prometheus.client import Client, endpoint
from gpu_tracker.fleet.prometheus.source import PrometheusSource
from support.fleet.prometheus_server import backfill, prometheus, with_prometheus
from support.fleet.reporting_host import ReportingHost

pytestmark = [with_prometheus]

LABELS = {'job': 'gpu-tracker', 'instance': 'node01:1080', 'group': 'vision', 'name': 'the "big" \\ one'}
HOSTILE = 'a"} or vector(1) #\n\\|.*é😀'


@pytest.fixture
def told():
    return ReportingHost(time.time() - 5)


def exposition(told, *, exported):
    registry = CollectorRegistry()
    registry.register(HostCollector(told, '6.0.0', export_processes=exported, export_users=exported))
    return generate_latest(registry).decode()


def looked_at(url, seconds=60):
    """Return the hosts after a round, and the past of the first."""

    async def look():
        source = PrometheusSource(endpoint(url), interval=60)
        running = asyncio.get_running_loop().create_task(source.run())
        async with asyncio.timeout(60):
            await source.fleet.change(source.fleet.version)
            past = await source.past(source.fleet.states()[0].id, seconds)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return source.fleet.states(), past

    return asyncio.run(look())


def as_exported(gpu):
    """Return a GPU without what metrics do not have."""
    parts = None if gpu.mig_devices is None else tuple(as_exported(part) for part in gpu.mig_devices)
    exported = None
    if gpu.processes is not None:
        exported = tuple(
            process._replace(command=None, started=None, computes=None)
            for process in gpu.processes
            if process.memory_bytes is not None
        )
    return gpu._replace(problem=None, claim=None, processes=exported, mig_devices=parts, idle_since=None)


def without_processes(gpu):
    """Return a GPU of which is known at most that it has no process."""
    parts = None if gpu.mig_devices is None else tuple(without_processes(part) for part in gpu.mig_devices)
    return gpu._replace(processes=() if gpu.processes == () else None, mig_devices=parts)


def in_order(gpu):
    """Return a GPU with its processes in an order that says nothing, and without the time of a reading."""
    parts = None if gpu.mig_devices is None else tuple(in_order(part) for part in gpu.mig_devices)
    processes = None if gpu.processes is None else tuple(sorted(gpu.processes, key=lambda process: process.pid))
    return gpu._replace(processes=processes, mig_devices=parts, idle_since=None)


def test_each_gpu_is_as_its_agent_tells_it(tmp_path, told):
    backfill(tmp_path, exposition(told, exported=True), labels=LABELS, moments=[time.time() - 1])
    with prometheus(tmp_path, '{}') as server:
        (host,), _ = looked_at(server.url)
    assert (host.name, host.group, host.state) == ('the "big" \\ one', 'vision', 'up')
    assert host.last_seen == pytest.approx(told.time)
    assert (host.report.hostname, host.report.agent) == ('node01', 'gpu-tracker 6.0.0')
    assert [in_order(gpu) for gpu in host.report.gpus] == [in_order(as_exported(gpu)) for gpu in told.report.gpus]


def test_a_host_that_was_not_scraped_for_long_is_stale(tmp_path, told):
    now = time.time()
    backfill(
        tmp_path, exposition(told, exported=False), labels=LABELS, moments=[now - 60, now - 55, now - 50, now - 45]
    )
    with prometheus(tmp_path, '{}') as server:
        (host,), _ = looked_at(server.url)
    assert (host.state, host.report.interval) == ('stale', pytest.approx(5, abs=2))
    assert host.last_seen == pytest.approx(now - 45, abs=1)


def test_a_host_that_is_scraped_seldom_is_up(tmp_path, told):
    now = time.time()
    backfill(tmp_path, exposition(told, exported=False), labels=LABELS, moments=[now - 170, now - 110, now - 50])
    with prometheus(tmp_path, '{}') as server:
        (host,), _ = looked_at(server.url)
    assert (host.state, host.report.interval) == ('up', pytest.approx(60, abs=5))


def test_processes_that_are_not_exported_are_unknown(tmp_path, told):
    backfill(tmp_path, exposition(told, exported=False), labels=LABELS, moments=[time.time() - 1])
    with prometheus(tmp_path, '{}') as server:
        (host,), _ = looked_at(server.url)
    expected = [in_order(without_processes(as_exported(gpu))) for gpu in told.report.gpus]
    assert [in_order(gpu) for gpu in host.report.gpus] == expected


def test_what_was_is_taken_from_prometheus(tmp_path, told):
    now = time.time()
    backfill(tmp_path, exposition(told, exported=False), labels=LABELS, moments=[now - 25, now - 15, now - 5])
    with prometheus(tmp_path, '{}') as server:
        _, past = looked_at(server.url)
        _, day = looked_at(server.url, 86_400)
    assert (past.step, len(past.gpus['GPU-00000001-0001-0001-0001-000000000001'].utilization)) == (10, 6)
    assert past.gpus['GPU-00000001-0001-0001-0001-000000000001'].utilization[-1] == 97.0
    assert past.gpus['GPU-00000001-0001-0001-0001-000000000001'].memory[-1] == 89.0
    assert past.gpus['GPU-00000001-0001-0001-0001-000000000001'].utilization[0] is None
    assert (day.step, len(day.gpus['GPU-00000001-0001-0001-0001-000000000001'].memory)) == (240, 360)


def test_the_past_of_the_fleet_is_what_prometheus_has_kept(tmp_path, told):
    now = time.time()
    backfill(tmp_path, exposition(told, exported=False), labels=LABELS, moments=[now - 900, now - 890, now - 5])

    async def recalled(url):
        source = PrometheusSource(endpoint(url), interval=60)
        running = asyncio.get_running_loop().create_task(source.run())
        async with asyncio.timeout(60):
            while all(value is None for value in source.fleet.totals_history.past(1800).memory[:-2]):  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return source.fleet.totals_history.past(1800)

    with prometheus(tmp_path, '{}') as server:
        past = asyncio.run(recalled(server.url))
    totals = totals_of([told.state()])
    assert {value for value in past.utilization[:-2] if value is not None} == {round(totals.utilization_percent, 1)}
    assert {value for value in past.memory[:-2] if value is not None} == {round(totals.memory_used_percent, 1)}
    assert past.utilization[:10] == [None] * 10


def test_a_host_that_was_last_seen_minutes_ago_is_shown_as_it_was(tmp_path, told):
    moment = time.time() - 1200
    told.time = moment
    backfill(tmp_path, exposition(told, exported=False), labels=LABELS, moments=[moment])
    backfill(tmp_path, '', labels=LABELS | {'instance': 'node02:1080', 'name': ''}, moments=[time.time() - 1])
    with prometheus(tmp_path, '{}') as server:
        (other,), _ = looked_at(server.url)
        asyncio.run(asks_of_before(server.url, told))
    assert (other.name, other.state) == ('node02:1080', 'down')
    assert other.error == 'Prometheus scrapes it and gets no metrics of gpu-tracker'


async def asks_of_before(url, told):
    client = Client(endpoint(url))
    try:
        (reading,) = await client.now(queries.AGENTS_BEFORE)
        assert reading.value == pytest.approx(told.time)
        before = queries.before(['node01:1080', HOSTILE])
        assert len(await client.now(before.gpus)) == len(await client.now(before.statuses))
        assert len(await client.now(before.gpus)) >= len(told.report.gpus)
        for query in before.figures:
            await client.now(query)
    finally:
        await client.close()


def test_hostile_names_are_names_to_prometheus(tmp_path):
    hostile = {'job': HOSTILE, 'instance': HOSTILE, 'group': '<script>', 'name': ''}
    backfill(
        tmp_path,
        'gpu_tracker_driver_up 1\ngpu_tracker_gpu_utilization_ratio{index="0",uuid="GPU-0"} 0.5\n'
        'gpu_tracker_gpu_info{index="0",uuid="GPU-0",host="<b>node</b>"} 1\n'
        f'gpu_tracker_reading_timestamp_seconds {time.time()}\n',
        labels=hostile,
        moments=[time.time() - 1],
    )
    with prometheus(tmp_path, '{}') as server:
        (host,), past = looked_at(server.url)
    assert (host.name, host.group, host.state) == ('<b>node</b>', '<script>', 'up')
    assert host.report.gpus[0].utilization_percent == 50.0
    assert 50.0 in past.gpus['GPU-0'].utilization
