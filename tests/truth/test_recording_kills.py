"""Kills at random moments: no committed row is lost, and what is missing is no more than the last two seconds.

``GPU_TRACKER_TEST_KILLS`` has more of them made than the suite does: 500 take half an hour.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from gpu_tracker.processes import SAMPLER_MARK
from support.cli_program import PROGRAM, Marked
from support.recorder_runs import meta_of, rows_of
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KILLS = int(os.environ.get('GPU_TRACKER_TEST_KILLS', '20'))
COMMITTED = 2.0
"""Seconds after which what was measured is in the file."""
SLACK = 1.5
"""Seconds by which a sampler may be late on a busy machine."""
LONGEST = 4.0
"""Seconds within which the moment of a kill lies: two commits."""

# Writes a region every 20 ms, as a program with regions does.
REGIONS = """
import os, time
log = os.open(os.environ['GPU_TRACKER_REGIONS'], os.O_WRONLY | os.O_APPEND)
number = 0
while True:
    number += 1
    text = f'B\\t{number}\\t-\\t{os.getpid()}\\t1\\t-\\t{time.monotonic_ns()}\\t-\\t-\\tstep\\t-\\n'
    os.write(log, text.encode())
    time.sleep(0.02)
    os.write(log, f'E\\t{number}\\t{time.monotonic_ns()}\\t-\\t-\\t-\\n'.encode())
"""


class Recorded(NamedTuple):
    """A run that is being recorded."""

    path: Path
    launcher: subprocess.Popen[bytes]
    sampler: int

    def rows(self) -> set[tuple[object, ...]]:
        return set(rows_of(self.path, 'SELECT * FROM samples'))


@contextmanager
def recorded(path: Path) -> Iterator[Recorded]:
    marked = Marked()
    launcher = subprocess.Popen(
        [*PROGRAM, f'--tf={path}', '--st=0.02', '--', sys.executable, '-c', REGIONS],
        env=marked.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        eventually(lambda: path.exists() and os.path.getsize(path) and 'totals' in meta_of(path))
        [sampler] = marked.processes(SAMPLER_MARK)  # what has started it, and is named so too, has ended
        yield Recorded(path, launcher, sampler)
    finally:
        marked.kill()
        eventually(lambda: not marked.processes())
        launcher.wait(TIMEOUT)


def check(path: Path, before: set[tuple[object, ...]], killed: float) -> None:
    """Check that the file has what it had before, and what was measured until two seconds before the kill."""
    assert rows_of(path, 'PRAGMA integrity_check') == [('ok',)]
    after = set(rows_of(path, 'SELECT * FROM samples'))
    assert before <= after
    meta = meta_of(path)
    assert json.loads(meta['totals'])['samples'] <= len(after)
    until = killed - meta['start_monotonic_us'] * 1e-6
    assert max(row[0] for row in after) * 1e-6 >= until - COMMITTED - SLACK
    [(regions, last)] = rows_of(path, 'SELECT count(*), max(start) FROM regions')
    if until > COMMITTED + 2 * SLACK:
        assert last * 1e-6 >= until - COMMITTED - SLACK
    assert rows_of(path, 'SELECT count(*) FROM regions WHERE stop IS NULL')[0][0] <= 1
    assert [id_ for (id_,) in rows_of(path, 'SELECT id FROM regions')] == list(range(1, regions + 1))


@pytest.mark.parametrize('number', range(KILLS))
def test_a_kill_at_any_moment_loses_nothing_but_the_last_two_seconds(tmp_path: Path, number: int) -> None:
    path = tmp_path / 'run.db'
    victims = ('sampler', 'launcher', 'both')[number % 3]
    with recorded(path) as run:
        time.sleep(random.uniform(0, LONGEST))  # noqa: S311 - a moment
        before = run.rows()
        killed = time.monotonic()  # before it is done: afterwards this process may stand still
        if victims != 'launcher':
            os.kill(run.sampler, signal.SIGKILL)
        if victims != 'sampler':
            run.launcher.kill()
        eventually(lambda: not os.path.exists(f'/proc/{run.sampler}'))
        if victims == 'launcher':  # then the sampler has completed what it had
            assert meta_of(path)['ended'] == 'abandoned'
            assert not path.with_name('run.db-journal').exists()
        else:
            assert 'ended' not in meta_of(path)
        check(path, before, killed)


def test_a_copy_of_a_moment_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    with recorded(path) as run:
        for number in range(KILLS):
            time.sleep(random.uniform(0, 0.5))  # noqa: S311 - a moment
            before = run.rows()
            moment = time.monotonic()
            os.kill(run.sampler, signal.SIGSTOP)  # the moment is one for both files
            try:
                eventually(lambda: 'T (stopped)' in status(run.sampler))
                copy = tmp_path / f'copy{number}.db'
                for suffix in ('', '-journal'):
                    if os.path.exists(f'{path}{suffix}'):
                        shutil.copyfile(f'{path}{suffix}', f'{copy}{suffix}')
            finally:
                os.kill(run.sampler, signal.SIGCONT)
            check(copy, before, moment)


def status(pid: int) -> str:
    with open(f'/proc/{pid}/status', encoding='ascii') as file:
        return file.read()
