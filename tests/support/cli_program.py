"""Runs gpu-tracker as its users do: as a program of its own, in a pipe, in a terminal, with real signals.

A command that only reads files or refuses its arguments is called in this process instead: see :func:`called`.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from unittest import mock

from gpu_tracker.cli import main
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

PROGRAM = [sys.executable, '-m', 'gpu_tracker']

# Becomes the leader of a session on the terminal that is its standard input, and then the program named after it.
_TAKE_TERMINAL = (
    'import fcntl, os, sys, termios\nfcntl.ioctl(0, termios.TIOCSCTTY, 0)\nos.execvp(sys.argv[1], sys.argv[1:])'
)


def gpu_tracker(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run gpu-tracker to its end; ``options`` are those of subprocess.run."""
    settings: dict[str, Any] = {
        'stdin': subprocess.DEVNULL,
        'stdout': subprocess.PIPE,
        'stderr': subprocess.PIPE,
        'text': True,
        'timeout': TIMEOUT,
    }
    return subprocess.run([*PROGRAM, *arguments], check=False, **(settings | options))


def called(
    *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Call gpu-tracker in this process, without the start of an interpreter.

    Only for commands that read files, or that are refused before they run a program or load a GPU driver.
    """
    with (
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
        contextlib.chdir(cwd or '.'),
        mock.patch.dict(os.environ, env or os.environ, clear=True),
    ):
        with _descriptor(1, output), _descriptor(2, errors):
            code = main([*arguments])
        printed, complaints = (_text_in(file) for file in (output, errors))
    return subprocess.CompletedProcess(list(arguments), code, printed, complaints)


@contextlib.contextmanager
def _descriptor(number: int, file: BinaryIO) -> Iterator[None]:
    """Let a descriptor of this process be that of a file."""
    before = os.dup(number)
    os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        os.dup2(before, number)
        os.close(before)


def _text_in(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode(errors='surrogateescape')


def shell(script: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a shell script in which ``"$@"`` stands for gpu-tracker with ``arguments``."""
    return subprocess.run(
        ['/bin/bash', '-c', script, 'bash', *PROGRAM, *arguments],
        check=False,
        **({'capture_output': True, 'text': True, 'timeout': TIMEOUT} | options),
    )


@contextlib.contextmanager
def started(*arguments: str, **options: object) -> Iterator[subprocess.Popen[str]]:
    """Start gpu-tracker, and end it by force where the test leaves it running."""
    settings: dict[str, Any] = {'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, 'text': True}
    with subprocess.Popen([*PROGRAM, *arguments], **(settings | options)) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def text_of(path: Path) -> str:
    """Return what is in the file, nothing while it is missing."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ''


def number_in(path: Path) -> int:
    """Return the number in a file as soon as its line is complete."""
    return int(eventually(lambda: text_of(path) if text_of(path).endswith('\n') else ''))


def state_of(process_id: int) -> str:
    """Return the letter of the process's state, proc(5), and nothing where there is no such process."""
    try:
        with open(f'/proc/{process_id}/stat', encoding='ascii', errors='replace') as file:
            return file.read().rpartition(')')[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ''


class Marked:
    """An environment by which every process that comes from it is found again."""

    def __init__(self) -> None:
        self._mark = f'MARK_OF_A_TEST={uuid.uuid4()}'
        name, _, value = self._mark.partition('=')
        self.environment = {**os.environ, name: value}

    def processes(self, word: str = '') -> list[int]:
        """Return the processes that live and whose command line contains ``word``."""
        found = []
        for name in filter(str.isdigit, os.listdir('/proc')):
            with contextlib.suppress(OSError):
                if self._mark.encode() not in Path(f'/proc/{name}/environ').read_bytes().split(b'\0'):
                    continue
                if word.encode() in Path(f'/proc/{name}/cmdline').read_bytes():
                    found.append(int(name))
        return found

    def kill(self) -> None:
        """End them by force; one may end by itself before its turn comes."""
        for process_id in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)


class Terminal:
    """A terminal with a program that leads its session; everything that it shows is in ``shown``.

    :ivar settings_before: The settings that it had when the program was started.
    """

    def __init__(self, words: list[str], environment: dict[str, str] | None = None) -> None:
        self._keyboard, screen = pty.openpty()
        self.settings_before = self.settings
        self.process = subprocess.Popen(
            [sys.executable, '-c', _TAKE_TERMINAL, *words],
            stdin=screen,
            stdout=screen,
            stderr=screen,
            start_new_session=True,
            env=environment,
        )
        os.close(screen)
        os.set_blocking(self._keyboard, False)
        fcntl.fcntl(self._keyboard, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
        self._decoder = codecs.getincrementaldecoder('utf-8')()
        self._shown = ''

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    @property
    def shown(self) -> str:
        """All that the screen has shown so far; of a character that is still coming, nothing."""
        with contextlib.suppress(OSError):
            while self._keyboard >= 0 and (more := os.read(self._keyboard, 65536)):
                self._shown += self._decoder.decode(more)
        return self._shown.replace('\r\n', '\n')

    def press(self, key: str) -> None:
        """Press keys, such as Ctrl-C, which is character 3."""
        os.write(self._keyboard, key.encode())

    def resize(self, columns: int, lines: int) -> None:
        """Give the window another size."""
        fcntl.ioctl(self._keyboard, termios.TIOCSWINSZ, struct.pack('HHHH', lines, columns, 0, 0))

    @property
    def settings(self) -> list[Any]:
        """How the terminal treats keys and lines, see termios(3)."""
        return termios.tcgetattr(self._keyboard)

    def close(self) -> None:
        """Close the window."""
        if self._keyboard >= 0:
            os.close(self._keyboard)
        self._keyboard = -1

    def wait(self) -> int:
        """Return the exit code of the program, reading the screen meanwhile."""

        def ended() -> bool:
            _ = self.shown
            return self.process.poll() is not None

        eventually(ended)
        return self.process.returncode
