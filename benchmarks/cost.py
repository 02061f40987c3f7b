"""What a sample costs: CPU time and memory of the peer while the measured program does nothing or little."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.floor import NAME, floor_cost
from benchmarks.peers import OURS, THE_OLDER
from benchmarks.results import Gap
from benchmarks.running import Workload, sample_cost
from benchmarks.session import FailedError, progress

if TYPE_CHECKING:
    from benchmarks.environments import Environment
    from benchmarks.peers import Peer
    from benchmarks.session import Session

PART = 'cost'
INTERVAL = 0.1

SMALL = Workload('1 process, 50 MB', 'memory', 50)
LARGE = Workload('1 process, 2 GB', 'memory', 2000)
IDLE_50 = Workload('50 descendants, idle', 'idle', 50)
WORKING_50 = Workload('50 descendants, working', 'working', 50)
IDLE_300 = Workload('300 descendants, idle', 'idle', 300, window=4)
WORKING_300 = Workload('300 descendants, working', 'working', 300, window=4)
IDLE_1000 = Workload('1,000 descendants, idle', 'idle', 1000, window=8)
THREADS = Workload('1 process, 500 threads', 'threads', 500)

WORKLOADS = (SMALL, LARGE, IDLE_50, WORKING_50, IDLE_300, WORKING_300, IDLE_1000, THREADS)
_QUICK = tuple(replace(w, window=2) for w in (SMALL, LARGE, IDLE_50, WORKING_50, IDLE_300))
WITH_FLOOR = {w.name for w in (SMALL, IDLE_50, WORKING_50, IDLE_300, WORKING_300)}

LARGE_RUN = '1 process, 2 GB, over a run'
OVER_A_RUN = 'cpu a sample over a run'

_ROUNDS = 3
_WARM_UP = 1
_RUN = 30
_QUICK_RUN = 8
"""Seconds."""


def measure(session: Session) -> None:
    """Measure all workloads."""
    for workload in _QUICK if session.quick else WORKLOADS:
        if not session.wants(workload.name):
            continue

        def cost(peer: Peer, environment: Environment, workload: Workload = workload) -> dict[str, float]:
            return sample_cost(peer, environment, workload, INTERVAL, _WARM_UP)

        def floor(number: int, workload: Workload = workload) -> None:
            if workload.name in WITH_FLOOR:
                _floor(session, workload, number)

        session.alternate(PART, workload.name, session.rounds(_ROUNDS), 'samples', cost, after=floor)
    if session.wants(LARGE_RUN):
        _measure_runs(session)


def _measure_runs(session: Session) -> None:
    """Measure whole runs of ours and of the older implementation, from the start of the sampler on."""
    workload = replace(LARGE, window=_QUICK_RUN if session.quick else _RUN)

    def cost(peer: Peer, environment: Environment) -> dict[str, float]:
        return {OVER_A_RUN: sample_cost(peer, environment, workload, INTERVAL, _WARM_UP)[OVER_A_RUN]}

    session.alternate(PART, LARGE_RUN, session.rounds(_ROUNDS), 'samples', cost, only=(OURS, THE_OLDER))


def _floor(session: Session, workload: Workload, number: int) -> None:
    progress(f'{PART}: {workload.name}: {NAME}')
    try:
        session.results.add(PART, workload.name, NAME, number, floor_cost(workload, INTERVAL))
    except (FailedError, OSError) as error:
        session.results.gaps.append(Gap(PART, workload.name, NAME, str(error)))
