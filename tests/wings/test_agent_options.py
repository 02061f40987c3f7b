"""The command line of ``gpu-tracker agent``."""

from __future__ import annotations

import base64
import json
import socket
import sys
from typing import TYPE_CHECKING

import pytest

import gpu_tracker
from gpu_tracker.cli import agent as command
from gpu_tracker.cli import main as command_line
from gpu_tracker.installation import install_command
from support.fleet.agent_program import AgentProgram, agent
from support.gpus.gpu_machine import GB, Machine
from support.simulated_nvml import Gpu
from support.tracked_program import run_words

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INTERVAL = '--interval must be a number of seconds from 0.1 to 3600, not {}'
TRY = "\nTry 'gpu-tracker agent --help'."

WRONG = {
    '--interval=': INTERVAL.format("''"),
    '--interval=0.09': INTERVAL.format("'0.09'"),
    '--interval=3601': INTERVAL.format("'3601'"),
    '--interval=nan': INTERVAL.format("'nan'"),
    '--interval=often': INTERVAL.format("'often'"),
    '--commands=all': "--commands must be none, program or full, not 'all'",
    '--config=/nowhere': "--config: cannot read '/nowhere': No such file or directory",
    '--export-users=yes': f'--export-users takes no value{TRY}',
    '--nothing': f'unknown option --nothing{TRY}',
    'start': f'these arguments do not fit. Usage:\n  gpu-tracker agent [options]{TRY}',
}


pytestmark = pytest.mark.machine(gpus=[Gpu(total=GB)])


def refused(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    assert command_line(['agent', '--port=0', *words]) == 125
    out, told = capfd.readouterr()
    assert out == ''
    return told


def test_a_wrong_option_is_told_before_anything_is_done(machine: Machine) -> None:
    assert machine.told('agent', '--interval=') == (125, '', f'gpu-tracker: {WRONG["--interval="]}\n')
    assert machine.driver.calls() == []


@pytest.mark.parametrize(('word', 'text'), WRONG.items(), ids=list(WRONG))
def test_wrong_options(capfd: pytest.CaptureFixture[str], word: str, text: str) -> None:
    assert refused(capfd, word) == f'gpu-tracker: {text}\n'


def test_configurations_and_variables_that_are_wrong(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = tmp_path / 'agents.cfg'
    configuration.write_text("AGENTS = ['self', 'node02']\n")
    assert refused(capfd, f'--config={configuration}').startswith(f'gpu-tracker: {configuration}:1: ')
    monkeypatch.setenv('NVGPU_CLUSTER_CFG', '/nowhere')
    assert refused(capfd) == "gpu-tracker: NVGPU_CLUSTER_CFG: cannot read '/nowhere': No such file or directory\n"
    monkeypatch.delenv('NVGPU_CLUSTER_CFG')
    monkeypatch.setenv('GPU_TRACKER_CLAIMS', 'claims')
    assert refused(capfd).startswith('gpu-tracker: GPU_TRACKER_CLAIMS must be an absolute path')


def test_it_listens_only_on_loopback_without_a_secret(machine: Machine, tmp_path: Path) -> None:
    token = tmp_path / 'token'
    token.write_text('a-very-long-secret-of-32-letters\n')
    token.chmod(0o600)
    (code, printed, open_to_all), with_token = machine.told_each(
        ['agent', '--host=0.0.0.0', '--port=0'], ['agent', '--host=0.0.0.0', '--port=0', f'--token-file={token}']
    )
    assert (code, printed) == (125, '')
    assert open_to_all.startswith('gpu-tracker: --host: other machines can reach 0.0.0.0. The safe way is:')
    assert with_token[2].startswith('gpu-tracker: --host: other machines can reach 0.0.0.0; what --token-file holds ')
    assert machine.driver.calls() == []


def test_help_and_version(machine: Machine) -> None:
    helped, version = machine.told_each(['agent', '--help'], ['agent', '--version'])
    assert (helped[0], helped[1].strip(), helped[2]) == (0, command.TEXT.strip(), '')
    assert version == (0, f'gpu-tracker {gpu_tracker.__version__}\n', '')
    assert max(map(len, command.TEXT.splitlines())) <= 90


def test_help_imports_nothing_of_the_agent() -> None:
    program = (
        'import json, sys; from gpu_tracker.cli import main; main(["agent", "--version"])\n'
        'print(json.dumps([name for name in sys.modules if name in {"asyncio", "starlette", "gpu_tracker.fleet"}]))'
    )
    lines = run_words([sys.executable, '-c', program]).stdout.splitlines()
    assert json.loads(lines[1]) == []


@pytest.mark.parametrize('name', ['starlette', 'uvicorn', 'prometheus_client'])
def test_what_is_not_installed_is_named(machine: Machine, name: str) -> None:
    program = f'import sys; sys.modules[{name!r}] = None; from gpu_tracker.cli import main; print(main(["agent"]))'
    _, printed, errors = machine.forked(program)
    assert printed == '125\n'
    assert errors.startswith(
        f"gpu-tracker: 'gpu-tracker agent' needs packages that are not installed (no module named '{name}"
    )
    assert errors.endswith(f'): {install_command("fleet")}\n')


def test_a_port_that_is_taken_is_an_error(machine: Machine) -> None:
    with socket.create_server(('127.0.0.1', 0)) as listener:
        port = listener.getsockname()[1]
        code, printed, errors = machine.told('agent', f'--port={port}')
    assert (code, printed) == (125, '')
    assert (
        errors == f'gpu-tracker: port {port} of 127.0.0.1 is in use by another program ("ss -lp" shows which program)\n'
    )


def test_everything_but_its_health_needs_the_token(machine: Machine, tmp_path: Path) -> None:
    secret = 'a-very-long-secret-of-32-letters'  # noqa: S105 - of this test only
    token = tmp_path / 'token'
    token.write_text(f'{secret}\n')
    token.chmod(0o600)
    as_browsers = base64.b64encode(f'anybody:{secret}'.encode()).decode()
    with agent(machine, f'--token-file={token}') as served:
        assert served.get('/healthz').status == 200
        for path in ('/', '/api/v1/host', '/gpu_status', '/cluster_status', '/metrics', '/api/v1/fleet', '/nothing'):
            assert served.get(path).status == 401
            assert served.get(path, Authorization='Bearer wrong').status == 401
        assert served.get('/api/v1/host', Authorization=f'Bearer {secret}').status == 200
        assert served.get('/', Authorization=f'Basic {as_browsers}').status == 200


@pytest.fixture(scope='module')
def without_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProgram]:
    """Give an agent that knows no other."""
    folder = tmp_path_factory.mktemp('without-page')
    configuration = folder / 'agents.cfg'
    configuration.write_text('AGENTS = []\n')
    machine = Machine(folder)
    machine.write(gpus=[Gpu(total=GB)])
    with agent(machine, f'--config={configuration}') as served:
        served.seen()
        yield served


def test_no_agents_no_page(without_page: AgentProgram) -> None:
    served = without_page
    assert [served.get(path).status for path in ('/', '/api/v1/fleet', '/static/index.html')] == [404] * 3
    assert served.get('/cluster_status').json == []
    assert len(served.nvgpu()['gpus']) == 1


def test_the_hosts_of_a_configuration_in_toml(machine: Machine, tmp_path: Path, without_page: AgentProgram) -> None:
    configuration = tmp_path / 'agents.toml'
    hosts = f'["{without_page.url}", "http://127.0.0.1:1", "self"]'
    configuration.write_text(f'hosts = {hosts}\ndeadline_seconds = 60\n')
    with agent(machine, f'--config={configuration}') as served:
        served.seen()
        first, second, third = served.get('/cluster_status').json
        served.process.terminate()
        assert served.process.stderr.read() == ''
    assert second == {'error': 'Host not available'}
    assert [gpu['is_available'] for gpu in first['gpus']] == [gpu['is_available'] for gpu in third['gpus']] == [True]
