"""The servers that the part ``atopgpud`` looks at: the daemon, and one that always gives the same answer."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.processes import cpu_seconds
from benchmarks.running import PROGRAMS, fresh_folder, output_of, started
from benchmarks.session import FailedError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from benchmarks.environments import Environment

_INTERVAL = 1
"""Seconds between two looks of the daemon at its GPUs."""
_LONGEST_ANSWER = 8192
"""Bytes that atop accepts."""
_CLOCK = 'BENCHMARK_DRIVER_CLOCK'
"""The variable that names the file in which ``kept_driver.c`` counts."""
_NUMBERS = struct.Struct('QQ')
_NANO = 1e-9
_PATIENCE = 60
"""Seconds that a server may take until it listens."""
_LOOK = 0.02


@dataclass(frozen=True)
class Used:
    """What a server has used until a moment.

    :ivar when: Seconds of monotonic time.
    :ivar cpu: Seconds of CPU, those in the driver included.
    :ivar driver_cpu: Seconds of CPU in calls of the simulated driver.
    :ivar driver_calls: How many these were.
    """

    when: float
    cpu: float
    driver_cpu: float
    driver_calls: int


@dataclass(frozen=True)
class Server:
    """A server that listens.

    :ivar port: Of 127.0.0.1.
    :ivar name: That of its abstract socket.
    :ivar clock: The file in which its driver counts.
    """

    pid: int
    port: int
    name: str
    clock: Path

    def used(self) -> Used:
        """Return what it has used until now.

        :raises FailedError: where it has ended.
        """
        cpu = cpu_seconds(self.pid)
        if cpu is None:
            raise FailedError('has ended while clients were there')
        nanoseconds, calls = _NUMBERS.unpack(self.clock.read_bytes())
        return Used(time.monotonic(), cpu, nanoseconds * _NANO, calls)


@contextlib.contextmanager
def daemon(environment: Environment, variables: Mapping[str, str]) -> Iterator[Server]:
    """Start the daemon; at the end it is killed.

    :param variables: Those by which it finds the simulated driver.
    """
    port, name = _addresses()
    options = [f'--port={port}', f'--socket={name}', f'--interval={_INTERVAL}']
    words = [environment.python, '-m', 'gpu_tracker', 'atopgpud', *options]
    with _listening(words, environment.variables(**variables), port, name) as server:
        yield server


@contextlib.contextmanager
def constant_server(environment: Environment) -> Iterator[Server]:
    """Start ``programs/constant_server.py``, with answers as long as atop accepts them; at the end it is killed."""
    port, name = _addresses()
    words = [environment.python, str(PROGRAMS / 'constant_server.py'), str(port), name, str(_LONGEST_ANSWER)]
    with _listening(words, environment.variables(), port, name) as server:
        yield server


def _addresses() -> tuple[int, str]:
    """Return a port and a name that nobody has."""
    with socket.socket() as trial:
        trial.bind(('127.0.0.1', 0))
        return trial.getsockname()[1], f'benchmark-{uuid.uuid4()}'


@contextlib.contextmanager
def _listening(words: list[str], variables: dict[str, str], port: int, name: str) -> Iterator[Server]:
    with fresh_folder() as folder:
        clock = folder / 'driver-clock'
        clock.write_bytes(_NUMBERS.pack(0, 0))
        with started(words, folder, variables | {_CLOCK: str(clock)}, uuid.uuid4().hex) as process:
            _wait_until_listening(process, name, folder)
            yield Server(process.pid, port, name, clock)


def _wait_until_listening(process: subprocess.Popen[bytes], name: str, folder: Path) -> None:
    """Return when somebody can connect; both servers listen on the abstract socket last."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as trial, contextlib.suppress(ConnectionRefusedError):
            trial.connect(f'\0{name}')
            return
        if process.poll() is not None:
            said = output_of(folder).strip().splitlines() or [f'ended with {process.returncode}']
            raise FailedError(said[-1])
        time.sleep(_LOOK)
    raise FailedError(f'did not listen within {_PATIENCE} s')
