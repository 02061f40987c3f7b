"""``gpu-tracker dashboard`` as a process, and what its clients see."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any, Self

from cli_program import PATIENCE, PROGRAM, eventually
from tracked_program import environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Dashboard:
    """A dashboard that serves; it is killed at the end of the block.

    :param options: Of its command line, beside the port, which is any that is free.
    :param changes: To its environment.
    """

    def __init__(self, *options: str, changes: Mapping[str, str] | None = None) -> None:
        self._errors = tempfile.TemporaryFile('a+')  # noqa: SIM115 - it is closed with the dashboard
        self.process = subprocess.Popen(
            [*PROGRAM, 'dashboard', '--port=0', *options],
            env=environment({'NVGPU_CLUSTER_CFG': '', **(changes or {})}),
            stdin=subprocess.DEVNULL,
            stderr=self._errors,
            text=True,
        )

    def __enter__(self) -> Self:
        try:
            self.port = eventually(self._port)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._errors.close()

    @property
    def log(self) -> str:
        """What it has said on standard error."""
        self._errors.seek(0)
        return self._errors.read()

    @contextlib.contextmanager
    def asked(self, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
        """Give the answer to a question as it begins."""
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=PATIENCE)
        try:
            connection.request('GET', path, headers=headers)
            yield connection.getresponse()
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        """Return status and text of an answer."""
        with self.asked(path, **headers) as response:
            return response.status, response.read().decode()

    def json(self, path: str, **headers: str) -> Any:
        """Return what an answer says."""
        status, text = self.get(path, **headers)
        assert status == 200, text
        return json.loads(text)

    def hosts(self) -> list[dict[str, Any]]:
        """Return the hosts once all were asked."""
        return eventually(self._all_asked)

    def until(self, states: list[str]) -> list[dict[str, Any]]:
        """Return the hosts when they are in these states."""

        def there() -> list[dict[str, Any]] | None:
            hosts = self.json('/api/v1/fleet')['hosts']
            return hosts if [host['state'] for host in hosts] == states else None

        found = eventually(there)
        assert found is not None
        return found

    def end(self) -> int:
        """End it by SIGTERM, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def _all_asked(self) -> list[dict[str, Any]] | None:
        hosts = self.json('/api/v1/fleet')['hosts']
        return hosts if all(host['state'] != 'waiting' for host in hosts) else None

    def _port(self) -> int | None:
        assert self.process.poll() is None, f'it ended with {self.process.returncode}: {self.log}'
        found = re.search(r'^gpu-tracker: dashboard: serving http://127\.0\.0\.1:([0-9]+)\n', self.log, re.MULTILINE)
        return int(found[1]) if found else None
