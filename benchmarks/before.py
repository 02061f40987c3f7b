"""What a sample costs in this checkout and in an earlier revision of it, measured in turn."""

from __future__ import annotations

import contextlib
import functools
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import cost
from benchmarks.arithmetic import median_interval, median_of, ratios_of
from benchmarks.environments import CHECKOUT, UnavailableError
from benchmarks.idle_monitors import other_processes
from benchmarks.peers import BEFORE, OURS
from benchmarks.results import Gap
from benchmarks.running import Workload, sample_cost
from benchmarks.session import FailedError
from benchmarks.tables import DASH, Table, number

if TYPE_CHECKING:
    from benchmarks.results import Results
    from benchmarks.session import Session

PART = 'before'
FOREIGN = Workload('1 process, idle; 1,000 foreign ones, and 15 foreign forks a second', 'idle', 0)
_FOREIGN_PROCESSES, _FOREIGN_FORKS = 1000, 15
_QUICK = (cost.SMALL, cost.LARGE, cost.IDLE_50, cost.WORKING_50, cost.IDLE_300, FOREIGN)
_ROUNDS, _QUICK_ROUNDS = 10, 6
_WINDOW, _QUICK_WINDOW = 5, 2
"""Seconds for which each is looked at, where the workload does not want more."""
_WARM_UP = 1
_TOLERATED = 1.05
_MILLI = 1000
_ANSWERS = {True: '**yes**', False: 'no', None: 'unclear'}
_TEXT = (
    'At 0.1 s, both revisions in turn; each is first every other round. Ratio: the median of the ratios of the same '
    'rounds, with its 95 % interval by the sign test, for which it takes 6 rounds. Worse: yes where the interval lies '
    'above 1.05, unclear where a part of it does.'
)


def put_files_there(revision: str) -> str:
    """Put the files of a revision where :data:`BEFORE` is installed from, and return its short name.

    :raises UnavailableError: where there is no such revision.
    """
    name = _git('rev-parse', '--short', '--verify', '--quiet', f'{revision}^{{commit}}', said=f'{revision} is none')
    folder = BEFORE.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.NamedTemporaryFile(suffix='.tar') as archive:
        _git('archive', f'--output={archive.name}', name, said='its files cannot be had')
        with tarfile.open(archive.name) as files:
            files.extractall(folder, filter='data')
    return name


def _git(*words: str, said: str) -> str:
    try:
        done = subprocess.run(['git', '-C', str(CHECKOUT), *words], check=True, capture_output=True, text=True)
    except OSError as error:
        raise UnavailableError(f'git cannot be run: {error}') from error
    except subprocess.CalledProcessError as error:
        raise UnavailableError(': '.join(filter(None, [said, error.stderr.strip()]))) from error
    return done.stdout.strip()


def measure(session: Session) -> None:
    """Measure both revisions with the workloads of the part ``cost``, and beside foreign processes."""
    for workload in (*cost.WORKLOADS, FOREIGN):
        if not session.wants(workload.name) or (session.quick and workload not in _QUICK):
            continue
        try:
            with contextlib.ExitStack() as stack:
                if workload is FOREIGN:
                    stack.enter_context(other_processes(_FOREIGN_PROCESSES, forks=_FOREIGN_FORKS))
                _measure(session, workload)
        except FailedError as error:
            session.results.gaps += [Gap(PART, workload.name, peer.name, str(error)) for peer in (OURS, BEFORE)]


def _measure(session: Session, workload: Workload) -> None:
    window = _QUICK_WINDOW if session.quick else max(_WINDOW, workload.window)
    looked_at = replace(workload, window=window)
    measures = {
        peer.name: functools.partial(
            sample_cost, peer, session.environments[peer.name], looked_at, cost.INTERVAL, _WARM_UP
        )
        for peer in (OURS, BEFORE)
    }
    session.take_turns(PART, workload.name, session.rounds(_ROUNDS, _QUICK_ROUNDS), measures)


def before_table(results: Results) -> Table:
    """Return the table of both revisions."""
    rows = []
    for row in results.rows(PART):
        now, then = (results.rounds(PART, row, peer.name, 'cpu a sample') for peer in (OURS, BEFORE))
        ratios = ratios_of(now, then)
        figures = [DASH if value is None else number(value * _MILLI) for value in (median_of(then), median_of(now))]
        ratio = f'{median(ratios):.3f}' if ratios else DASH
        rows.append([row, *figures, ratio, *_judged(median_interval(ratios)), str(len(ratios))])
    revision = results.versions.get(BEFORE.name, '')
    return Table(
        f'CPU milliseconds a sample, {revision} and this checkout',
        ['workload', 'before', 'now', 'ratio', 'interval', 'worse', 'rounds'],
        rows,
        _TEXT,
        [f'{DASH} {gap.peer}, {gap.row}: {gap.reason}' for gap in results.gaps if gap.part == PART],
    )


def _judged(interval: tuple[float, float] | None) -> list[str]:
    """Return an interval in words, and whether it is worse."""
    if interval is None:
        return [DASH, DASH]
    low, high = interval
    surely = low > _TOLERATED
    return [f'{low:.3f} to {high:.3f}', _ANSWERS[surely if surely or high <= _TOLERATED else None]]
