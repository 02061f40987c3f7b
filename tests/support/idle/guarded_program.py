"""Runs programs under their guardians, with this process or a small program in the monitor's place."""

from __future__ import annotations

import os
import select
import signal
import sys
from typing import TYPE_CHECKING, Any, Self, TypeVar

from gpu_tracker.idle.config.idle_settings import GpuId, Program
from gpu_tracker.idle.running.guardian_protocol import Ended, Message, Started, orders_for
from gpu_tracker.idle.running.running_program import RunningProgram
from gpu_tracker.idle.state import WatchedGpu
from support.cli_program import Marked
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pytest

Kind = TypeVar('Kind', bound=Message)

MONITOR = """
import json, os, signal, sys
from gpu_tracker.processes.descendants import children_now
from gpu_tracker.idle.running.program_orphans import Orphans
from support.idle.guarded_program import Guarded

strays = Orphans()
guarded = Guarded(json.loads(sys.argv[1]), **json.loads(sys.argv[2]))
print(json.dumps({'guardian': guarded.running.pid, 'program': guarded.started().pid}), flush=True)
answers = {
    'read': lambda: str(guarded.message()),
    'reap': lambda: strays.reap([guarded.running.pid]),
    'end strays': lambda: strays.end([guarded.running.pid]),
    'end strays of the lost': lambda: strays.end([guarded.running.pid], [guarded.running.program_pid]),
    'find strays of the lost': lambda: [
        found.pid for found in strays._find([guarded.running.pid], [guarded.running.program_pid])
    ],
    'children': lambda: children_now(),
}
for line in sys.stdin:
    print(json.dumps(answers[line.rstrip()]()), flush=True)
"""
"""A monitor that does what it is told on standard input, and answers on standard output, a line each."""


def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[Marked]:
    """Mark all that a test starts, and check that nothing of it is left in the end; for a fixture."""
    marked = Marked()
    monkeypatch.setenv('MARK_OF_A_TEST', marked.environment['MARK_OF_A_TEST'])
    yield marked
    try:
        eventually(lambda: not marked.processes())
    finally:
        for pid in marked.processes():
            os.kill(pid, signal.SIGKILL)


class Guarded:
    """A program with a guardian.

    :param command: Its words; one that ends in a newline is the text of a Python program.
    :param options: Those of Program, and ``gpus``, ``reason`` and ``inherited``, the monitor's variables.
    """

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        gpus = options.pop('gpus', (WatchedGpu(GpuId(0)),))
        reason = options.pop('reason', 'GPU 0 is idle')
        inherited = options.pop('inherited', os.environ)
        words = tuple(command)
        if words[0].endswith('\n'):
            words = (sys.executable, '-S', '-c', *words)
        program = Program(**{'name': 'test', 'gpus': None, 'folder': '/', 'command': words, **options})
        self.running = RunningProgram.start(orders_for(program, gpus, inherited, reason))
        self._told: list[Message] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.running.kill()
        self.running.close()
        self.running._process.wait(TIMEOUT)

    def message(self) -> Message:
        """Return the next message of the guardian."""
        if not self._told:
            select.select([self.running], [], [], TIMEOUT)
            self._told = eventually(self.running.read)
        return self._told.pop(0)

    def next(self, kind: type[Kind]) -> Kind:
        """Return the next message, which is of this kind."""
        message = self.message()
        assert isinstance(message, kind), message
        return message

    def started(self) -> Started:
        """Wait until the program runs."""
        return self.next(Started)

    def ended(self) -> Ended:
        """Wait until nothing is left of it."""
        return self.next(Ended)
