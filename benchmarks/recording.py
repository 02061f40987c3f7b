"""What recording costs: the sampler's CPU time, the room of a week, and the microseconds of a region."""

from __future__ import annotations

import functools
import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Any

from benchmarks.peers import OURS, PEERS, THE_OLDER, Report, Run
from benchmarks.running import PROGRAMS, Workload, fresh_folder, sample_cost
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.environments import Environment
    from benchmarks.peers import Peer
    from benchmarks.session import Session

PART = 'recording'
A_SAMPLE = 'a sample each {:g} s'
INTERVALS = (0.1, 1)
WEEK = 'a week at 1 Hz'
REGIONS = 'regions'
RECORDED, AS_CSV = 'gpu-tracker, SQLite', 'gpu-tracker, CSV'
OLDER_CSV, OLDER_SQLITE = 'gpu-tracker 5.0.1, CSV', 'gpu-tracker 5.0.1, SQLite'
CON_DUCT = 'con-duct'
PEERS_MEASURED = tuple(peer for peer in PEERS if peer.name in {OURS.name, THE_OLDER.name, CON_DUCT})
WORKLOADS = (Workload('1 process', 'memory', 50), Workload('3 working descendants', 'working', 3))

_ROUNDS = 7
_QUICK_ROUNDS = 3
_WARM_UP = 3
_WINDOW = 10
_QUICK_WINDOW = 5
_SECONDS_OF_A_WEEK = 604_800
_LONGEST = 120
_RECORDED_FOR = '3'


class _With:
    """A peer that is given more options, and which keeps its samples in a file of its own."""

    def __init__(self, peer: Peer, file: str) -> None:
        self._peer = peer
        self._file = file

    def command(self, environment: Environment, run: Run) -> list[str]:
        """Return the words of the peer with the option for the file."""
        words = [word for word in self._peer.command(environment, run) if not word.startswith('--tf=')]
        return [words[0], f'--tf={run.folder / self._file}', *words[1:]]

    def report(self, run: Run, output: str) -> Report:
        """Return how often samples were taken: of ours by the record that it has without a recording as well."""
        if self._peer is OURS:
            return OURS.report(run, output)
        return self._recorded(run.folder / self._file)

    def _recorded(self, path: Path) -> Report:
        with closing(sqlite3.connect(path)) as connection:
            times = [time for (time,) in connection.execute('SELECT timestamp FROM data ORDER BY timestamp')]
        return Report(samples=len(times), seconds_sampled=times[-1] - times[0])


class _WithCsv(_With):
    def _recorded(self, path: Path) -> Report:
        lines = path.read_text().splitlines()[2:]
        place = lines[0].split(',').index('timestamp')
        times = [float(line.split(',')[place]) for line in lines[1:]]
        return Report(samples=len(times), seconds_sampled=times[-1] - times[0])


def measure(session: Session) -> None:
    """Measure all of it."""
    ours = session.environments[OURS.name]
    others = {peer.name: peer for peer in PEERS_MEASURED if peer.name in session.environments}
    rounds = session.rounds(_ROUNDS, _QUICK_ROUNDS)
    ways: dict[str, tuple[Peer | _With, Environment]] = {
        OURS.name: (OURS, ours),
        RECORDED: (_With(OURS, 'run.db'), ours),
        AS_CSV: (_WithCsv(OURS, 'run.csv'), ours),
    }
    if THE_OLDER.name in others:
        older = session.environments[THE_OLDER.name]
        ways[OLDER_CSV] = (_WithCsv(THE_OLDER, 'run.csv'), older)
        ways[OLDER_SQLITE] = (_With(THE_OLDER, 'run.sqlite'), older)
    if CON_DUCT in others:
        ways[CON_DUCT] = (others[CON_DUCT], session.environments[CON_DUCT])
    for interval in INTERVALS[: 1 if session.quick else None]:
        window = (_QUICK_WINDOW if session.quick else _WINDOW) * max(1, interval * 2)
        workload = Workload('1 process, 50 MB', 'memory', 50, window=window)
        measures = {name: functools.partial(_cost, *way, workload, interval) for name, way in ways.items()}
        session.take_turns(PART, A_SAMPLE.format(interval), rounds, measures)
    for workload in WORKLOADS:
        week = functools.partial(_week, ours, workload)
        session.take_turns(PART, f'{WEEK}, {workload.name}', 1, {RECORDED: week})
    programs = {OURS.name: functools.partial(_regions, ours, 'this')}
    if THE_OLDER.name in others:
        programs[THE_OLDER.name] = functools.partial(_regions, session.environments[THE_OLDER.name], 'older')
    session.take_turns(PART, REGIONS, rounds, programs)


def _cost(peer: Any, environment: Environment, workload: Workload, interval: float) -> dict[str, float]:  # noqa: ANN401
    costs = sample_cost(peer, environment, workload, interval, _WARM_UP)
    return {'cpu a sample': costs['cpu a sample'], 'share': costs['share']}


def _week(environment: Environment, workload: Workload) -> dict[str, float]:
    """Return the bytes of a week: the rows of a real run again and again, with counters that go on."""
    with fresh_folder() as folder:
        path = folder / 'run.db'
        words = [environment.program('gpu-tracker'), f'--tf={path}', '--st=0.05', '-o', str(folder / 'report')]
        program = [str(shutil.which('timeout')), _RECORDED_FOR, *workload.words(folder / 'ready')]
        subprocess.run([*words, '--', *program], check=False, capture_output=True, timeout=_LONGEST)
        return {'bytes': float(_fill(path))}


def _fill(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        columns = connection.execute('SELECT name, kind FROM columns ORDER BY position').fetchall()
        names = ', '.join(name for name, _ in columns)
        rows = connection.execute(f'SELECT t, {names} FROM samples ORDER BY t').fetchall()[5:]  # noqa: S608 - ours
        if not rows:
            raise FailedError('the run has no samples')
        counters = [kind == 'counter' for _, kind in columns]

        def row(second: int) -> list[int | None]:
            t, *values = rows[second % len(rows)]
            factor = second * 1e6 / max(t, 1)
            return [second * 1_000_000, *(
                int(value * factor) if counts and value else value
                for value, counts in zip(values, counters, strict=True)
            )]  # fmt: skip

        connection.execute('DELETE FROM samples')
        marks = ', '.join('?' * (len(columns) + 1))
        connection.executemany(f'INSERT INTO samples VALUES ({marks})', map(row, range(_SECONDS_OF_A_WEEK)))  # noqa: S608
        connection.commit()
    return path.stat().st_size


def _regions(environment: Environment, which: str) -> dict[str, float]:
    with fresh_folder() as folder:
        done = subprocess.run(
            [environment.python, str(PROGRAMS / 'regions.py'), which, str(folder)],
            check=False,
            cwd=folder,
            env=environment.variables(),
            capture_output=True,
            text=True,
            timeout=_LONGEST,
        )
    if done.returncode != 0:
        raise FailedError((done.stderr.strip().splitlines() or ['no figures'])[-1])
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures
