"""How soon somebody looks: at a command that is started, which waits for it, and at a process that runs."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING

from benchmarks.cuda_looking import NOBODY, able, counted_by, looking
from benchmarks.cuda_runs import begun, beside, command_file, wait_for_end
from benchmarks.cuda_stand_in import stand_in
from benchmarks.cuda_tracers import BY_PERF, TOTALS, UPROBE_MULTI, WITH_BCC, Place, Tracer
from benchmarks.peers import OURS
from benchmarks.results import Gap
from benchmarks.running import fresh_folder
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.cuda_stand_in import StandIn
    from benchmarks.environments import Environment
    from benchmarks.session import Session

STARTING = 'a command begins'
ATTACHING = 'the first call of a running process is counted'
TRACERS = (UPROBE_MULTI, BY_PERF, TOTALS, WITH_BCC)
ATTACHERS = (UPROBE_MULTI, TOTALS, WITH_BCC)

_ROUNDS = 5
_QUICK_ROUNDS = 3
_RATE = 10_000
_SECONDS = 4.0


def measure(session: Session, part: str, seconds: float = _SECONDS, tracers: Sequence[Tracer] = TRACERS) -> None:
    """Measure all tracers in turn.

    :param seconds: For which a process runs that is to be attached to.
    """
    ours = session.environments[OURS.name]
    try:
        with stand_in() as built:
            starts: dict[str, Callable[[], dict[str, float]]] = {NOBODY: functools.partial(_started, None, ours, built)}
            attaches: dict[str, Callable[[], dict[str, float]]] = {}
            for tracer, environment in able(session, tracers):
                starts[tracer.name] = functools.partial(_started, tracer, environment, built)
                if tracer in ATTACHERS:
                    attaches[tracer.name] = functools.partial(_attached, tracer, environment, built, seconds)
            once = {name: starts.pop(name) for name in (BY_PERF.name,) if name in starts}
            session.take_turns(part, STARTING, session.rounds(_ROUNDS, _QUICK_ROUNDS), starts)
            session.take_turns(part, STARTING, 1, once)  # it may take half a minute to end
            session.take_turns(part, ATTACHING, session.rounds(_ROUNDS), attaches)
    except FailedError as error:
        session.results.gaps += [Gap(part, row, OURS.name, str(error)) for row in (STARTING, ATTACHING)]


def _started(tracer: Tracer | None, environment: Environment, built: StandIn) -> dict[str, float]:
    with looking(tracer, environment, built, 'launch axpy default 1 1 1 1 1 1') as looked_at:
        looked_at.program.go_on()
        looked_at.program.wait_until_waiting()
        begin = time.monotonic()
        counted = looked_at.finish()
        end = time.monotonic() - begin
        if counted is not None and counted.launches != 1:
            raise FailedError('has not seen the first launch of the command')
        return {'seconds': looked_at.seconds, 'end': end}


def _attached(tracer: Tracer, environment: Environment, built: StandIn, seconds: float) -> dict[str, float]:
    """Return the time until the first call is counted: the calls before it are those that are missing in the end."""
    calls = int(_RATE * seconds)
    with fresh_folder() as folder:
        place = Place(environment, built.library, folder)
        script = f'wait; pace {_RATE}; launches {calls} axpy default 2 1 1 256 1 1; wait'
        command = command_file(folder, built.program, script)
        with begun(['/bin/sh', str(command)], folder, environment.variables()) as program:
            program.wait_until_waiting()
            words, variables = tracer.at(place, program.pid), environment.variables(**tracer.variables(place))
            program.go_on()
            with beside(words, folder, variables) as process:
                program.wait_until_waiting()
                program.finish()
                wait_for_end(process)
        counted = counted_by(tracer, place).launches
    if not counted:
        raise FailedError(f'has not counted a call within {seconds:g} s')
    return {'seconds': (calls - counted) / _RATE}
