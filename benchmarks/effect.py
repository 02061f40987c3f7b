"""What being measured does to a program: it takes its own time, with and without a tracker around it.

A tracker changes nothing in the program that it measures, neither around a command nor by a pid. But both share the
cores and the caches of the machine.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.environments import base_python
from benchmarks.peers import OURS, THE_OLDER, Run
from benchmarks.results import Gap
from benchmarks.running import PROGRAMS, fresh_folder
from benchmarks.session import progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.peers import Peer
    from benchmarks.results import Results
    from benchmarks.session import Session

PART = 'effect'
PLAIN = 'plain'
BY_PID = f'{OURS.name}, by its pid'
INTERVAL = 0.1


class Program(NamedTuple):
    """What ``programs/timed.py`` is to do; the repetitions take about 1.5 seconds."""

    name: str
    kind: str
    repetitions: int


PROGRAMS_MEASURED = (
    Program('touches new pages all the time', 'page-faults', 43),
    Program('forks all the time', 'forks', 1500),
    Program('starts programs all the time', 'programs', 2400),
    Program('switches between two processes all the time', 'processes', 140),
    Program('switches between two threads all the time', 'threads', 200),
    Program('computes', 'computing', 330),
)
_ROUNDS = 20
_QUICK_ROUNDS = 3
_LONGEST = 60


def measure(session: Session) -> None:
    """Measure each program plain, with ours around it and by its pid, and with the older implementation, in turn."""
    around = {PLAIN: None, BY_PID: None, **{peer.name: peer for peer in session.peers if peer in {OURS, THE_OLDER}}}
    names = list(around)
    rounds = session.rounds(_ROUNDS, _QUICK_ROUNDS)
    for program in PROGRAMS_MEASURED:
        if not session.wants(program.name):
            continue
        for number in range(rounds):
            progress(f'{PART}: {program.name}, round {number + 1} of {rounds}')
            turn = number % len(names)
            for name in [*names[turn:], *names[:turn]]:
                try:
                    times = _own_times(session, program, around[name], by_pid=name == BY_PID)
                except (OSError, ValueError, subprocess.SubprocessError) as error:
                    session.results.gaps.append(Gap(PART, program.name, name, str(error)))
                else:
                    session.results.add(PART, program.name, name, number, times)


def added_percent(results: Results, row: str, peer: str, kind: str = 'seconds') -> Mapping[int, float]:
    """Return, a round each, by how many percent of its plain time the program took longer with the peer.

    :param kind: ``seconds`` or ``cpu``, the CPU time of the program and its children.
    """
    plain = results.rounds(PART, row, PLAIN, kind)
    measured = results.rounds(PART, row, peer, kind)
    return {n: (measured[n] - plain[n]) / plain[n] * 100 for n in measured if n in plain}


def _own_times(session: Session, program: Program, peer: Peer | None, *, by_pid: bool) -> dict[str, float]:
    """Return the seconds and CPU seconds that the program itself says it took."""
    with fresh_folder() as folder:
        file = folder / 'seconds'
        words = [base_python(), '-I', str(PROGRAMS / 'timed.py'), program.kind, str(program.repetitions), str(file)]
        environment = session.environments[OURS.name if peer is None else peer.name]
        command = words if peer is None else peer.command(environment, Run(words, INTERVAL, folder))
        if by_pid:
            command = [environment.python, str(PROGRAMS / 'attached.py'), f'{INTERVAL:g}', *words]
        subprocess.run(
            command,
            check=True,
            cwd=folder,
            env=environment.variables(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LONGEST,
        )
        times: dict[str, float] = json.loads(file.read_text())
        return times
