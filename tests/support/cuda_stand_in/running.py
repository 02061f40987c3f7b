"""Runs the stand-in's program, and hears what its processes tell."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from support.cuda_stand_in.truth import Truth
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True)
class Ran:
    """A program that has ended."""

    returncode: int
    pid: int
    processes: list[Truth]
    """Of each process, and of each program that it has become by exec; in the order of pids and execs."""

    @property
    def truth(self) -> Truth:
        """What the first process told last."""
        return [truth for truth in self.processes if truth.pid == self.pid][-1]

    @property
    def children(self) -> list[Truth]:
        """What the other processes told."""
        return [truth for truth in self.processes if truth.pid != self.pid]


class Running:
    """A program that runs."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self.pid = process.pid
        self._folder = folder
        self._unfinished = b''

    def wait_until_waiting(self) -> None:
        """Return when it has come to its next ``wait``, or to ``obey``."""
        self._wait_for('waiting')

    def go_on(self) -> None:
        """Let it go on."""
        self._say('go_on')

    def tell(self, command: str) -> None:
        """Have it perform a command, where it has come to ``obey``; return when that is done."""
        self._say(command)
        self._wait_for('done')

    def truths(self) -> list[Truth]:
        """Return what each process has told so far: at each ``wait``, after each command told, and at its end."""
        # The name is PID.EXECS.json.
        paths = sorted(self._folder.glob('*.json'), key=lambda path: [int(word) for word in path.name.split('.')[:2]])
        return [Truth.read(path) for path in paths]

    def finish(self) -> Ran:
        """Wait for its end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        returncode = self.process.wait(TIMEOUT)
        return Ran(returncode, self.pid, self.truths())

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f'{line}\n'.encode())
        self.process.stdin.flush()

    def _wait_for(self, expected: str) -> None:
        line = self._line()
        assert line == expected, f'the program says {line!r}, not {expected!r}'

    def _line(self) -> str:
        assert self.process.stdout is not None
        deadline = time.monotonic() + TIMEOUT
        handle = self.process.stdout.fileno()
        waiting = select.poll()  # which takes any number of a descriptor, and a probe has many open
        waiting.register(handle, select.POLLIN)
        while b'\n' not in self._unfinished:
            assert waiting.poll(1000 * max(0.0, deadline - time.monotonic())), 'the program says nothing'
            more = os.read(handle, 65536)
            assert more, f'the program has ended: {self.process.wait(TIMEOUT)}'
            self._unfinished += more
        line, _, self._unfinished = self._unfinished.partition(b'\n')
        return line.decode()


@contextlib.contextmanager
def started(command: list[str], environment: Mapping[str, str]) -> Iterator[Running]:
    """Start a program of the stand-in; what is left of it afterwards is killed."""
    with tempfile.TemporaryDirectory(prefix='cuda-truth-') as folder:
        changes = {'CUDA_STAND_IN_TRUTH': folder, **environment}
        with subprocess.Popen(
            command, env={**os.environ, **changes}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        ) as process:
            try:
                yield Running(process, Path(folder))
            finally:
                if process.poll() is None:
                    process.kill()
