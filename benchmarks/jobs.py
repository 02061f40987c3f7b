"""What jobs cost: one report of the records of many ranks, and ``--job`` for each of them."""

from __future__ import annotations

import functools
import json
import shutil
from typing import TYPE_CHECKING, Any

from benchmarks.peers import OURS
from benchmarks.running import PROGRAMS, fresh_folder
from benchmarks.session import FailedError, progress
from benchmarks.timing import timed

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.environments import Environment
    from benchmarks.session import Session

PART = 'jobs'
REPORTS = '{:,} ranks, reports only'
RECORDINGS = '{:,} ranks with recordings'
RANK = 'a rank whose command is true'
NUMBERS = (10, 1000, 10_000)
"""Of ranks."""
RECORDED = 1000
WITH_JSON, WITH_SQLITE = 'json in a loop', 'json and sqlite3 in loops'
WITH_JOB, WITH_REPORT = 'gpu-tracker --job=D', 'gpu-tracker -f json -o F'

_ROUNDS = 10
_QUICK_ROUNDS = 3
_ROUNDS_OF_A_RANK = 20
_QUICK_ROUNDS_OF_A_RANK = 10
_SECONDS = 10.0
_QUICK_SECONDS = 2.0
_SAMPLING = 0.02
_RANKS_OF_A_NODE = 8
_LONGEST = 120
"""Seconds that a command may take."""


def measure(session: Session) -> None:
    """Measure reports, recordings and the cost of a rank."""
    environment = session.environments[OURS.name]
    rounds = session.rounds(_ROUNDS, _QUICK_ROUNDS)
    with fresh_folder() as folder:
        progress(f'{PART}: a rank to copy')
        seed = recorded_rank(environment, folder / 'seed', _QUICK_SECONDS if session.quick else _SECONDS)
        for number in NUMBERS:
            if not session.wants(REPORTS.format(number)):
                continue
            job = copies(seed, folder / 'reports', number, with_recordings=False)
            ways = {OURS.name: 'merge', WITH_JSON: 'json'}
            session.take_turns(PART, REPORTS.format(number), rounds, _readings(environment, job, number, ways))
        if session.wants(RECORDINGS.format(RECORDED)):
            job = copies(seed, folder / 'recordings', RECORDED, with_recordings=True)
            ways = {OURS.name: 'merge-recordings', WITH_JSON: 'json', WITH_SQLITE: 'json-sqlite'}
            session.take_turns(PART, RECORDINGS.format(RECORDED), rounds, _readings(environment, job, RECORDED, ways))
    rounds = session.rounds(_ROUNDS_OF_A_RANK, _QUICK_ROUNDS_OF_A_RANK)
    options = {WITH_JOB: ['--job=D'], WITH_REPORT: ['-f', 'json', '-o', 'F']}
    ranks = {name: functools.partial(cost_of_a_rank, environment, words) for name, words in options.items()}
    session.take_turns(PART, RANK, rounds, ranks)


def recorded_rank(environment: Environment, folder: Path, seconds: float) -> Path:
    """Return the folder of a job of one rank that has really run, with regions and a recording of many samples."""
    program = [environment.python, str(PROGRAMS / 'steps.py'), f'{seconds:g}']
    words = [environment.program('gpu-tracker'), f'--job={folder / "job"}', f'--st={_SAMPLING:g}', '--', *program]
    folder.mkdir()
    timed(words, folder, environment.variables(), _LONGEST)
    return folder / 'job'


def copies(seed: Path, folder: Path, number: int, *, with_recordings: bool) -> Path:
    """Return the folder of a job of so many ranks, each of which has written what the first one has.

    :param folder: It is made anew.
    """
    (report,) = (path for path in seed.glob('*.json') if not path.name.endswith('.start.json'))
    (recording,) = seed.glob('*.db')
    start: dict[str, Any] = json.loads(report.with_suffix('.start.json').read_text())
    end: dict[str, Any] = json.loads(report.read_text())
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for rank in range(number):
        node = f'n{rank // _RANKS_OF_A_NODE}'
        place = {'launcher': 'slurm', 'job': '4711', 'step': '0', 'rank': rank, 'size': number, 'node': node}
        changes = {'job': place, 'host': node, 'machine': f'boot-of-{node}'}
        name = f'rank-{rank:04}-{node}-{1000 + rank}-00000000'
        (folder / f'{name}.start.json').write_text(json.dumps(start | changes))
        (folder / f'{name}.json').write_text(json.dumps(end | changes))
        if with_recordings:
            shutil.copyfile(recording, folder / f'{name}.db')
    return folder


def _readings(environment: Environment, job: Path, number: int, ways: dict[str, str]) -> dict[str, Any]:
    return {name: functools.partial(read, environment, job, number, how) for name, how in ways.items()}


def read(environment: Environment, job: Path, number: int, how: str) -> dict[str, float]:
    """Return what it costs to read the folder of a job, in one of the ways of ``programs/read_job.py``."""
    with fresh_folder() as folder:
        words = [environment.python, str(PROGRAMS / 'read_job.py'), how, str(job)]
        done = timed(words, folder, environment.variables(), _LONGEST)
    found = json.loads(done.output.splitlines()[-1])
    if found['ranks'] != number:
        raise FailedError(f'found {found["ranks"]} of {number} ranks')
    return {'seconds': done.seconds, 'cpu': done.cpu, 'peak': float(found['peak'])}


def cost_of_a_rank(environment: Environment, options: list[str]) -> dict[str, float]:
    """Return the seconds and CPU seconds of gpu-tracker around a command that ends at once."""
    tracker = [environment.program('gpu-tracker'), *options, '--', str(shutil.which('true'))]
    with fresh_folder() as folder:
        words = [environment.python, str(PROGRAMS / 'all_cpu.py'), *tracker]
        done = timed(words, folder, environment.variables(), _LONGEST)
    found: dict[str, float] = json.loads(done.output.splitlines()[-1])
    return found
