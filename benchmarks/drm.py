"""What it costs to read what processes have of AMD's, Intel's and other GPUs, and the table of it."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from benchmarks.arithmetic import median_of
from benchmarks.environments import CHECKOUT
from benchmarks.peers import OURS
from benchmarks.results import Gap
from benchmarks.running import fresh_folder
from benchmarks.session import FailedError, progress
from benchmarks.tables import Table, number

if TYPE_CHECKING:
    from benchmarks.environments import Environment
    from benchmarks.results import Results
    from benchmarks.session import Session

PART = 'drm'
ROWS = {
    'none': 'no descriptor of a GPU',
    'idle': 'a client each, which does nothing',
    'working': 'a client each, whose figures change',
    'shared': 'a client each with 20 descriptors, which does nothing',
    'clients': '20 clients each, whose figures change',
}
"""The first word of ``programs/drm_reading.py`` -> what the processes have."""

_PROGRAM = CHECKOUT / 'benchmarks' / 'programs' / 'drm_reading.py'
_PROCESSES = 100
_MANY_CLIENTS = 'clients'
_FEWER = 10
_READINGS = 200
_QUICK_READINGS = 20
_LONGEST = 300
_MICRO = 1e6


def measure(session: Session) -> None:
    """Measure each kind of processes in turn, again and again."""
    environment = session.environments[OURS.name]
    readings = _QUICK_READINGS if session.quick else _READINGS
    for round_number in range(session.rounds(5)):
        progress(f'{PART}: round {round_number + 1}')
        for kind, row in ROWS.items():
            if not session.wants(row):
                continue
            try:
                values = read(environment, kind, _FEWER if kind == _MANY_CLIENTS else _PROCESSES, readings)
            except FailedError as error:
                session.results.gaps.append(Gap(PART, row, OURS.name, str(error)))
            else:
                session.results.add(PART, row, OURS.name, round_number, values)


def read(environment: Environment, kind: str, processes: int, readings: int) -> dict[str, float]:
    """Return the CPU seconds of a process and reading.

    :raises FailedError: The program has failed.
    """
    with fresh_folder() as folder:
        words = [environment.python, str(_PROGRAM), kind, str(folder), str(processes), str(readings)]
        done = subprocess.run(
            words, env=environment.variables(), capture_output=True, text=True, timeout=_LONGEST, check=False
        )
    if done.returncode != 0:
        raise FailedError(done.stderr.strip().rpartition('\n')[2])
    values: dict[str, float] = json.loads(done.stdout)
    return values


def drm_table(results: Results) -> Table:
    """Return the table of what there are figures of."""
    rows = []
    for row in ROWS.values():
        rounds = results.rounds(PART, row, OURS.name, 'cpu')
        cpu = median_of(rounds)
        if cpu is not None:
            rows.append([row, number(cpu * _MICRO), str(len(rounds))])
    text = (
        f'CPU time of each of {_PROCESSES} processes ({_FEWER} where each has 20 clients), read as a run does at each '
        'sample. Files in memory stand in for those of amdgpu; what a driver itself does to write them comes on top.'
    )
    notes = [f'{gap.row}: {gap.reason}' for gap in results.gaps if gap.part == PART]
    return Table('drm: microseconds a process and sample', ['the processes have', 'µs', 'rounds'], rows, text, notes)
