"""Which programs are started and stopped after a poll: pure functions.

The rules, each of which goes before those below it (also in ``docs/``):

.. list-table::
   :header-rows: 1
   :widths: 6 34 60

   * - Rule
     - What a poll shows
     - What is done
   * - 1
     - The monitor ends.
     - Every program is stopped, none is started any more.
   * - 2
     - A user is active.
     - Every program is stopped, none is started. The idle time of all GPUs begins when no user is active any more.
   * - 3
     - A GPU is used by somebody else, is busy otherwise, or is gone.
     - The program on it is stopped, be it for one GPU, for several or for all. The GPU's idle time begins when it is
       idle again.
   * - 4
     - A program is not configured any more, or differently in what it is started with: ``gpus``, ``cmd``, ``dir``,
       ``log``, ``env``, ``user`` and ``use_uuids``.
     - It is stopped. With its new configuration it is started, without a rest, once the old one is gone. Programs that
       did not change are left alone. A new ``idle_before_start_seconds``, ``stop_grace_seconds`` or
       ``restart_backoff_seconds`` stops nobody and holds from now on, for a run or a rest that has begun as well.
   * - 5
     - A program has ended and nobody had asked for it.
     - It rests before it is started again, for its back-off. After exit code 0 it rests for no longer than
       ``interval_seconds``, and a row of failures is over. Each further failure of a row doubles the rest, up to 300 s.
       A run of at least 300 s begins a new row, and so does a change of what it is started with. An end that was asked
       for sets no rest and leaves the row as it is.
   * - 6
     - All GPUs have been idle for as long as a program for ``ALL`` asks for. Its last run, if any, has worked: it took
       2 s with exit code 0, or 300 s.
     - It is started. Programs for some of the GPUs are stopped first to make room for it; none is started meanwhile,
       nor during its rest after a run that worked. Of several for ``ALL``, the first in the file that need not rest is
       started, and one that runs is never replaced by another. It runs on the GPUs that are watched when it starts; one
       that appears later is free for others.
   * - 7
     - As rule 6, but its last run has not worked.
     - After its rest it is started where all GPUs are free of our programs, before those for some of the GPUs. No
       program has to leave for it: with a crash loop that would go on for ever.
   * - 8
     - All GPUs of a program for some GPUs are there, have been idle for as long as it asks for, and are free of our
       programs.
     - It is started, on all of them together. Of several programs for a GPU the first in the file gets it; one that is
       still being stopped keeps its own, and one that runs is never replaced by another.

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
