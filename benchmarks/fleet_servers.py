"""The servers that the part ``fleet`` looks at: the dashboard, and nvgpu's master."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from benchmarks.fleet_agents import cluster_as_toml
from benchmarks.processes import cpu_seconds
from benchmarks.running import fresh_folder, output_of, started
from benchmarks.session import FailedError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from benchmarks.environments import Environment

INTERVAL = 5
"""Seconds between two rounds of a dashboard."""

_PATIENCE = 60
"""Seconds that a server may take until it serves, and to answer."""
_LOOK = 0.1
_READY = re.compile(r'(?:serving|Running on) (http://\S+)')
"""Of the dashboard, and of Flask."""
_OK = 200


@dataclass(frozen=True)
class Server:
    """A server that serves.

    :ivar url: Scheme, host and port.
    """

    pid: int
    url: str

    def cpu(self) -> float:
        """Return the seconds of CPU that it has used until now.

        :raises FailedError: where it has ended.
        """
        used = cpu_seconds(self.pid)
        if used is None:
            raise FailedError('has ended while it was asked')
        return used

    def connection(self) -> http.client.HTTPConnection:
        """Return a connection to it, which others close."""
        return http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=_PATIENCE)

    def get(self, *paths: str) -> list[bytes]:
        """Ask for one path after the other, over one connection, and return the bodies.

        :raises FailedError: where an answer is not 200.
        """
        bodies = []
        with contextlib.closing(self.connection()) as connection:
            for path in paths:
                connection.request('GET', path)
                answer = connection.getresponse()
                bodies.append(answer.read())
                if answer.status != _OK:
                    raise FailedError(f'{path} answers {answer.status} {answer.reason}')
        return bodies

    def json(self, path: str) -> Any:  # noqa: ANN401 - a JSON document
        """Return the JSON at a path."""
        return json.loads(self.get(path)[0])


@contextlib.contextmanager
def dashboard(environment: Environment, urls: Sequence[str], interval: float = INTERVAL) -> Iterator[Server]:
    """Run ``gpu-tracker dashboard`` with these agents; at the end it is killed.

    :param interval: Seconds between two rounds.
    """
    with fresh_folder() as folder:
        config = folder / 'fleet.toml'
        config.write_text(cluster_as_toml(urls, interval))
        words = [environment.python, '-m', 'gpu_tracker', 'dashboard', f'--config={config}', '--port=0']
        with _serving(words, folder, environment.variables()) as server:
            yield server


@contextlib.contextmanager
def nvgpu_master(environment: Environment, urls: Sequence[str]) -> Iterator[Server]:
    """Run nvgpu's master with these agents, as its documentation says; at the end it is killed."""
    with fresh_folder() as folder:
        config = folder / 'nvgpu.cfg'
        config.write_text(f'AGENTS = {list(urls)!r}\n')
        variables = environment.variables(FLASK_APP='nvgpu.webapp', NVGPU_CLUSTER_CFG=str(config))
        words = [environment.program('flask'), 'run', '--port', '0']
        with _serving(words, folder, variables) as server:
            yield server


def wait_until_seen(server: Server, well: int) -> None:
    """Return when a dashboard has asked each of its hosts once, and knows that all are up which are well.

    :raises FailedError: where it does not find that out.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        fleet = server.json('/api/v1/fleet')
        up = fleet['totals']['hosts_up']
        if up == well and all(host['state'] != 'waiting' for host in fleet['hosts']):
            return
        if time.monotonic() > deadline:
            raise FailedError(f'its answer is wrong: {up} hosts are up, not {well}')
        time.sleep(_LOOK)


@contextlib.contextmanager
def _serving(words: list[str], folder: Path, variables: dict[str, str]) -> Iterator[Server]:
    # PYTHONUNBUFFERED: what a server says has to be in the file as soon as it serves.
    with started(words, folder, variables | {'PYTHONUNBUFFERED': '1'}, uuid.uuid4().hex) as process:
        yield Server(process.pid, _url(process, folder))


def _url(process: subprocess.Popen[bytes], folder: Path) -> str:
    """Return the address that a server says it serves at."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        said = output_of(folder)
        if found := _READY.search(said):
            return found[1]
        if process.poll() is not None:
            raise FailedError((said.strip().splitlines() or [f'ended with {process.returncode}'])[-1])
        time.sleep(_LOOK)
    raise FailedError(f'did not serve within {_PATIENCE} s')
