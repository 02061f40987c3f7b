"""What a dashboard and an agent do with the TLS files of the hosts that they ask."""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.fleet.agent.run import others_of
from gpu_tracker.fleet.config.cluster import Cluster, ConfiguredHost, TlsFiles
from gpu_tracker.fleet.dashboard.run import PolledHosts, _Polled
from support.fleet.web_certificates import Authority
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = Cluster((ConfiguredHost('http://node02:1080'),))


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    return Authority(tmp_path).certificate


def trusting(path: Path) -> Cluster:
    return Cluster((ConfiguredHost('https://node03:1080', tls=TlsFiles(str(path))),))


def test_the_event_loop_goes_on_while_a_dashboard_reads_tls_files_again(authority: Path, tmp_path: Path) -> None:
    fifo = tmp_path / 'fifo'
    os.mkfifo(fifo)
    content = authority.read_bytes()

    async def opened() -> int:
        while True:
            try:
                return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                await asyncio.sleep(0.001)

    async def story() -> None:
        dashboard = _Polled(PolledHosts(PLAIN), [].append)
        updating = asyncio.create_task(dashboard.update(PolledHosts(trusting(fifo))))
        async with asyncio.timeout(TIMEOUT):
            writer = await opened()
            assert dashboard.source.cluster == PLAIN
            os.write(writer, content)
            os.close(writer)
            await updating
        assert dashboard.source.cluster == trusting(fifo)

    asyncio.run(story())


def test_an_agent_reads_tls_files_once(authority: Path, tmp_path: Path) -> None:
    copied = tmp_path / 'copied.pem'
    shutil.copy(authority, copied)
    make = others_of(trusting(copied))
    copied.unlink()
    assert make is not None
    assert [state.url for state in make().fleet.states()] == ['https://node03:1080']
