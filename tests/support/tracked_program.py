"""Runs small programs that use the tracker, each in a fresh interpreter, and looks at the samplers that they start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import gpu_tracker
from gpu_tracker.processes import SAMPLER_MARK
from support.cli_program import Marked
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE_PARENT = Path(gpu_tracker.__file__).resolve().parent.parent
"""The folder from which the tested package was imported."""

TICKS_PER_SECOND = os.sysconf('SC_CLK_TCK')
MEGABYTE = 1_000_000

BURN = """
import time

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
"""
"""Source of a function that uses CPU time."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason='needs root')


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process' environment with the tested package importable."""
    return {**os.environ, 'PYTHONPATH': str(PACKAGE_PARENT), **(changes or {})}


def run(text: str, *arguments: object, words: tuple[str, ...] = (), **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``text`` as ``python -c`` to its end.

    :param words: What stands before the interpreter.
    :param options: Those of subprocess.run.
    """
    return run_words([*words, sys.executable, '-c', text, *map(str, arguments)], **options)


def run_words(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program that is to succeed; what it prints on standard error is shown where it does not."""
    settings: dict[str, Any] = {
        'env': environment(),
        'input': '',
        'stdout': subprocess.PIPE,
        'stderr': subprocess.PIPE,
        'text': True,
        'timeout': TIMEOUT,
    }
    finished = subprocess.run(words, check=False, **(settings | options))
    assert finished.returncode == 0, f'exit code {finished.returncode}: {finished.stderr}'
    return finished


def answer(text: str, *arguments: object, **options: Any) -> Any:
    """Run ``text`` as :func:`run` does, and return what it prints as JSON."""
    return json.loads(run(text, *arguments, **options).stdout)


def start(text: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start ``text`` as ``python -c``."""
    settings: dict[str, Any] = {'env': environment(), 'stdout': subprocess.PIPE, 'text': True}
    return subprocess.Popen([sys.executable, '-c', text, *map(str, arguments)], **(settings | options))


class Samplers(Marked):
    """Finds the samplers of the programs that have its environment."""

    def __init__(self) -> None:
        super().__init__()
        self.environment = {**self.environment, 'PYTHONPATH': str(PACKAGE_PARENT)}

    def alive(self) -> list[int]:
        """Return the samplers that run."""
        return self.processes(SAMPLER_MARK)

    def only(self) -> int:
        """Return the one sampler that runs."""
        found = self.alive()
        assert len(found) == 1, found
        return found[0]

    def none_left(self) -> bool:
        """Wait until no sampler runs any more."""
        return eventually(lambda: not self.alive())


def status_of(pid: int, field: str) -> int:
    """Return a number from ``/proc/PID/status``, as it stands there."""
    with open(f'/proc/{pid}/status', encoding='ascii', errors='replace') as status:
        return next(int(line.split()[1]) for line in status if line.startswith(f'{field}:'))


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used, in seconds."""
    fields = Path(f'/proc/{pid}/stat').read_text(encoding='ascii', errors='replace').rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
