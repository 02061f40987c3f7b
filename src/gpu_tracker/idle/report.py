"""The status that the monitor tells, put together from what it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.idle.status import (
    RESTING,
    RUNNING,
    STOPPING,
    WAITING,
    ActiveUserStatus,
    MonitorStatus,
    ProgramStatus,
    Status,
)
from gpu_tracker.idle.waiting import waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpu_tracker.idle.config.settings import Program
    from gpu_tracker.idle.observation import Observation
    from gpu_tracker.idle.state import State
    from gpu_tracker.idle.tally import Tally


def status_of(
    monitor: MonitorStatus,
    programs: Sequence[Program],
    state: State,
    observation: Observation,
    tally: Tally,
    pids: Mapping[str, int],
    now: float,
    moment: Callable[[float], str],
) -> Status:
    """Return the whole document.

    :param programs: All that are configured.
    :param observation: The last look.
    :param pids: The processes of the programs that run, by the programs' names.
    :param now: Monotonic seconds.
    :param moment: Tells a monotonic time as the document has it.
    """
    configured = {program.name: program for program in programs}
    removed = {name: run.program for name, run in state.runs.items() if name not in configured}
    return Status(
        monitor=monitor,
        active_users=tuple(ActiveUserStatus(*user) for user in observation.active),
        gpus=tally.gpus(now, moment, pids),
        programs=tuple(
            _program(program, programs, state, observation, tally, pids.get(program.name), now, moment)
            for program in (configured | removed).values()
        ),
    )


def _program(
    program: Program,
    programs: Sequence[Program],
    state: State,
    observation: Observation,
    tally: Tally,
    pid: int | None,
    now: float,
    moment: Callable[[float], str],
) -> ProgramStatus:
    count = tally.program(program.name, now)
    rest = state.rest_of(program)
    next_start = rest.not_before if rest is not None and rest.not_before > now else None
    run = state.runs.get(program.name)
    if run is None:
        name, reason = (WAITING if next_start is None else RESTING), waiting(program, programs, state, observation, now)
    else:
        name, reason = (RUNNING, None) if run.stopping is None else (STOPPING, run.stopping)
    return ProgramStatus(
        name=program.name,
        gpus='ALL' if program.gpus is None else ','.join(map(str, program.gpus)),
        state=name,
        since=None if count.changed is None else moment(count.changed),
        pid=pid,
        reason=reason,
        restarts=count.restarts,
        failures=count.failures,
        seconds_run=count.seconds_run,
        next_start=None if next_start is None else moment(next_start),
    )
