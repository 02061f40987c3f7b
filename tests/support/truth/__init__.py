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
import tempfile
import textwrap
import threading
from array import array
from typing import TYPE_CHECKING, Any

import gpu_tracker
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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


def command(
    *words: object, before: Sequence[str] = (), code: int = 0, stdin: str | None = None, **variables: str
) -> dict[str, Any]:
    """Run gpu-tracker with options and a command; return the result in base units, and what the command has printed.

    :param before: The words of a program that starts gpu-tracker.
    :param code: The expected exit code.
    """
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)  # noqa: S103 - gpu-tracker may run as another user
        report = f'{folder}/report.json'
        options = ['-f', 'json', '--ru=bytes', '--tu=seconds', '-o', report]
        done = subprocess.run(
            [*before, sys.executable, '-m', 'gpu_tracker', *options, *map(str, words)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
            env=environment(**variables),
            **({'stdin': subprocess.DEVNULL} if stdin is None else {'input': stdin}),
        )
        assert done.returncode == code, done.stderr
        with open(report, encoding='utf-8') as file:
            usage = json.load(file)
    return {
        'usage': usage,
        'ram': usage['max_ram'],
        'cpu': seconds_of(usage, usage['compute_time']['time']),
        'marked': usage.get('lower_bounds', []),
        'stdout': done.stdout,
        'stderr': done.stderr,
    }


def seconds_of(usage: Mapping[str, Any], seconds: float) -> dict[str, float | None]:
    """Return the CPU seconds of each group in a result as JSON.

    :param seconds: Those over which its means are.
    """
    cpu = usage['cpu_utilization']
    means = {group: cpu[group]['mean_sum_percent'] for group in ('main', 'descendants', 'combined')}
    return {group: None if mean is None else mean / 100 * seconds for group, mean in means.items()}


def need_root() -> None:
    """Skip the test for ordinary users."""
    import pytest  # noqa: PLC0415 - programs under test read this module as well

    if os.geteuid() != 0:
        pytest.skip('needs root')


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
        # The first thread knows no memory if it has ended.
        thread = max(os.listdir(f'/proc/{pid}/task'), key=int)
        folder = f'/proc/{pid}/task/{thread}'
        with open(f'{folder}/maps', encoding='utf-8', errors='replace') as lines:
            ranges = [
                (int(low, 16), int(high, 16))
                for low, high in re.findall(r'^([0-9a-f]+)-([0-9a-f]+) (?!.*\[v)', lines.read(), re.MULTILINE)
            ]
        with open(f'{folder}/pagemap', 'rb', 0) as pagemap:
            for low, high in ranges:
                pagemap.seek(low // mmap.PAGESIZE * _WORD)
                entries = array('Q', pagemap.read((high - low) // mmap.PAGESIZE * _WORD))
                present = [entry for entry in entries if entry & _PRESENT]
                frames.update([entry & _FRAME for entry in present])
                alone.update([entry & _FRAME for entry in present if entry & _ALONE])
    return len(frames) * mmap.PAGESIZE, len(alone) * mmap.PAGESIZE
