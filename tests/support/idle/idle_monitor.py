"""``gpu-tracker idle`` as a program that watches stand-ins for GPUs, and others who take these."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import stat
import subprocess
from typing import TYPE_CHECKING, Any, Self

import pytest

from gpu_tracker.idle import status_socket
from gpu_tracker.idle.status import from_json
from support.cli_program import PROGRAM, Marked, text_of
from support.tracked_program import PACKAGE_PARENT
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from gpu_tracker.idle.status import GpuStatus, ProgramStatus, Status

NODE = (1, 8)
"""The number of a device that hardly anybody holds open: /dev/random. A monitor sees whoever does on this machine, and
other tests hold all others that can be opened everywhere, such as /dev/full."""

FOREIGN = 'exec 3<"$0"; echo; read x'
"""A shell script that holds a file open as long as somebody holds its standard input."""

SLEEP = 'exec sleep 3600'

_TIME = re.compile(r'^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ', re.MULTILINE)
_PID = re.compile(r'\bpid \d+')
_USED = re.compile(r'[\d.]+ GPU hours.* CPU [\d.]+ s')
_OF_THE_MACHINE = re.compile(r'^.* WARNING (the descriptors of|in this container, |/proc hides) .*\n', re.MULTILINE)
_VARIABLES = ('CUDA_VISIBLE_DEVICES', 'CUDA_DEVICE_ORDER', 'RUNTIME_DIRECTORY', 'XDG_RUNTIME_DIR')


class IdleMonitor:
    """A monitor that is started with the block, and of which nothing may be left after it.

    In ``gpus`` below the folder are the stand-ins, which are made where there are none yet, two files; programs in its
    ``bin`` are found on PATH. There is no driver unless ``environment`` names one.

    :param folder: Of the test.
    :param text: The configuration.
    :param options: Of the command line, in addition.
    :param words: What stands before it, as that which makes it another user's.
    :param environment: Variables in addition.
    :param errors: Where its messages go; None: to a file, for ``log``.
    :param config: The configuration's path as it is given; None: in full.
    """

    def __init__(
        self,
        folder: Path,
        text: str,
        *options: str,
        words: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        errors: int | None = None,
        name: str = 'idle',
        config: str | None = None,
    ) -> None:
        self.marked = Marked()
        self.gpus = folder / 'gpus'
        if not self.gpus.exists():
            make_gpus(folder, 2)
        self.config = folder / f'{name}.conf'
        self.config.write_text(text)
        self.socket = str(folder / f'{name}.sock')
        self._log = folder / f'{name}.log'
        given = self.config if config is None else config
        self._words = [*words, *PROGRAM, 'idle', f'--config={given}', f'--devices={self.gpus}', *options]
        if not any(option.startswith('--socket') for option in options):
            self._words.append(f'--socket={self.socket}')
        usual = {key: value for key, value in self.marked.environment.items() if key not in _VARIABLES}
        path = f'{folder / "bin"}:{os.environ["PATH"]}'
        self.environment = {**usual, **without_driver(folder), 'PYTHONPATH': str(PACKAGE_PARENT), 'PATH': path}
        self.environment |= dict(environment or {})
        self._errors = errors

    def __enter__(self) -> Self:
        with self._log.open('ab') as log:
            self.process = subprocess.Popen(
                self._words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log if self._errors is None else self._errors,
                env=self.environment,
                start_new_session=True,
            )
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.end()
        finally:
            print(self.log)  # pytest shows it where a test fails
            while left := self.marked.processes():
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            self.process.wait(TIMEOUT)

    @property
    def log(self) -> str:
        """What it has said, and what programs without a log have."""
        return text_of(self._log)

    @property
    def said(self) -> list[str]:
        """The lines that it has said, see :func:`plain`."""
        return plain(self.log)

    def status(self) -> Status:
        """Ask it how things are, waiting until it listens."""

        def answer() -> Status | None:
            assert self.process.poll() is None, f'it ended with {self.process.returncode}: {self.log}'
            try:
                return from_json(status_socket.ask(self.socket))
            except status_socket.NoMonitorError:
                return None

        return eventually(answer)

    def program(self, name: str) -> ProgramStatus:
        """Return how things are with the program of ``[process-NAME]``."""
        return next(program for program in self.status().programs if program.name == f'process-{name}')

    def gpu(self, name: str) -> GpuStatus | None:
        """Return how things are with a GPU, None where it is not there."""
        return next((gpu for gpu in self.status().gpus if gpu.gpu == name), None)

    def running(self, name: str, but: int | None = None) -> int:
        """Wait until a program runs, in another process than ``but``, and return its process ID."""

        def pid() -> int | None:
            program = self.program(name)
            return program.pid if program.state == 'running' and program.pid != but else None

        return eventually(pid)

    def not_running(self, name: str) -> str:
        """Wait until nothing is left of a program, and return why it is not started again."""
        return eventually(lambda: (program := self.program(name)).state in {'waiting', 'resting'} and program.reason)

    def says(self, text: str) -> None:
        """Wait until it has said something."""
        eventually(lambda: text in self.log)

    def end(self, *numbers: signal.Signals) -> int:
        """End it by signals, SIGTERM where none is given, and return its exit code when nothing is left."""
        for number in numbers or (signal.SIGTERM,):
            self.process.send_signal(number)  # sent to nobody where it has ended already
        code = self.process.wait(TIMEOUT)
        self.nothing_left()
        return code

    def nothing_left(self) -> None:
        """Wait until nothing is left of all that it has started."""
        eventually(lambda: not self.marked.processes())


def make_gpus(folder: Path, count: int) -> Path:
    """Make files that stand for so many GPUs, and return the folder in which they are."""
    gpus = folder / 'gpus'
    gpus.mkdir()
    for number in range(count):
        (gpus / f'nvidia{number}').touch()
    return gpus


@contextlib.contextmanager
def device_node(folder: Path) -> Iterator[None]:
    """Make a device node and a file that stand for two GPUs, as root; no other test uses this device in the block."""
    gpus = make_gpus(folder, 2)
    with open('/dev/zero', 'rb') as lock:  # one file for all runs of the tests on this machine
        fcntl.flock(lock, fcntl.LOCK_EX)
        (gpus / 'nvidia0').unlink()
        make_node(gpus / 'nvidia0', NODE)
        yield


def make_node(path: Path, number: tuple[int, int]) -> None:
    """Make a device node, as root."""
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(*number))
        path.open('rb').close()
    except PermissionError:
        pytest.skip('needs root, with the right to make and open device nodes')


def make_program(folder: Path, name: str, text: str = SLEEP) -> str:
    """Make a shell script that a monitor finds on PATH, and return its name."""
    (folder / 'bin').mkdir(exist_ok=True)
    path = folder / 'bin' / name
    path.write_text(f'#!/bin/sh\n{text}\n')
    path.chmod(0o755)
    return name


def without_driver(folder: Path) -> dict[str, str]:
    """Return the variables with which no driver is found, also on a machine that has one."""
    (folder / 'no-driver').mkdir(exist_ok=True)
    (folder / 'no-driver' / 'libnvidia-ml.so.1').touch()
    return {'LD_LIBRARY_PATH': str(folder / 'no-driver')}


@contextlib.contextmanager
def foreign(gpu: Path, program: str = 'sh', words: Sequence[str] = (), **options: Any) -> Iterator[int]:
    """Give the process ID of a program that holds a GPU open until the end of the block.

    :param program: A shell.
    :param words: What stands before it.
    """
    settings: dict[str, Any] = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE}
    with subprocess.Popen([*words, program, '-c', FOREIGN, str(gpu)], **(settings | options)) as process:
        try:
            assert process.stdout.readline() == b'\n'
            yield process.pid
        finally:
            process.kill()


def plain(log: str) -> list[str]:
    """Return the lines of a log without times, process IDs, and figures of what was used, and machine-made remarks."""
    text = _USED.sub('USAGE', _PID.sub('pid N', _TIME.sub('', _OF_THE_MACHINE.sub('', log))))
    return text.splitlines()


def config(*sections: str, interval: float = 0.2) -> str:
    """Return a configuration of these sections."""
    return '\n'.join([f'[defaults]\ninterval_seconds={interval}', *sections])


def process(name: str, cmd: str, gpus: str = '0', folder: str = '/tmp', **keys: object) -> str:
    """Return the section of a program."""
    lines = [f'[process-{name}]', f'dir={folder}', f'cmd={cmd}', f'gpus={gpus}']
    return '\n'.join([*lines, *(f'{key}={value}' for key, value in keys.items()), ''])
