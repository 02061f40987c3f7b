"""How the cost of a sample grows: with processes, threads, memory, and the length of a run."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.peers import OURS, THE_OLDER, Run
from benchmarks.processes import cpu_seconds, marked, memory
from benchmarks.results import Gap
from benchmarks.running import Workload, fresh_folder, output_of, sample_cost, started, wait_for_end, wait_until_ready
from benchmarks.session import FailedError, progress

if TYPE_CHECKING:
    from benchmarks.environments import Environment
    from benchmarks.peers import Peer
    from benchmarks.session import Session

PART = 'scale'
INTERVAL = 0.1
RUN_LENGTH = 'length of a run'

_WARM_UP = 1
_MEGABYTE = 10**6
_SPARE = 2
"""The machine has to have this many times as much memory as a workload takes."""

WORKLOADS = (
    *(Workload(f'{number:,} idle descendants', 'idle', number) for number in (2, 10, 100)),
    *(Workload(f'{number:,} idle descendants', 'idle', number, 6) for number in (500, 1000, 2000)),
    *(Workload(f'{number:,} working descendants', 'working', number) for number in (2, 10, 100)),
    Workload('500 working descendants', 'working', 500, 6),
    *(Workload(f'{number:,} threads', 'threads', number) for number in (2, 10, 100, 1000)),
    *(Workload(f'{number:,} MB', 'memory', number) for number in (50, 500, 2000, 8000)),
)
_QUICK = tuple(replace(w, window=2) for w in WORKLOADS if w.number in {100, 500, 1000} and w.kind != 'working')

_SHORT_INTERVAL = 0.002
_MARKS = (1_000, 10_000, 50_000, 100_000)
_QUICK_MARKS = (1_000, 5_000)
_TOO_LONG = 'samples each 0.1 s at most, so that 100,000 samples would take 3 hours'


def measure(session: Session) -> None:
    """Measure ours and the older implementation; the other peers are in the part cost."""
    for workload in _QUICK if session.quick else WORKLOADS:
        if not session.wants(workload.name):
            continue
        if workload.kind == 'memory' and _available() < workload.number * _MEGABYTE * _SPARE:
            session.results.gaps.append(Gap(PART, workload.name, OURS.name, 'the machine has too little memory'))
            continue

        def cost(peer: Peer, environment: Environment, workload: Workload = workload) -> dict[str, float]:
            return sample_cost(peer, environment, workload, INTERVAL, _WARM_UP)

        session.alternate(PART, workload.name, session.rounds(1), 'samples', cost, only=(OURS, THE_OLDER))
    if session.wants(RUN_LENGTH):
        _run_length(session)


def _run_length(session: Session) -> None:
    """Keep what the sampler holds after so many samples."""
    marks = _QUICK_MARKS if session.quick else _MARKS
    progress(f'{PART}: {RUN_LENGTH}, {marks[-1]:,} samples')
    session.results.gaps.append(Gap(PART, RUN_LENGTH, THE_OLDER.name, _TOO_LONG))
    try:
        values = _memory_over_a_run(OURS, session.environments[OURS.name], marks)
    except (FailedError, OSError, KeyError) as error:
        session.results.gaps.append(Gap(PART, RUN_LENGTH, OURS.name, str(error)))
    else:
        session.results.add(PART, RUN_LENGTH, OURS.name, 0, values)


def _memory_over_a_run(peer: Peer, environment: Environment, marks: tuple[int, ...]) -> dict[str, float]:
    mark = uuid.uuid4().hex
    workload = Workload(RUN_LENGTH, 'idle', 1)
    values = {}
    with fresh_folder() as folder:
        ready = folder / 'ready'
        run = Run(workload.words(ready), _SHORT_INTERVAL, folder)
        with started(peer.command(environment, run), folder, environment.variables(), mark) as command:
            root = wait_until_ready(ready, command, folder)
            start = time.monotonic()
            try:
                for samples in marks:
                    time.sleep(max(0, start + samples * _SHORT_INTERVAL - time.monotonic()))
                    sampler = max(marked(mark), key=lambda pid: cpu_seconds(pid) or 0)
                    size = memory(sampler)
                    if size is not None:
                        values[f'uss after {samples}'] = float(size.private)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(root, signal.SIGTERM)
            wait_for_end(command)
        taken = peer.report(run, output_of(folder)).samples
    return values if taken is None else values | {'samples': float(taken)}


def _available() -> int:
    """Return the bytes of memory that programs could take now."""
    with open('/proc/meminfo', encoding='ascii') as file:
        text = file.read()
    return int(text.partition('MemAvailable:')[2].split()[0]) * 1024
