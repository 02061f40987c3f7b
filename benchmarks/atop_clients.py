"""Clients that ask as atop does, ``atop_clients.c``, and what they have found."""

from __future__ import annotations

import contextlib
import select
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from benchmarks.compiling import compiled
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Iterator

AGAIN = 'again'
"""Each asks as soon as it has its answer."""
SPREAD = 'spread'
"""Each asks once a second, all evenly spread over it."""
TOGETHER = 'together'
"""Each asks once a second, all at the same moment of it."""

_SOURCE = Path(__file__).resolve().parent / 'atop_clients.c'
_PATIENCE = 60
"""Seconds that they may take to connect, and for the last answers."""
_MILLI = 1000
_NANO = 1e-9


@dataclass(frozen=True)
class Asked:
    """What clients have found.

    :ivar size: Bytes of all answers.
    :ivar seconds: From the first request to the last answer.
    :ivar latencies: Seconds until each answer was complete; none where they ask again at once.
    """

    answers: int
    size: int
    seconds: float
    latencies: tuple[float, ...]


class Clients:
    """Clients that are connected, and have been told everything once."""

    def __init__(self, process: subprocess.Popen[str], seconds: int) -> None:
        self._process = process
        self._patience = seconds + _PATIENCE
        self._done = ''

    def ask(self) -> None:
        """Let them ask, and return when they have their last answer.

        :raises FailedError: where they do not get it.
        """
        stdin, stdout = _pipes(self._process)
        stdin.write('go\n')
        stdin.flush()
        self._done = _line(self._process, stdout, self._patience)

    def asked(self) -> Asked:
        """Return what they have found."""
        _, answers, size, seconds = self._done.split()
        rest = _pipes(self._process)[1].read().split()
        return Asked(int(answers), int(size), float(seconds), tuple(int(number) * _NANO for number in rest))


@contextlib.contextmanager
def connected_clients(address: str, version: int, number: int, seconds: int, manner: str) -> Iterator[Clients]:
    """Start clients and let them connect; at the end they are killed.

    :param address: A port of 127.0.0.1, or ``@`` and the name of an abstract socket.
    :param version: The version of the protocol.
    :param seconds: For which they are to ask.
    :param manner: AGAIN, SPREAD or TOGETHER.
    :raises FailedError: where they cannot connect.
    """
    program = str(compiled('atop_clients', [_SOURCE]))
    words = [program, address, str(version), str(number), str(seconds), manner]
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    with process:
        try:
            _line(process, _pipes(process)[1], _PATIENCE)
            yield Clients(process, seconds)
        finally:
            process.kill()


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    if process.stdin is None or process.stdout is None:
        raise AssertionError('they were started with pipes')
    return process.stdin, process.stdout


def _line(process: subprocess.Popen[str], stdout: IO[str], patience: float) -> str:
    """Return the next line of what they print, which comes whole."""
    line = stdout.readline() if select.select([stdout], [], [], patience)[0] else ''
    if not line:
        process.kill()
        errors = process.communicate()[1].strip()
        raise FailedError(errors or f'did not answer the clients within {patience:g} s')
    return line
