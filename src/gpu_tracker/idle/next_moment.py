"""When time alone changes what is to be done, with no other look in between: a pure function."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.idle.config.idle_settings import Program
    from gpu_tracker.idle.state import State


def next_moment(programs: Sequence[Program], state: State, now: float) -> float | None:
    """Return when the rest of a program is over, or its GPUs have been idle for long enough, whichever comes later.

    :param programs: All that are configured.
    :param state: With what the last look shows.
    :param now: In seconds of monotonic time, as the moment that is returned.
    :return: The first such moment of all programs that lies ahead; None: there is none.
    """
    moments = [_moment(program, state) for program in programs if program.name not in state.runs]
    return min((moment for moment in moments if moment is not None and moment > now), default=None)


def _moment(program: Program, state: State) -> float | None:
    """Return from when on the time speaks for a program; None: one of its GPUs is not idle."""
    gpus = state.idle_since if program.gpus is None else program.gpus
    if not gpus or not all(gpu in state.idle_since for gpu in gpus):
        return None
    idle = max(state.idle_since[gpu] for gpu in gpus) + program.idle_before_start
    rest = state.rest_of(program)
    return idle if rest is None else max(idle, rest.not_before)
