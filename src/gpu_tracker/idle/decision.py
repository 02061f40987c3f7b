"""Which programs are started and stopped after a poll: pure functions.

The rules; an earlier rule overrides a later one (also in ``docs/``):

1. When the monitor ends, all programs are stopped.
2. While a user is active, all programs are stopped. When no user is active any more, the idle times of GPUs are counted
   from 0.
3. If a GPU is in use by others, busy or gone, the program on the GPU is stopped. When the GPU is idle again, the GPU's
   idle time is counted from 0.
4. If a program is removed from the file, the program is stopped. If the program's ``gpus``, ``cmd``, ``dir``,
   ``log``, ``env``, ``user`` or ``use_uuids`` change, the program is stopped and starts again at once. Changes of other
   keys stop no program.
5. A program that ends by itself rests for ``restart_backoff_seconds`` before the next start. After exit code 0, the
   program rests at most ``interval_seconds``. Each failure doubles the next rest, up to 300 s. After exit code 0, after
   a run of at least 300 s or when the program's keys change, the rest is ``restart_backoff_seconds`` again.
6. When all GPUs have been idle long enough for a program with ``gpus=ALL``, this program starts. Programs with numbers
   in ``gpus`` are stopped first, and do not start while the program with ``gpus=ALL`` rests.
   If several programs with ``gpus=ALL`` could start, the first in the file starts.
7. If the last run of a program with ``gpus=ALL`` failed within 300 s or lasted less than 2 s, rule 6 does not apply.
   The program with ``gpus=ALL`` then waits until the monitor runs no other program.
8. A program with numbers in ``gpus`` starts when all its GPUs have been idle long enough and run no other program of
   the monitor. If several programs could start on a GPU, the first in the file starts.

The idle time of a GPU counts from the first of the polls that have shown it idle, and no user active, without a break.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from gpu_tracker.idle.state import Run, State, starts_alike, with_observation
from gpu_tracker.idle.waiting import gpus_in_words, gpus_of, in_use, next_for_all, rejection, resting, waiting
from gpu_tracker.idle.wording import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.idle.config.idle_settings import Program
    from gpu_tracker.idle.state import Observation, WatchedGpu


class Start(NamedTuple):
    """A program is to be started."""

    program: Program
    gpus: tuple[WatchedGpu, ...]
    """In the order in which the program is to see them."""
    reason: str


class Stop(NamedTuple):
    """A program is to be stopped, with all that it has started."""

    name: str
    reason: str


Action: TypeAlias = Start | Stop


def decide(
    programs: Sequence[Program], state: State, observation: Observation, now: float
) -> tuple[State, tuple[Action, ...]]:
    """Return what is to be done after a poll, stops first, and the state in which all of it has been begun.

    A change of the configuration needs nothing but another ``programs``. Asked a second time about the same poll, it
    finds nothing to do.

    :param programs: All that are configured, in the file's order, each with a name of its own.
    :param now: When the poll was made, in seconds of monotonic time; not before the poll that ``state`` rests on.
    """
    state = with_observation(state, programs, observation, now)
    state, stops = _stopped(programs, state, observation, now)
    state, starts = _started(programs, state, observation, now)
    return state, (*stops, *starts)


def stop_all(state: State, reason: str, now: float) -> tuple[State, tuple[Stop, ...]]:
    """Return the stops of all programs, and a state after which none is ever started: the monitor ends.

    :param reason: Why, in words, such as ``SIGTERM``.
    :param now: Seconds of monotonic time.
    """
    stops = [Stop(name, f'the monitor ends: {reason}') for name, run in state.runs.items() if run.stopping is None]
    return replace(_stopping(state, stops, now), closing=reason), tuple(stops)


def _stopped(
    programs: Sequence[Program], state: State, observation: Observation, now: float
) -> tuple[State, tuple[Stop, ...]]:
    stops = [
        Stop(name, reason)
        for name, run in state.runs.items()
        if run.stopping is None and (reason := _why_to_stop(run, programs, observation)) is not None
    ]
    state = _stopping(state, stops, now)
    first = next_for_all(programs, state, observation, now)
    if first is None or resting(first, state, now) is not None:
        return state, tuple(stops)
    leaving = [Stop(name, f'makes room for {first.name}') for name, run in state.runs.items() if run.stopping is None]
    return _stopping(state, leaving, now), (*stops, *leaving)


def _why_to_stop(run: Run, programs: Sequence[Program], observation: Observation) -> str | None:
    return in_use(observation) or rejection(run.gpus, observation) or _change(run.program, programs)


def _change(program: Program, programs: Sequence[Program]) -> str | None:
    configured = next((other for other in programs if other.name == program.name), None)
    if configured is None:
        return 'no longer configured'
    return None if starts_alike(program, configured) else 'its configuration has changed'


def _started(
    programs: Sequence[Program], state: State, observation: Observation, now: float
) -> tuple[State, tuple[Start, ...]]:
    seen = {one.gpu: one for one in observation.gpus}
    starts = []
    # Sorting is stable: those for all GPUs first, each kind in the file's order.
    for program in sorted(programs, key=lambda program: program.gpus is not None):
        if program.name in state.runs or waiting(program, programs, state, observation, now) is not None:
            continue
        gpus = gpus_of(program, observation)
        starts.append(Start(program, tuple(seen[gpu] for gpu in gpus), _why_to_start(program, state, observation, now)))
        state = replace(state, runs={**state.runs, program.name: Run(program, gpus, now)})
    return state, tuple(starts)


def _why_to_start(program: Program, state: State, observation: Observation, now: float) -> str:
    gpus = gpus_of(program, observation)
    idle = now - max(state.idle_since[gpu] for gpu in gpus)
    which = 'all GPUs' if program.gpus is None else gpus_in_words(gpus)
    return f'{which} idle' if idle < 1 else f'{which} idle for {duration(idle)}'


def _stopping(state: State, stops: Sequence[Stop], now: float) -> State:
    stopped = {stop.name: state.runs[stop.name]._replace(stopping=stop.reason, stopping_since=now) for stop in stops}
    return replace(state, runs={**state.runs, **stopped})
