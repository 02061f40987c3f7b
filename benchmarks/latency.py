"""How long a user waits: for the import, for start and stop, and for the command around short programs."""

from __future__ import annotations

import json
import random
import shutil
import statistics
import subprocess
import time
from typing import TYPE_CHECKING

from benchmarks.peers import OURS, THE_OLDER, Run
from benchmarks.running import PROGRAMS, fresh_folder
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.environments import Environment
    from benchmarks.peers import Peer
    from benchmarks.session import Session

PART = 'latency'
IMPORT = 'import'
AROUND_TRUE = 'command around true'
AROUND_TRUE_KEPT = 'command around true, kept or not'
KEPT = 'gpu-tracker, kept'
AROUND_SLEEP = 'command around sleep 1, beyond plain sleep 1'
START_AND_STOP = 'start and stop at {:g} s'
INTERVALS = (0.1, 1)

_ROUNDS = 15
_SLEEPING_ROUNDS = 6
_QUICK_ROUNDS = 3
_PAIRS = 3
"""Imports a round, of which the median counts."""
_LONGEST = 60
_SHORTEST_TRACKING = 1.2
"""Seconds; each run stops at another phase of the interval."""


def measure(session: Session) -> None:
    """Measure all of it."""
    rounds = session.rounds(_ROUNDS, _QUICK_ROUNDS)
    session.alternate(PART, IMPORT, rounds, 'import', _import_time)
    for interval in INTERVALS:

        def start_and_stop(peer: Peer, environment: Environment, interval: float = interval) -> dict[str, float]:
            return _start_and_stop(peer, environment, interval)

        row = START_AND_STOP.format(interval)
        session.alternate(PART, row, rounds, 'start and stop', start_and_stop, only=(OURS, THE_OLDER))
    session.alternate(PART, AROUND_TRUE, rounds, 'command', _around_true)
    ours = session.environments[OURS.name]
    ways = {OURS.name: lambda: _around_true(OURS, ours), KEPT: lambda: _around_true_kept(ours)}
    session.take_turns(PART, AROUND_TRUE_KEPT, rounds, ways)
    session.alternate(PART, AROUND_SLEEP, session.rounds(_SLEEPING_ROUNDS, _QUICK_ROUNDS), 'command', _around_sleep)


def _import_time(peer: Peer, environment: Environment) -> dict[str, float]:
    """Return the seconds by which an interpreter that imports the peer takes longer than one that does not."""
    statement = peer.importing or f'import {peer.module}'
    differences = []
    with fresh_folder() as folder:
        for _ in range(_PAIRS):
            plain = _seconds([environment.python, '-c', 'pass'], folder, environment)
            differences.append(_seconds([environment.python, '-c', statement], folder, environment) - plain)
    return {'seconds': statistics.median(differences)}


def _start_and_stop(peer: Peer, environment: Environment, interval: float) -> dict[str, float]:
    implementation = 'this' if peer is OURS else 'older'
    seconds = _SHORTEST_TRACKING + random.random() * interval  # noqa: S311 - the phase at which stop is called
    with fresh_folder() as folder:
        program = str(PROGRAMS / 'start_stop.py')
        words = [environment.python, program, implementation, f'{interval:g}', f'{seconds:.3f}', str(folder)]
        printed = _run(words, folder, environment)
    times: dict[str, float] = json.loads(printed.splitlines()[-1])
    return times


def _around_true(peer: Peer, environment: Environment) -> dict[str, float]:
    with fresh_folder() as folder:
        run = Run([str(shutil.which('true'))], INTERVALS[0], folder)
        return {'seconds': _seconds(peer.command(environment, run), folder, environment)}


def _around_true_kept(environment: Environment) -> dict[str, float]:
    with fresh_folder() as folder:
        run = Run([str(shutil.which('true'))], INTERVALS[0], folder)
        program, *words = OURS.command(environment, run)
        kept = environment.variables(XDG_STATE_HOME=str(folder))
        return {'seconds': _seconds([program, '--keep', *words], folder, environment, kept)}


def _around_sleep(peer: Peer, environment: Environment) -> dict[str, float]:
    words = [str(shutil.which('sleep')), '1']
    with fresh_folder() as folder:
        plain = _seconds(words, folder, environment)
        run = Run(words, INTERVALS[0], folder)
        return {'seconds': _seconds(peer.command(environment, run), folder, environment) - plain}


def _seconds(
    words: list[str], folder: Path, environment: Environment, variables: dict[str, str] | None = None
) -> float:
    """Return how long a command takes."""
    start = time.perf_counter()
    _run(words, folder, environment, variables)
    return time.perf_counter() - start


def _run(words: list[str], folder: Path, environment: Environment, variables: dict[str, str] | None = None) -> str:
    """Run a command and return what it prints."""
    done = subprocess.run(
        words,
        check=False,
        cwd=folder,
        env=variables or environment.variables(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LONGEST,
    )
    if done.returncode != 0:
        raise FailedError((done.stderr.strip().splitlines() or [f'ended with {done.returncode}'])[-1])
    return done.stdout
