"""What is lost of launches that come fast, and what the tracer itself uses meanwhile."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.cuda_looking import able, looking
from benchmarks.cuda_stand_in import stand_in
from benchmarks.cuda_tracers import JSON_LINES, TOTALS, UPROBE_MULTI, WITH_BCC, Tracer
from benchmarks.peers import OURS
from benchmarks.results import Gap
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.cuda_stand_in import StandIn
    from benchmarks.environments import Environment
    from benchmarks.session import Session

TRACERS = (UPROBE_MULTI, TOTALS, JSON_LINES, WITH_BCC)

_ROUNDS = 3
_SETTLE = 1.0
"""Seconds after the last call, in which a tracer reads what has come."""


@dataclass(frozen=True)
class Case:
    """Launches that come so often.

    :ivar rate: Launches a second that are wanted; a program that is slowed down too much has fewer.
    :ivar threads: Which launch together so many.
    """

    rate: int
    seconds: int = 1
    threads: int = 1

    @property
    def name(self) -> str:
        """As the tables call it."""
        return f'{self.rate:,} launches a second'

    @property
    def script(self) -> str:
        """What the program performs."""
        pace = self.rate // self.threads
        launches = f'pace {pace}; launches {pace * self.seconds} axpy default 2 1 1 256 1 1'
        return launches if self.threads == 1 else f'threads {self.threads} {{ {launches} }}'


LONG = Case(100_000, 5)
"""In which the tracer's own use is looked at."""
CASES = (Case(10_000), Case(50_000), LONG, Case(200_000), Case(500_000), Case(1_000_000, threads=2))


def measure(session: Session, part: str, cases: Sequence[Case], tracers: Sequence[Tracer] = TRACERS) -> None:
    """Measure all tracers at each rate, in turn."""
    try:
        with stand_in() as built:
            for case in cases:
                measures = {
                    tracer.name: functools.partial(_figures, tracer, environment, built, case)
                    for tracer, environment in able(session, tracers)
                }
                session.take_turns(part, case.name, session.rounds(_ROUNDS), measures)
    except FailedError as error:
        session.results.gaps += [Gap(part, case.name, OURS.name, str(error)) for case in cases]


def _figures(tracer: Tracer, environment: Environment, built: StandIn, case: Case) -> dict[str, float]:
    launches = case.rate * case.seconds
    with looking(tracer, environment, built, case.script) as looked_at:
        at_rest = looked_at.memory()['rss']
        before = looked_at.cpu()
        looked_at.program.go_on()
        looked_at.program.wait_until_waiting()
        time.sleep(_SETTLE)
        used = looked_at.cpu() - before
        held = looked_at.memory()
        loops = looked_at.loops()
        counted = looked_at.finish()
    if counted is None:
        raise FailedError('has told nothing')
    rate = sum(loop.count / loop.seconds for loop in loops)
    figures = {'rate': rate, 'cpu': used, 'missed': 1 - counted.launches / launches, 'rss at rest': at_rest, **held}
    return figures if counted.events_lost is None else figures | {'lost': counted.events_lost / launches}
