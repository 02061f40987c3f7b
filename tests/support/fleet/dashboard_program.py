"""``gpu-tracker dashboard`` as a process, and what its clients see."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
from typing import TYPE_CHECKING, Any

from support.cli_program import PROGRAM
from support.serving_program import ServingProgram
from support.tracked_program import environment
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Dashboard(ServingProgram):
    """A dashboard that serves.

    :param options: Of its command line, beside the port, which is any that is free.
    :param changes: To its environment.
    """

    def __init__(self, *options: str, changes: Mapping[str, str] | None = None) -> None:
        words = [*PROGRAM, 'dashboard', '--port=0', *options]
        super().__init__(words, environment({'NVGPU_CLUSTER_CFG': '', **(changes or {})}))

    @contextlib.contextmanager
    def asked(self, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
        """Give the answer to a question as it begins."""
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=TIMEOUT)
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

    def _all_asked(self) -> list[dict[str, Any]] | None:
        hosts = self.json('/api/v1/fleet')['hosts']
        return hosts if all(host['state'] != 'waiting' for host in hosts) else None

    def finds_place(self) -> bool:
        found = re.search(r'^gpu-tracker: dashboard: serving http://127\.0\.0\.1:([0-9]+)\n', self.log, re.MULTILINE)
        if found:
            self.port = int(found[1])
        return found is not None
