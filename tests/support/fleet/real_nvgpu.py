"""nvgpu 0.9.0 itself, in an environment of its own: its agents and its masters are the peers of ours.

In the checkout it is made by ``python -m venv .venv-nvgpu`` and
``.venv-nvgpu/bin/pip install nvgpu==0.9.0 pynvml==11.4.1 setuptools``; the variable GPU_TRACKER_NVGPU names the
interpreter of another one.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from support.gpus.gpu_machine import Machine

_VARIABLE = 'GPU_TRACKER_NVGPU'
_USUAL = Path(__file__).resolve().parents[3] / '.venv-nvgpu' / 'bin' / 'python'
_READY = ' * Running on '

KEYS = ('type', 'is_available', 'pids', 'users', 'running_since', 'utilization', 'clock_mhz', 'temperature', 'cmd')
"""Of a GPU in what its agents answer."""

_STATUS = 'import json; from nvgpu.agent import machine_status; print(json.dumps(machine_status()))'


def interpreter() -> str:
    """Return the interpreter that has nvgpu; skip the test if there is none."""
    path = os.environ.get(_VARIABLE) or str(_USUAL)
    if not os.path.exists(path):
        pytest.skip(f'needs nvgpu 0.9.0 in .venv-nvgpu, or {_VARIABLE}')
    return path


def _environment(machine: Machine, changes: Mapping[str, str]) -> dict[str, str]:
    usual = machine.environment({'FLASK_APP': 'nvgpu.webapp', 'PYTHONWARNINGS': 'ignore'} | dict(changes))
    usual.pop('PYTHONPATH', None)
    return usual


def status(machine: Machine) -> Any:
    """Return what nvgpu itself tells of a machine."""
    words = [interpreter(), '-c', _STATUS]
    told = subprocess.run(words, env=_environment(machine, {}), stdout=subprocess.PIPE, timeout=TIMEOUT, check=True)
    return json.loads(told.stdout)


class NvgpuServer(NamedTuple):
    """nvgpu's web application, as an agent and as a master."""

    url: str

    def get(self, path: str) -> str:
        """Return what it answers."""
        connection = http.client.HTTPConnection(self.url.removeprefix('http://'), timeout=TIMEOUT)
        with contextlib.closing(connection):
            connection.request('GET', path)
            return connection.getresponse().read().decode()

    def cluster_status(self) -> Any:
        """Return what it tells as a master."""
        return json.loads(self.get('/cluster_status'))


@contextlib.contextmanager
def nvgpu_server(machine: Machine, folder: Path, agents: Sequence[str] = ('self',)) -> Iterator[NvgpuServer]:
    """Start nvgpu on a machine, with these agents in its configuration, and end it afterwards."""
    configuration = folder / 'nvgpu_master.cfg'
    configuration.write_text(f'AGENTS = {list(agents)!r}\n')
    words = [interpreter(), '-m', 'flask', 'run', '--host=127.0.0.1', '--port=0']
    environment = _environment(machine, {'NVGPU_CLUSTER_CFG': str(configuration)})
    with subprocess.Popen(
        words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            said = []
            for line in process.stderr:
                if line.startswith(_READY):
                    yield NvgpuServer(line.removeprefix(_READY).strip())
                    return
                said.append(line)
            raise AssertionError(f'nvgpu does not run: {"".join(said)}')
        finally:
            process.kill()
