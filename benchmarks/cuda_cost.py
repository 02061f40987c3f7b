"""What a call takes longer that somebody looks at: a launch, an allocation, a free and a synchronisation."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.cuda_looking import NOBODY, able, looking
from benchmarks.cuda_stand_in import ENDBR64, PUSH, prologues, stand_in
from benchmarks.cuda_tracers import (
    BY_PERF,
    EMPTY,
    ENTRIES,
    JSON_LINES,
    PIECES,
    TOTALS,
    UPROBE_MULTI,
    WITH_BCC,
    Tracer,
)
from benchmarks.peers import OURS
from benchmarks.results import Gap
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.cuda_stand_in import Prologue, StandIn
    from benchmarks.environments import Environment
    from benchmarks.session import Session

CALLS = {
    'launch': 'cudaLaunchKernel',
    'malloc': 'cudaMalloc',
    'free': 'cudaFree',
    'synchronise': 'cudaStreamSynchronize',
}
TRACERS = (UPROBE_MULTI, BY_PERF, TOTALS, ENTRIES, EMPTY, JSON_LINES, WITH_BCC)

_ROUNDS = 5
_QUICK_ROUNDS = 3


@dataclass(frozen=True)
class Case:
    """A library, and how often each of its functions is called.

    :ivar calls: Launches and synchronisations; of allocations, which are then freed, half as many.
    :ivar pieces: The probe, doing one piece of its work twice.
    """

    prologue: Prologue
    calls: int = 60_000
    tracers: tuple[Tracer, ...] = TRACERS
    pieces: tuple[Tracer, ...] = ()

    @property
    def name(self) -> str:
        """As the tables call it."""
        return f'functions that begin with {self.prologue.name}'

    @property
    def first_calls(self) -> int:
        """Which are not counted: they find nothing in the processor's caches."""
        return max(2, self.calls // 20)

    @property
    def script(self) -> str:
        """What the program performs."""
        return '; '.join(
            f'launches {calls} axpy default 2 1 1 256 1 1; allocs {calls // 2} 1000; free_all; syncs {calls} default'
            for calls in (self.first_calls, self.calls)
        )


_OF_ENDBR64 = Case(ENDBR64, 20_000, tuple(tracer for tracer in TRACERS if tracer is not BY_PERF))
IN_PIECES = Case(PUSH, pieces=tuple(PIECES.values()))
CASES = (IN_PIECES, *([_OF_ENDBR64] if ENDBR64 in prologues() else []))


def measure(session: Session, part: str, cases: Sequence[Case]) -> None:
    """Measure all tracers in turn, and the program alone."""
    for case in cases:
        if not session.wants(case.name):
            continue
        try:
            with stand_in(case.prologue) as built:
                measures: dict[str, Callable[[], dict[str, float]]] = {
                    NOBODY: functools.partial(_seconds_a_call, None, session.environments[OURS.name], built, case)
                }
                for tracer, environment in able(session, (*case.tracers, *case.pieces)):
                    measures[tracer.name] = functools.partial(_seconds_a_call, tracer, environment, built, case)
                session.take_turns(part, case.name, session.rounds(_ROUNDS, _QUICK_ROUNDS), measures)
        except FailedError as error:
            session.results.gaps.append(Gap(part, case.name, NOBODY, str(error)))


def _seconds_a_call(tracer: Tracer | None, environment: Environment, built: StandIn, case: Case) -> dict[str, float]:
    """Return the CPU seconds that each call takes in the program's thread."""
    if tracer is BY_PERF:
        # The kernel lets go of perf events one by one, long after this: they are not to be in the others' library.
        with stand_in(case.prologue) as own:
            return _seconds(tracer, environment, own, case)
    return _seconds(tracer, environment, built, case)


def _seconds(tracer: Tracer | None, environment: Environment, built: StandIn, case: Case) -> dict[str, float]:
    with looking(tracer, environment, built, case.script) as looked_at:
        looked_at.program.go_on()
        looked_at.program.wait_until_waiting()
        last = {loop.call: loop for loop in looked_at.loops()}
        looked_at.finish()
    return {name: last[call].cpu / last[call].count for name, call in CALLS.items()}
