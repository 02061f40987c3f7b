"""The dashboard with real agents: those of gpu-tracker, which die and come back, and those of nvgpu 0.9.0."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from support.fleet.agent_program import agent
from support.fleet.dashboard_program import Dashboard
from support.fleet.real_nvgpu import interpreter, nvgpu_server
from support.fleet.web_certificates import Certificates
from support.gpus.gpu_machine import GB, Machine
from support.simulated_nvml import Gpu

if TYPE_CHECKING:
    from pathlib import Path

HOST = os.uname().nodename
SLOW = '--deadline=60'


pytestmark = pytest.mark.machine(
    gpus=[Gpu(uuid='GPU-a', name='NVIDIA A100', total=10 * GB, used=GB, util=3, temperature=40, sm_clock=210)]
)


def test_an_agent_is_killed_and_brought_back(machine: Machine, tmp_path: Path):
    config = tmp_path / 'cluster.toml'
    with agent(machine) as first:
        first.seen()
        config.write_text(f"hosts = ['self', {{url = '{first.url}', name = 'node02'}}]\ninterval_seconds = 0.5\n")
        with Dashboard(f'--config={config}', SLOW, changes=machine.environment()) as shown:
            here, there = shown.until(['up', 'up'])
            assert (here['name'], there['name'], there['hostname']) == (HOST, 'node02', HOST)
            assert here['gpus'] == there['gpus']
            assert there['gpus'][0]['status'] == 'free'
            first.process.kill()
            first.process.wait()
            there = shown.until(['up', 'down'])[1]
            assert there['error'] in {'cannot connect: connection refused', 'the connection ended before the answer'}
            assert there['gpus'] == here['gpus']
            with machine.started('agent', f'--port={first.url.rpartition(":")[2]}', env={'NVGPU_CLUSTER_CFG': ''}):
                shown.until(['up', 'up'])
            assert shown.end() == 0


def test_a_token_over_tls(machine: Machine, tmp_path: Path):
    made = Certificates(tmp_path)
    for name, text in (('token', 16 * 'a'), ('wrong', 16 * 'b')):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    tls = (f'--tls-cert={made.server}', f'--tls-key={made.server_key}', f'--token-file={tmp_path}/token')
    config = tmp_path / 'cluster.toml'
    with agent(machine, *tls) as over_tls:
        port = over_tls.url.rpartition(':')[2]
        config.write_text(f"""
ca_file = '{made.authority.certificate.name}'
interval_seconds = 0.5
hosts = [
    {{url = 'https://127.0.0.1:{port}', token_file = 'token'}},
    {{url = 'https://localhost:{port}', token_file = 'wrong'}},
]
""")
        with Dashboard(f'--config={config}', SLOW) as shown:
            good, refused = shown.until(['up', 'down'])
    assert good['gpus'][0]['uuid'] == 'GPU-a'
    assert refused['error'] == 'answered 401: wrong or missing token'


def test_an_agent_of_nvgpu(machine: Machine, tmp_path: Path):
    interpreter()  # what is missing is told before anything is started
    config = tmp_path / 'agents.cfg'
    with nvgpu_server(machine, tmp_path) as peer:
        config.write_text(f"AGENTS = ['{peer.url}/']")
        with Dashboard(f'--config={config}', SLOW, '--interval=0.5') as shown:
            (host,) = shown.until(['up'])
            assert shown.json('/sd') == []
    assert (host['hostname'], host['agent']) == (HOST, 'nvgpu')
    (gpu,) = host['gpus']
    assert (gpu['type'], gpu['status'], gpu['temperature_celsius']) == ('NVIDIA A100', 'free', 40)
    assert gpu['memory_total_bytes'] is None
