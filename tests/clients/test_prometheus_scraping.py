"""Real agents, scraped by a real Prometheus, that the dashboard's source reads: hosts die and come back."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import math
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

import gpu_tracker
from gpu_tracker.fleet.hosts.host import DOWN, STALE, UP
from gpu_tracker.fleet.prometheus.client import endpoint
from gpu_tracker.fleet.prometheus.source import PrometheusSource
from support.fleet.agent_program import agent
from support.fleet.dashboard_program import Dashboard
from support.fleet.prometheus_server import prometheus, promtool, with_prometheus
from support.gpus.gpu_machine import GB, Machine
from support.simulated_nvml import UNKNOWN, Failure, Gpu
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_tracker.fleet.hosts.host import HostState

PASSWORD = 'correct horse battery staple'  # noqa: S105 - of a server that the test starts
GPUS = [
    Gpu(uuid='GPU-0', name='NVIDIA H200', total=141 * GB, used=GB, util=3, temperature=31, power=75_000),
    Gpu(uuid='GPU-1', name='NVIDIA H200', total=141 * GB, used=100 * GB, util=80, temperature=60, power=500_000),
]
# It looks for targets once at its start, and five seconds later for the first time again.
QUICK = '--interval=0.1'
QUICKLY = '--scrape.discovery-reload-interval=100ms'


def configuration(dashboard: Dashboard) -> str:
    """Return what has Prometheus scrape the agents that a dashboard knows."""
    credentials = {'username': 'prometheus', 'password': PASSWORD}
    discovery = {'url': f'http://127.0.0.1:{dashboard.port}/sd', 'refresh_interval': '10m', 'basic_auth': credentials}
    job = {'job_name': 'gpu-tracker', 'http_sd_configs': [discovery]}
    return json.dumps({'global': {'scrape_interval': '200ms', 'scrape_timeout': '200ms'}, 'scrape_configs': [job]})


def port_of(url: str) -> int:
    return urlsplit(url).port or 0


async def until(source: PrometheusSource, *states: str):
    """Return the hosts as soon as they are in these states."""
    async with asyncio.timeout(TIMEOUT):
        while [host.state for host in source.fleet.states()] != list(states):
            await source.fleet.change(source.fleet.version)
    return source.fleet.states()


pytestmark = [with_prometheus, pytest.mark.machine(gpus=GPUS)]


def test_promtool_finds_nothing_wrong_with_what_an_agent_tells(tmp_path: Path, machine: Machine) -> None:
    with agent(machine, '--export-processes', '--export-users') as served:
        (tmp_path / 'metrics').write_bytes(served.get('/metrics').body)
    with (tmp_path / 'metrics').open() as metrics:
        checked = promtool('check', 'metrics', stdin=metrics)
    assert (checked.returncode, checked.stdout) == (0, '')


def test_hosts_die_and_come_back_and_so_does_prometheus(tmp_path: Path, machine: Machine) -> None:
    before = time.time()
    (tmp_path / 'other').mkdir()
    other = Machine(tmp_path / 'other')
    other.write(gpus=[dataclasses.replace(GPUS[0], uuid='GPU-2')])
    asyncio.run(story(tmp_path / 'prometheus', machine, other, before))


def asks_agents(folder: Path, *ports: int) -> Dashboard:
    """Return a dashboard that asks these agents itself, and wants a password."""
    folder.mkdir()
    passwords = folder / 'passwords'
    passwords.write_text(f'prometheus:{PASSWORD}\n')
    passwords.chmod(0o600)
    hosts = [f'http://127.0.0.1:{port}' for port in ports]
    (folder / 'fleet.toml').write_text(f'[groups.vision]\nhosts = {json.dumps(hosts)}\n')
    return Dashboard(f'--config={folder / "fleet.toml"}', f'--password-file={passwords}')


async def story(folder: Path, machine: Machine, other: Machine, before: float) -> None:
    with contextlib.ExitStack() as stack:
        lasting = port_of(stack.enter_context(agent(other, QUICK)).url)
        with agent(machine, QUICK, '--export-processes') as served:
            mortal = port_of(served.url)
            scraping = configuration(stack.enter_context(asks_agents(folder, lasting, mortal)))
            first = contextlib.ExitStack()
            server = stack.enter_context(first).enter_context(prometheus(folder, scraping, QUICKLY))
            source = PrometheusSource(endpoint(server.url), interval=0.1)
            running = asyncio.create_task(source.run())
            hosts = {host.name: host for host in await until(source, UP, UP)}
            key = next(host.id for name, host in hosts.items() if str(mortal) in name)
            tells_all(source.fleet.state(key), before)
            machine.write(gpus=GPUS, fail=[Failure('nvmlDeviceGetCount_v2', UNKNOWN)])
            await until(source, *in_order(source, key, STALE))
            machine.write(gpus=GPUS)
            await until(source, UP, UP)
            await lasts_over_a_whole_second(source, key)
        await until(source, *in_order(source, key, DOWN))
        dead = source.fleet.state(key)
        assert dead.error == 'Prometheus cannot scrape its agent'
        assert before < dead.last_seen < time.time()
        assert [gpu.uuid for gpu in dead.report.gpus] == ['GPU-0', 'GPU-1']
        assert source.fleet.totals()._asdict().items() >= {'hosts_up': 1, 'gpus': 3, 'unknown': 2}.items()
        await begins_with_it_down(server.url, mortal)

        stack.enter_context(machine.started('agent', f'--port={mortal}', QUICK, env={'NVGPU_CLUSTER_CFG': ''}))
        await until(source, UP, UP)
        past = await source.past(key, 60)
        assert 80.0 in past.gpus['GPU-1'].utilization
        with Dashboard(f'--prometheus={server.url}') as shown:
            assert [host['group'] for host in shown.until(['up', 'up'])] == ['vision', 'vision']

        first.close()
        await until(source, DOWN, DOWN)
        assert all(f'Prometheus at {server.url}: it ' in host.error for host in source.fleet.states())
        stack.enter_context(prometheus(folder, scraping, QUICKLY, port=server.port))
        await until(source, UP, UP)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def lasts_over_a_whole_second(source: PrometheusSource, key: str) -> None:
    """Wait until scrapes lie on both sides of a whole second: at these Prometheus looks for when a host was last up."""
    first = source.fleet.state(key).last_seen
    async with asyncio.timeout(TIMEOUT):
        while source.fleet.state(key).last_seen < math.floor(first) + 2:  # noqa: ASYNC110 - it is no change that is told
            await asyncio.sleep(source.fleet.interval)


def in_order(source: PrometheusSource, key: str, state: str) -> list[str]:
    """Return how all hosts are where one is in another state than the others, which are up."""
    return [state if host.id == key else UP for host in source.fleet.states()]


def tells_all(host: HostState, before: float) -> None:
    assert (host.group, host.report.agent) == ('vision', f'gpu-tracker {gpu_tracker.__version__}')
    assert before < host.last_seen < time.time()
    idle, busy = host.report.gpus
    assert (idle.key, idle.type, idle.status, idle.temperature_celsius) == ('GPU-0', 'NVIDIA H200', 'free', 31)
    assert (idle.memory_total_bytes, idle.memory_used_bytes, idle.power_watts) == (141 * GB, GB, 75)
    assert (busy.status, busy.utilization_percent, busy.processes) == ('in_use_unseen', 80, ())


async def begins_with_it_down(url: str, port: int) -> None:
    """Begin anew while a host is down: what it was is known from Prometheus."""
    source = PrometheusSource(endpoint(url), interval=0.1)
    running = asyncio.create_task(source.run())

    def it_is_known() -> list[HostState]:
        return [
            host
            for host in source.fleet.states()
            if str(port) in host.name and host.state == DOWN and host.report is not None
        ]

    async with asyncio.timeout(TIMEOUT):
        while not it_is_known():
            await source.fleet.change(source.fleet.version)
    (host,) = it_is_known()
    assert host.last_seen is not None
    assert [gpu.uuid for gpu in host.report.gpus] == ['GPU-0', 'GPU-1']
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
