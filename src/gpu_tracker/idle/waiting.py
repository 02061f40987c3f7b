"""Why a program is not started, in words: for decisions, which start what nothing speaks against, and for people."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_tracker.idle.config.idle_settings import GpuId, Program
    from gpu_tracker.idle.state import Observation, State


def waiting(
    program: Program, programs: Sequence[Program], state: State, observation: Observation, now: float
) -> str | None:
    """Return why a program is not started, in words; None: it runs, or nothing speaks against it.

    :param programs: All that are configured, in the file's order.
    :param state: With what ``observation`` shows, as :func:`gpu_tracker.idle.decision.decide` returns it.
    :param now: Seconds of monotonic time.
    """
    run = state.runs.get(program.name)
    if run is not None:
        return None if run.stopping is None else f'being stopped: {run.stopping}'
    return (
        _unready(program, state, observation, now)
        or resting(program, state, now)
        or _taken(gpus_of(program, observation), state)
        or _kept(program, programs, state, observation, now)
    )


def gpus_of(program: Program, observation: Observation) -> tuple[GpuId, ...]:
    """Return the GPUs that a program would be started on: its own, or all that are seen."""
    return tuple(seen.gpu for seen in observation.gpus) if program.gpus is None else program.gpus


def in_use(observation: Observation) -> str | None:
    """Return who works at the machine, in words; None: nobody."""
    if not observation.active:
        return None
    return f'{_listed(observation.active)} {"is" if len(observation.active) == 1 else "are"} active'


def rejection(gpus: Iterable[GpuId], observation: Observation) -> str | None:
    """Return why no program of ours may be on some GPUs, in words, the first that is found; None: it may."""
    seen = {one.gpu: one for one in observation.gpus}
    for gpu in gpus:
        if gpu not in seen:
            divided = gpu.mig is None and any(other.number == gpu.number for other in seen)
            return f'GPU {gpu} is {"divided into MIG devices" if divided else "not there, or not watched"}'
        busy = seen[gpu].busy
        if busy is not None:
            return f'GPU {gpu} {busy}'
    return None


def next_for_all(programs: Sequence[Program], state: State, observation: Observation, now: float) -> Program | None:
    """Return the program for all GPUs for which the others make room and are held back; None: there is none.

    That is the first in the file that may be started now but for programs on some GPUs, and whose last run worked.
    Where each of them rests still, as they do after a run that worked, the GPUs are kept for the first.
    """
    if any(run.program.gpus is None and run.stopping is None for run in state.runs.values()):
        return None
    due = [
        program
        for program in programs
        if program.gpus is None and _works(program, state) and _unready(program, state, observation, now) is None
    ]
    return next((program for program in due if resting(program, state, now) is None), due[0] if due else None)


def resting(program: Program, state: State, now: float) -> str | None:
    """Return why a program rests still, in words; None: it need not."""
    rest = state.rest_of(program)
    if rest is None or now >= rest.not_before:
        return None
    if rest.failures == 0:
        return 'rests after exit code 0'
    return f'rests after {rest.failures} failure{"" if rest.failures == 1 else "s"}'


def gpus_in_words(gpus: Sequence[GpuId]) -> str:
    """Return ``GPU 0``, ``GPUs 0 and 1`` or ``GPUs 0, 1 and 5:1``."""
    return f'GPU{"" if len(gpus) == 1 else "s"} {_listed(gpus)}'


def _unready(program: Program, state: State, observation: Observation, now: float) -> str | None:
    """Return what, other than programs of ours, speaks against a start."""
    gpus = gpus_of(program, observation)
    if state.closing is not None:
        return f'the monitor ends: {state.closing}'
    if not gpus:
        return 'no watched GPU is there'
    return in_use(observation) or rejection(gpus, observation) or _too_early(gpus, program, state, now)


def _too_early(gpus: Sequence[GpuId], program: Program, state: State, now: float) -> str | None:
    for gpu in gpus:
        idle = now - state.idle_since.get(gpu, now)
        if idle < program.idle_before_start:
            return f'GPU {gpu} idle for {floor(idle)} of {program.idle_before_start:g} s'
    return None


def _works(program: Program, state: State) -> bool:
    rest = state.rest_of(program)
    return rest is None or rest.worked


def _taken(gpus: Iterable[GpuId], state: State) -> str | None:
    """Return which program of ours is on one of some GPUs, be it about to be stopped."""
    for gpu in gpus:
        for name, run in state.runs.items():
            if any(_overlap(gpu, own) for own in run.gpus):
                return f'GPU {gpu} {"" if run.stopping is None else "still "}taken by {name}'
    return None


def _overlap(one: GpuId, other: GpuId) -> bool:
    # A GPU that has been divided since a program was started on the whole of it is the same GPU.
    return one.number == other.number and (one.mig == other.mig or one.mig is None or other.mig is None)


def _kept(
    program: Program, programs: Sequence[Program], state: State, observation: Observation, now: float
) -> str | None:
    first = next_for_all(programs, state, observation, now)
    return None if first is None or first == program else f'all GPUs are kept for {first.name}'


def _listed(things: Iterable[object]) -> str:
    *others, last = map(str, things)
    return f'{", ".join(others)} and {last}' if others else last
