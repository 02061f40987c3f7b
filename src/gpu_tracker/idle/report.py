"""The status that the monitor tells, put together from what it knows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_tracker.idle.decision import Start, decide
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

    from gpu_tracker.idle.config.idle_settings import Program
    from gpu_tracker.idle.observation import Observation
    from gpu_tracker.idle.state import Rest, State
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
    gpus = tally.gpus(now, moment, pids)
    reasons = _reasons(programs, state, observation, now, 'would start' if monitor.dry_run else 'starts')
    told = (
        _program(program, state, reasons.get(program.name), tally, pids.get(program.name), now, moment)
        for program in (configured | removed).values()
    )
    return Status(
        monitor=monitor,
        active_users=tuple(ActiveUserStatus(*user) for user in observation.active),
        gpus=tuple(replace(gpu, idle_seconds_used=None) for gpu in gpus) if monitor.dry_run else gpus,
        programs=tuple(replace(one, seconds_run=None) for one in told) if monitor.dry_run else tuple(told),
    )


def _reasons(
    programs: Sequence[Program], state: State, observation: Observation, now: float, starts: str
) -> dict[str, str | None]:
    """Return why programs wait, in words, by their names; None: one runs.

    Of two that nothing speaks against one may keep the other from its GPUs, so it is decided what would be done now.
    """
    later, actions = decide(programs, state, observation, now)
    due = {action.program.name for action in actions if isinstance(action, Start)}
    return {
        program.name: f'{starts} at the next look'
        if program.name in due
        else waiting(program, programs, state, observation, now) or waiting(program, programs, later, observation, now)
        for program in programs
    }


def _program(
    program: Program,
    state: State,
    reason: str | None,
    tally: Tally,
    pid: int | None,
    now: float,
    moment: Callable[[float], str],
) -> ProgramStatus:
    """Return the status of one.

    :param reason: Why it waits, if it does.
    """
    count = tally.program(program.name, now)
    rest = state.rest_of(program)
    next_start = rest.not_before if rest is not None and rest.not_before > now else None
    run = state.runs.get(program.name)
    if run is None:
        name, since = (WAITING, _waiting_since(count.changed, rest)) if next_start is None else (RESTING, count.changed)
    elif run.stopping is None:
        name, since, reason = RUNNING, run.started, None
    else:
        name, since, reason = STOPPING, run.stopping_since, run.stopping
    return ProgramStatus(
        name=program.name,
        gpus='ALL' if program.gpus is None else ','.join(map(str, program.gpus)),
        state=name,
        since=None if since is None else moment(since),
        pid=pid,
        reason=reason,
        restarts=count.restarts,
        failures=count.failures,
        seconds_run=count.seconds_run,
        next_start=None if next_start is None else moment(next_start),
        last_end=count.last_end,
    )


def _waiting_since(ended: float | None, rest: Rest | None) -> float | None:
    """Return when a program began to wait: after its last end, or the rest that followed; None: it has never run."""
    return ended if ended is None or rest is None else max(ended, rest.not_before)
