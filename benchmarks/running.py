"""Runs a peer around the program that is measured, and looks at the peer meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.environments import KEPT, base_python
from benchmarks.peers import Run
from benchmarks.processes import MARK, age, cpu_seconds, end, marked, memory
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.environments import Environment
    from benchmarks.peers import Peer

PROGRAMS = Path(__file__).resolve().parent / 'programs'

_LONGEST = 60
"""Seconds that a peer may take to get ready, and to end."""
_LOOK = 0.02


@dataclass(frozen=True)
class Workload:
    """What ``programs/workload.py`` is to build: see there.

    :ivar window: Seconds for which the peers are looked at.
    """

    name: str
    kind: str
    number: int
    window: float = 2

    def words(self, ready: Path) -> list[str]:
        """Return the command; the program does not have the variable by which a peer's processes are known."""
        program = str(PROGRAMS / 'workload.py')
        return ['/usr/bin/env', '-u', MARK, base_python(), '-I', program, str(ready), self.kind, str(self.number)]


@contextlib.contextmanager
def fresh_folder() -> Iterator[Path]:
    """Make a folder for the files of a run, which goes afterwards."""
    runs = KEPT / 'runs'
    runs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=runs, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextlib.contextmanager
def started(words: list[str], folder: Path, variables: dict[str, str], mark: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command whose output goes into a file of the folder; afterwards nothing of it is left."""
    with open(folder / 'output', 'wb') as output:
        command = subprocess.Popen(
            words,
            cwd=folder,
            env=variables | {MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield command
    finally:
        command.poll()
        left = marked(mark)
        end(left)
        if command.returncode is None:
            os.killpg(command.pid, signal.SIGKILL)  # its program too
            command.wait()


def wait_until_ready(ready: Path, command: subprocess.Popen[bytes], folder: Path) -> int:
    """Return the pid of the measured program when it has built all that it is to hold."""
    deadline = time.monotonic() + _LONGEST
    while time.monotonic() < deadline:
        if ready.exists():
            return int(ready.read_text())
        if command.poll() is not None:
            raise FailedError(_last_line(folder) or f'ended with {command.returncode}')
        time.sleep(_LOOK)
    raise FailedError(f'did not start the program within {_LONGEST} s')


def wait_for_end(command: subprocess.Popen[bytes]) -> None:
    """Wait until a peer has ended."""
    try:
        command.wait(_LONGEST)
    except subprocess.TimeoutExpired:
        raise FailedError(f'did not end within {_LONGEST} s after the program') from None


def output_of(folder: Path) -> str:
    """Return what a command has printed."""
    return (folder / 'output').read_text(encoding='utf-8', errors='replace')


def _last_line(folder: Path) -> str:
    return (output_of(folder).strip().splitlines() or [''])[-1].strip()


def sample_cost(
    peer: Peer,
    environment: Environment,
    workload: Workload,
    interval: float,
    warm_up: float,
    *,
    more_variables: dict[str, str] | None = None,
) -> dict[str, float]:
    """Return what sampling a program costs, see :func:`watch`.

    :param warm_up: Seconds after the program is ready, before the window begins.
    """
    mark = uuid.uuid4().hex
    with fresh_folder() as folder:
        ready = folder / 'ready'
        run = Run(workload.words(ready), interval, folder)
        variables = environment.variables(**more_variables or {})
        with started(peer.command(environment, run), folder, variables, mark) as command:
            root = wait_until_ready(ready, command, folder)
            try:
                time.sleep(warm_up)
                costs = watch(mark, workload.window)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(root, signal.SIGTERM)
            wait_for_end(command)
        return costs | per_sample(costs, peer.report(run, output_of(folder)).period or interval)


def per_sample(costs: dict[str, float], period: float) -> dict[str, float]:
    """Return the figures that need the period, in seconds."""
    return {
        'period': period,
        'cpu a sample': costs['share'] * period,
        'cpu a sample over a run': costs['share over a run'] * period,
    }


def watch(mark: str, window: float) -> dict[str, float]:
    """Return what the processes of a peer use in a window of so many seconds.

    ``share`` is that of one core, and ``share over a run`` that of the sampler since it was started. ``rss`` and
    ``uss`` are the sampler's, which is the process of the peer that uses most CPU time in the window; with ``all``
    they are the sums over the processes of the peer.
    """
    pids = marked(mark)
    before = {pid: cpu_seconds(pid) for pid in pids}
    start = time.monotonic()
    time.sleep(window)
    after = {pid: cpu_seconds(pid) for pid in pids}
    seconds = time.monotonic() - start
    used = {pid: now - then for pid in pids if (now := after[pid]) is not None and (then := before[pid]) is not None}
    if not used:
        raise FailedError('has no process while the program runs')
    sampler = max(used, key=lambda pid: used[pid])
    held = {pid: size for pid in used if (size := memory(pid)) is not None}
    lived = age(sampler)
    if lived is None:
        raise FailedError('has ended while the program runs')
    return {
        'share': sum(used.values()) / seconds,
        'share over a run': (after[sampler] or 0) / lived,
        'rss': held[sampler].resident,
        'uss': held[sampler].private,
        'all rss': sum(size.resident for size in held.values()),
        'all uss': sum(size.private for size in held.values()),
    }
