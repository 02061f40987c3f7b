"""The test's side of source_probe: a GpuSource in another process that finds the simulated driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

_DEADLINE = 30.0
"""Seconds after which something that should have happened has not."""


_AT_START = ('LD_LIBRARY_PATH', 'PYTHONPATH')
"""Variables that have an effect only when a process starts."""

_running: dict[tuple[str, ...], subprocess.Popen[str]] = {}
"""Processes that fork probes, by those variables."""


def _forking(key: tuple[str, ...], environment: dict[str, str]) -> subprocess.Popen[str]:
    if key not in _running:
        _running[key] = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name('source_probe.py'))],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    return _running[key]


def end_probes() -> None:
    """End the processes that fork probes, so that no test finds one among its descendants."""
    while _running:
        _running.popitem()[1].communicate()


class Probe:
    """A running source_probe; a context manager that ends it."""

    def __init__(self, environment: dict[str, str], *, container: str | None = None) -> None:
        variables = os.environ | environment
        self._key = tuple(variables.get(name, '') for name in _AT_START)
        self._process = _forking(self._key, variables)
        self.ask(json.dumps([variables, container]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.ask('end')
        else:  # it may be in the middle of a command
            _running.pop(self._key).communicate()

    def ask(self, command: str) -> object:
        """Return the answer to a command (see source_probe)."""
        self._send(command)
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f'{line}\n')
        self._process.stdin.flush()

    def totals(self) -> dict[str, object]:
        """Return the source's totals."""
        totals = self.ask('totals')
        assert isinstance(totals, dict)
        return totals

    def messages(self) -> list[list[str]]:
        """Return the messages not taken yet, each a level and a text."""
        messages = self.ask('messages')
        assert isinstance(messages, list)
        return messages

    def begin(self, members: str = '-', start: str = 'start') -> dict[str, object]:
        """Start the source, wait for its first reading and for one with the members, and return its totals."""
        assert self.ask(start) is None
        assert self.ask(f'wait {_DEADLINE}') is True
        self.ask(f'members {members}')
        return self.totals()

    def finish(self) -> dict[str, object]:
        """Return the totals after a last reading, which has seen everything that the test has set up before."""
        totals = self.ask(f'finish {_DEADLINE}')
        assert isinstance(totals, dict)
        return totals


def until(condition: Callable[[], bool]) -> None:
    """Poll until the condition holds; fail where it does not for long."""
    deadline = time.monotonic() + _DEADLINE
    while not condition():
        assert time.monotonic() < deadline, 'what was waited for did not happen'
        time.sleep(0.01)  # between two polls
