"""What tools measure of children that live briefly: their peak memory, divided by what it truly is."""

from __future__ import annotations

import json
import os
import random
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.peers import CON_DUCT, DENET, OURS, PSRECORD, THE_OLDER, Run
from benchmarks.results import Gap
from benchmarks.running import fresh_folder, output_of, started, wait_for_end
from benchmarks.session import FailedError, progress, reason_of
from benchmarks.short_children import (
    CASES,
    LIVES,
    Case,
    Shared,
    library_words,
    measured_sizes,
    program_words,
    shared_bytes,
    sizes_of_library,
    true_sizes,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.environments import Environment
    from benchmarks.peers import Peer
    from benchmarks.session import Session

PART = 'children'
PEERS = (OURS, THE_OLDER, PSRECORD, CON_DUCT, DENET)

_RUNS, _QUICK_RUNS = 50, 5
_RUNS_OF_PEERS, _QUICK_RUNS_OF_PEERS = 8, 2
_QUICK_LIVES = (0.1, 0.3, 1.0)
_QUICK_LIVES_OF_PEERS = (0.3,)
_QUIET = 0.5
"""Seconds for which a tree is quiet before the children, at least."""
_WIDEST_PHASE = 1.0
"""Seconds more, at most: the moment is spread evenly over a sampling interval, or over this part of it."""
_MORE_QUIET = {THE_OLDER: 1.0}
"""Seconds more until a peer is surely ready."""
_AT_ONCE = dict(zip(LIVES, (1, 1, 1, 2, 2), strict=True))
"""Runs a core that take place at once, by the life of the children: the longer they live, the less there is to do."""
_MOST_AT_ONCE = 8
_PEERS_AT_ONCE = {1.0: 4, 10.0: _MOST_AT_ONCE}
"""Runs of peers that take place at once, by the interval, of which they hardly do more than wait for the end."""


@dataclass(frozen=True)
class Way:
    """A tool and how it is used.

    :ivar library: Whether by its library in a Python program; otherwise by its command.
    """

    peer: Peer
    library: bool = False

    @property
    def name(self) -> str:
        """How the tables name it."""
        if self.peer not in {OURS, THE_OLDER}:
            return self.peer.name
        return f'{self.peer.name}, {"library" if self.library else "command"}'


OURS_BY_LIBRARY, OURS_BY_COMMAND = Way(OURS, library=True), Way(OURS)
WAYS = (
    OURS_BY_LIBRARY,
    OURS_BY_COMMAND,
    Way(THE_OLDER, library=True),
    Way(THE_OLDER),
    Way(CON_DUCT),
    Way(PSRECORD),
    Way(DENET),
)


def measure(session: Session) -> None:
    """Measure all ways in each case, one child or one batch of children a run."""
    shared: dict[tuple[int, bool], Shared] = {}
    for case in CASES:
        if not session.wants(case.row):
            continue
        for way in WAYS:
            if way.peer not in session.peers or (session.quick and not _is_quick(case, way)):
                continue
            try:
                key = (case.count, way.library)
                if key not in shared:
                    shared[key] = shared_bytes(session.environments[OURS.name], case.count, library=way.library)
            except (FailedError, OSError) as error:
                session.results.gaps.append(Gap(PART, case.row, way.name, str(error)))
            else:
                _measure_way(session, case, way, shared[key])


def _measure_way(session: Session, case: Case, way: Way, shared: Shared) -> None:
    """Run a case again and again, where possible several times at once; a way that fails is not tried again."""
    usual = (_RUNS, _QUICK_RUNS) if way.peer is OURS else (_RUNS_OF_PEERS, _QUICK_RUNS_OF_PEERS)
    runs = session.rounds(*usual)
    delays = random_delays(case, way, runs)
    lanes = _lanes(case, way)
    progress(f'{PART}: {case.row}: {way.name}, {runs} runs, {lanes} at once')
    environment = session.environments[way.peer.name]
    with ThreadPoolExecutor(lanes) as pool:
        planned = [pool.submit(_run, case, way, environment, delay, shared) for delay in delays]
        for number, run in enumerate(planned):
            try:
                session.results.add(PART, case.row, way.name, number, run.result())
            except Exception as error:  # noqa: BLE001 - whatever goes wrong with a peer must not end the others' run
                pool.shutdown(cancel_futures=True)
                progress(f'    failed: {reason_of(error)}')
                session.results.gaps.append(Gap(PART, case.row, way.name, reason_of(error)))
                return


def _is_quick(case: Case, way: Way) -> bool:
    """Tell whether a quick run has this; at the longest interval a peer would take 10 s for each end."""
    if way.peer is OURS:
        return case.life in _QUICK_LIVES
    return case.life in _QUICK_LIVES_OF_PEERS and case.interval <= 1


def random_delays(case: Case, way: Way, runs: int) -> list[float]:
    """Return the seconds after which children are started: at random moments of the interval, the same each time."""
    moments = random.Random(case.row)  # noqa: S311 - no secret
    quiet = _QUIET + _MORE_QUIET.get(way.peer, 0)
    width = min(case.interval, _WIDEST_PHASE)
    return [quiet + width * (number + moments.random()) / runs for number in moments.sample(range(runs), runs)]


def _lanes(case: Case, way: Way) -> int:
    if way.peer is not OURS and case.interval in _PEERS_AT_ONCE:
        return _PEERS_AT_ONCE[case.interval]
    return min(_MOST_AT_ONCE, _AT_ONCE[case.life] * (os.cpu_count() or 1))


def _run(case: Case, way: Way, environment: Environment, delay: float, shared: Shared) -> dict[str, float]:
    """Return what a tool measures in one run, and what is true."""
    with fresh_folder() as folder:
        notes, result = folder / 'notes', folder / 'result'
        notes.touch()
        if way.library:
            command = library_words(environment, case, str(notes), str(result), delay=delay)
        else:
            planned = Run(program_words(case, str(notes), delay=delay), case.interval, folder)
            command = way.peer.command(environment, planned)
        with started(command, folder, environment.variables(), uuid.uuid4().hex) as process:
            wait_for_end(process)
        if process.returncode != 0:
            raise FailedError(_last_line(folder) or f'ended with {process.returncode}')
        if way.library:
            measured, main = sizes_of_library(json.loads(result.read_text()))
            return measured | true_sizes(notes.read_text(), case.count, shared, main)
        true = true_sizes(notes.read_text(), case.count, shared, None)
        report = way.peer.report(planned, output_of(folder))
        return measured_sizes(report.descendants_bytes, report.peak_bytes) | true


def _last_line(folder: Path) -> str:
    return (output_of(folder).strip().splitlines() or [''])[-1].strip()


def ratios(measured: Mapping[int, float], true: Mapping[int, float]) -> Sequence[float]:
    """Return, in order, the measured sizes divided by the true ones, of the runs that have both."""
    return sorted(size / true[number] for number, size in measured.items() if number in true)
