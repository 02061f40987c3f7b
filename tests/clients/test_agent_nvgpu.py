"""Agents and masters of nvgpu 0.9.0 itself, beside ours."""

from __future__ import annotations

import html
import os
import re
from typing import TYPE_CHECKING

import pytest

from support.fleet.agent_program import agent
from support.fleet.real_nvgpu import KEYS, interpreter, nvgpu_server, status
from support.gpus.gpu_machine import GB, NO_SUCH_PROCESS, Machine, running, sees_all_processes
from support.simulated_nvml import Gpu, Mig, Process
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [sees_all_processes]

HOST = os.uname().nodename
SENSORS = {'temperature': 40, 'sm_clock': 1410}


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Machine]:
    """Give a machine of whose GPUs one is free, and three are in use."""
    interpreter()  # what is missing is told before anything is started
    machine = Machine(tmp_path)
    with (
        running() as cat,
        running('sh', '-c', 'read x', 'train.py') as train,
        running('sh', '-c', 'read x', 25 * 'x') as long,
    ):
        listed = [Process(pid, memory=3 * GB) for pid in (*sorted((cat, train)), NO_SUCH_PROCESS)]
        machine.write(
            gpus=[
                Gpu(name='NVIDIA A100', total=10 * GB, used=0, util=0, **SENSORS),
                Gpu(name='NVIDIA A100', total=10 * GB, used=9 * GB, util=97, processes=listed, **SENSORS),
                Gpu(name='NVIDIA A100', total=10 * GB, used=9 * GB, processes=listed[2:], **SENSORS),
                Gpu(name='NVIDIA A100', total=10 * GB, used=9 * GB, processes=[Process(long)], **SENSORS),
            ]
        )
        yield machine


def nine_keys(report: dict) -> list[dict]:
    """Return what nvgpu knows of each GPU, an age of some seconds as one word."""
    return [{key: without_age(gpu[key]) for key in KEYS} for gpu in report['gpus']]


def without_age(text: object) -> object:
    return re.sub(r'just now|a minute ago|\d+ seconds ago', 'lately', text) if isinstance(text, str) else text


def lines_of(page: str) -> list[str]:
    """Return the lines that a page of nvgpu's shows, those of GPUs without the number in front."""
    body = page.partition('<body')[2].partition('>')[2]
    return [re.sub(r'^ *\d+ +\[', '[', line) for line in html.unescape(re.sub('<[^>]*>', '', body)).splitlines()]


def test_our_agent_tells_what_nvgpu_s_would(busy: Machine) -> None:
    theirs = status(busy)
    with agent(busy, '--commands=full') as served:
        ours = served.nvgpu()
    assert ours['hostname'] == theirs['hostname']
    assert nine_keys(ours) == nine_keys(theirs)
    assert [gpu['running_since'] for gpu in nine_keys(ours)] == [None, 'lately', None, 'lately']


def test_a_master_of_nvgpu_shows_the_host_of_our_agent(busy: Machine, tmp_path: Path) -> None:
    with agent(busy, '--commands=full') as served, nvgpu_server(busy, tmp_path, ['self', f'{served.url}/']) as master:
        served.seen()
        theirs, ours = master.cluster_status()
        assert nine_keys(ours) == nine_keys(theirs)
        shown = lines_of(master.get('/'))
    titles = [line for line in shown if line.endswith(f' ({HOST})')]
    assert titles == [f'self ({HOST})', f'{served.url}/ ({HOST})']
    rows = [without_age(line) for line in shown if line.startswith('[')]
    assert [row[:3] for row in rows] == ['[ ]', '[~]', '[!]', '[~]'] * 2
    assert [row.split() for row in rows[4:]] == [row.split() for row in rows[:4]]


def test_a_master_of_nvgpu_shows_all_kinds_of_gpus(busy: Machine, tmp_path: Path) -> None:
    busy.write(
        gpus=[
            Gpu(missing=True),
            Gpu(name='NVIDIA GB10', total=None, **SENSORS),
            Gpu(
                name='NVIDIA A100',
                total=80 * GB,
                mig=[Mig(uuid='MIG-a', gi=1, name='MIG 3g', total=20 * GB, used=9 * GB)],
                processes=[Process(NO_SUCH_PROCESS, memory=9 * GB, gi=1, ci=0)],
            ),
        ]
    )
    with agent(busy) as served, nvgpu_server(busy, tmp_path, [served.url]) as master:
        served.seen()
        rows = [line for line in lines_of(master.get('/')) if line.startswith('[')]
    assert [row[:3] for row in rows] == ['[!]', '[ ]', '[~]', '[!]']
    assert 'lost: fallen off the bus' in rows[0]
    assert 'in MIG mode' in rows[2]


def test_a_machine_without_gpus_does_not_take_a_master_s_page_down(tmp_path: Path, busy: Machine) -> None:
    bare = tmp_path / 'bare'
    bare.mkdir()
    with agent(Machine(bare)) as served, nvgpu_server(busy, tmp_path, [served.url, 'self']) as master:
        served.seen()
        assert master.cluster_status()[0] == {'hostname': HOST, 'gpus': []}
        assert f'self ({HOST})' in master.get('/')


def test_our_agent_tells_what_nvgpu_s_agents_tell(busy: Machine, tmp_path: Path) -> None:
    with nvgpu_server(busy, tmp_path) as theirs:
        configuration = tmp_path / 'agents.cfg'
        configuration.write_text(f"AGENTS = ['{theirs.url}/', 'http://127.0.0.1:1', 'self']\n")
        with agent(busy, '--commands=full', env={'NVGPU_CLUSTER_CFG': str(configuration)}) as served:

            def answered() -> list | None:
                reports = served.get('/cluster_status').json
                return reports if 'gpus' in reports[0] and 'gpus' in reports[2] else None

            first, second, third = eventually(answered)
            alone = served.nvgpu()
    assert nine_keys(first) == nine_keys(third) == nine_keys(alone)
    assert first['hostname'] == HOST
    assert second == {'error': 'Host not available'}
