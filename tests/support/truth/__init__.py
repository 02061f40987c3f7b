"""What the kernel says of processes, read in other ways than gpu-tracker does, and programs that are tracked."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from array import array
from typing import TYPE_CHECKING, Any

import gpu_tracker
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MEGABYTE = 1_000_000
_IMPORTED = os.path.dirname(os.path.dirname(os.path.abspath(gpu_tracker.__file__)))
_TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_PRESENT = 1 << 63
_ALONE = 1 << 56
_FRAME = (1 << 55) - 1
_WORD = 8

_PREAMBLE = (
    'import json, mmap, os, signal, subprocess, sys, threading, time\n'
    'from support.truth.memory import *\n'
    'from support.truth.program import *\n'
)


def environment(**variables: str) -> dict[str, str]:
    """Return an environment in which programs find the package that is tested, and what they need of the tests."""
    return {**os.environ, 'PYTHONPATH': f'{_IMPORTED}{os.pathsep}{_TESTS}', **variables}


def tracked(program: str, *arguments: object, before: Sequence[str] = (), **variables: str) -> Any:
    """Run a program, which tracks itself, in an interpreter of its own; return the JSON value that it prints.

    Where it asks for the truth about processes, that is found out here, so that its own memory stays as it is.

    :param before: The words of a program that starts the interpreter.
    """
    with subprocess.Popen(
        [*before, sys.executable, '-c', _PREAMBLE + textwrap.dedent(program), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**variables),
        start_new_session=True,
    ) as process:
        watchdog = threading.Timer(TIMEOUT, os.killpg, (process.pid, signal.SIGKILL))
        watchdog.start()
        try:
            for line in process.stdout:
                question, _, words = line.partition(' ')
                if question != 'union':
                    return json.loads(line)
                process.stdin.write(f'{union_of_frames(map(int, words.split()))}\n')
                process.stdin.flush()
            raise AssertionError(process.stderr.read())
        finally:
            watchdog.cancel()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def need_root() -> None:
    """Skip the test for ordinary users."""
    import pytest  # noqa: PLC0415 - programs under test read this module as well

    if os.geteuid() != 0:
        pytest.skip('needs root')


def need_task_clocks() -> None:
    """Skip the test if the kernel refuses task clocks."""
    import pytest  # noqa: PLC0415 - as above

    from gpu_tracker.processes.task_clocks import PerfEvents  # noqa: PLC0415 - as above

    try:
        kernel = PerfEvents()
        kernel.close(kernel.open(os.getpid(), threads_only=True))
    except PermissionError:
        pytest.skip('needs root, or the right to call perf_event_open(2)')
    except OSError as error:
        pytest.skip(f'this machine has no perf_event_open(2): {error.strerror}')


def status(pid: int, field: str) -> int:
    """Return a field of /proc/PID/status in bytes."""
    with open(f'/proc/{pid}/status', encoding='ascii', errors='replace') as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f'{field}:'))


def union_of_frames(pids: Iterable[int]) -> int:
    """Return the bytes of distinct physical pages that processes have mapped, from /proc/PID/pagemap (root only)."""
    return parts_of_frames(pids)[0]


def parts_of_frames(pids: Iterable[int]) -> tuple[int, int]:
    """Return the bytes of distinct physical pages that processes have mapped, and of those mapped only once."""
    frames: set[int] = set()
    alone: set[int] = set()
    for pid in pids:
        with open(f'/proc/{pid}/maps', encoding='utf-8', errors='replace') as lines:
            ranges = [
                (int(low, 16), int(high, 16))
                for low, high in re.findall(r'^([0-9a-f]+)-([0-9a-f]+) (?!.*\[v)', lines.read(), re.MULTILINE)
            ]
        with open(f'/proc/{pid}/pagemap', 'rb', 0) as pagemap:
            for low, high in ranges:
                pagemap.seek(low // mmap.PAGESIZE * _WORD)
                entries = array('Q', pagemap.read((high - low) // mmap.PAGESIZE * _WORD))
                present = [entry for entry in entries if entry & _PRESENT]
                frames.update([entry & _FRAME for entry in present])
                alone.update([entry & _FRAME for entry in present if entry & _ALONE])
    return len(frames) * mmap.PAGESIZE, len(alone) * mmap.PAGESIZE
