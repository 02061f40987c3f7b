"""Times a command from outside: how long it takes, and the CPU time of it and of what it has waited for."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.session import FailedError

if TYPE_CHECKING:
    from pathlib import Path

_MILLI = 1000


@dataclass(frozen=True)
class Timed:
    """A command that has ended well.

    :ivar seconds: From before it is started until its end is known.
    :ivar cpu: Seconds of CPU, in the program and in the kernel.
    :ivar output: What it has printed, without its errors.
    """

    seconds: float
    cpu: float
    output: str


def timed(words: list[str], folder: Path, variables: dict[str, str], longest: float) -> Timed:
    """Run a command in a folder, where it prints into files.

    :param longest: Seconds that it may take.
    :raises FailedError: where it fails or takes longer.
    """
    with open(folder / 'output', 'wb') as output, open(folder / 'errors', 'wb') as errors:
        start = time.perf_counter()
        command = subprocess.Popen(
            words,
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        cpu = _wait(command, longest)
        seconds = time.perf_counter() - start
    if command.returncode != 0:
        said = _text(folder / 'errors').strip().splitlines() or [f'ended with {command.returncode}']
        raise FailedError(said[-1])
    return Timed(seconds, cpu, _text(folder / 'output'))


def _wait(command: subprocess.Popen[bytes], longest: float) -> float:
    """Wait for a command and return its CPU seconds; Popen's own ways of waiting do not tell them."""
    ended = False
    pidfd = os.pidfd_open(command.pid)
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        ended = bool(poll.poll(longest * _MILLI))
    finally:
        os.close(pidfd)
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(command.pid, signal.SIGKILL)
        _, status, used = os.wait4(command.pid, 0)
        command.returncode = os.waitstatus_to_exitcode(status)
    if not ended:
        raise FailedError(f'did not end within {longest:g} s')
    return used.ru_utime + used.ru_stime


def _text(path: Path) -> str:
    return path.read_text(encoding='utf-8', errors='replace')
