"""Runs the stand-in's program with a tracer around it, or beside it, and looks at the tracer meanwhile."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
import uuid
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from benchmarks import cuda_stand_in
from benchmarks.processes import MARK, end, marked
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_LONGEST = 120
"""Seconds that a program may take to its next ``wait``, and a tracer to end."""
_WAITING = b'waiting\n'
_ERRORS, _TRUTH, _COMMAND = 'errors', 'truth', 'command'


class Conversation:
    """A command, in which there is a program that says when it waits, and goes on when it is told to."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._heard = b''

    @property
    def pid(self) -> int:
        """The process of the command."""
        return self._process.pid

    def wait_until_waiting(self) -> None:
        """Return when the program has come to its next ``wait``."""
        handle = _pipe(self._process.stdout).fileno()
        deadline = time.monotonic() + _LONGEST
        while _WAITING not in self._heard:
            ready, _, _ = select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
            more = os.read(handle, 65536) if ready else b''
            if not more:
                raise FailedError(last_words(self._folder) or 'the program does not begin')
            self._heard += more
        self._heard = self._heard.partition(_WAITING)[2]

    def go_on(self) -> None:
        """Let it go on."""
        handle = _pipe(self._process.stdin)
        handle.write(b'go_on\n')
        handle.flush()

    def finish(self) -> None:
        """Let it go on, and wait for the end of the command."""
        self.go_on()
        wait_for_end(self._process)


@contextlib.contextmanager
def begun(words: Sequence[str], folder: Path, variables: Mapping[str, str]) -> Iterator[Conversation]:
    """Start a command; what is left of it afterwards is killed.

    :param folder: Where its errors go, and the truth of the program.
    """
    mark = uuid.uuid4().hex
    (folder / _TRUTH).mkdir(exist_ok=True)
    changes = {MARK: mark, 'CUDA_STAND_IN_TRUTH': str(folder / _TRUTH)}
    with (
        open(folder / _ERRORS, 'ab') as errors,
        _popen(words, {**variables, **changes}, subprocess.PIPE, errors.fileno()) as process,
    ):
        try:
            yield Conversation(process, folder)
        finally:
            _kill(process, mark)


@contextlib.contextmanager
def beside(words: Sequence[str], folder: Path, variables: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a tracer of a process that runs; what is left of it afterwards is killed."""
    mark = uuid.uuid4().hex
    with (
        open(folder / _ERRORS, 'ab') as errors,
        _popen(words, {**variables, MARK: mark}, subprocess.DEVNULL, errors.fileno()) as process,
    ):
        try:
            yield process
        finally:
            _kill(process, mark)


def _popen(words: Sequence[str], variables: Mapping[str, str], pipe: int, errors: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, env=variables, stdin=pipe, stdout=pipe, stderr=errors, start_new_session=True)


def _kill(process: subprocess.Popen[bytes], mark: str) -> None:
    end(marked(mark))
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError('the command was started without this pipe')
    return pipe


def wait_for_end(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a tracer."""
    try:
        process.wait(_LONGEST)
    except subprocess.TimeoutExpired:
        raise FailedError(f'did not end within {_LONGEST} s') from None


def command_file(folder: Path, program: Path, script: str) -> Path:
    """Write a shell script that becomes the program, which performs a script of its own; no tracer has to quote it."""
    path = folder / _COMMAND
    path.write_text(f"exec '{program}' '{script}'\n")
    return path


def said(folder: Path) -> str:
    """Return what commands have printed as errors."""
    return (folder / _ERRORS).read_text(encoding='utf-8', errors='replace')


def last_words(folder: Path) -> str:
    """Return the last line of that."""
    return (said(folder).strip().splitlines() or [''])[-1].strip()


@dataclass(frozen=True)
class Loop:
    """A loop of one call in the program.

    :ivar seconds: How long it took.
    :ivar cpu: Seconds of CPU of its thread.
    """

    call: str
    count: int
    seconds: float
    cpu: float


def loops(folder: Path) -> list[Loop]:
    """Return the loops of the program."""
    truth = cuda_stand_in.load().Truth
    told = [truth.read(path) for path in (folder / _TRUTH).glob('*.json')]
    if not told:
        raise FailedError(last_words(folder) or 'the program has told nothing')
    return [Loop(one.call, one.count, one.real_ns / 1e9, one.cpu_ns / 1e9) for one in told[0].loops]
