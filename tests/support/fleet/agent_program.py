"""A real agent: gpu-tracker as a program on a machine with a simulated driver, on a port of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping

    from support.gpus.gpu_machine import Machine

_READY = 'gpu-tracker: agent: serving '


class Answer(NamedTuple):
    """An answer over HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    @property
    def json(self) -> Any:
        """What the body spells."""
        return json.loads(self.body)


class AgentProgram(NamedTuple):
    """An agent that serves."""

    url: str
    """Without a slash at its end."""
    process: subprocess.Popen[str]
    said: list[str]
    """Lines on standard error up to the one which says that it serves."""

    def get(self, path: str, method: str = 'GET', **headers: str) -> Answer:
        """Ask over a connection of its own; an underscore in the name of a header stands for a dash."""
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=TIMEOUT)
        with contextlib.closing(connection):
            connection.request(method, path, headers={name.replace('_', '-'): text for name, text in headers.items()})
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())

    def host(self) -> Any:
        """Return what the agent tells of its machine in our form."""
        return self.get('/api/v1/host').json

    def seen(self) -> Any:
        """Return the same as soon as there has been a look at the machine."""
        return eventually(lambda: told if (told := self.host())['age_seconds'] is not None else None)

    def nvgpu(self) -> Any:
        """Return what the agent tells of its machine in nvgpu's form, as soon as it does."""
        return eventually(lambda: found if (found := self.get('/gpu_status')).status == 200 else None).json

    def metrics(self, **headers: str) -> dict[str, float]:
        """Return the samples that Prometheus gets."""
        lines = self.get('/metrics', **headers).text.splitlines()
        pairs = (line.rpartition(' ') for line in lines if not line.startswith('#'))
        return {name: float(value) for name, _, value in pairs}


@contextlib.contextmanager
def agent(
    machine: Machine, *options: str, port: int = 0, env: Mapping[str, str] | None = None
) -> Iterator[AgentProgram]:
    """Start an agent on the machine, and end it by force where the test leaves it running.

    :param port: Where it listens; 0: where it is free.
    """
    with machine.started(
        'agent', f'--port={port}', *options, env={'NVGPU_CLUSTER_CFG': ''} | dict(env or {})
    ) as process:
        said: list[str] = []
        for line in process.stderr:
            if line.startswith(_READY):
                yield AgentProgram(line.removeprefix(_READY).strip(), process, said)
                return
            said.append(line)
    raise AssertionError(f'it never served: {"".join(said)}')
