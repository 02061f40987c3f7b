"""The monitor's account of itself: counts of starts, failures and time, and the status document made of them.

All times are monotonic seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.idle.decision import Start, decide
from gpu_tracker.idle.status import (
    BUSY,
    IDLE,
    RESTING,
    RUNNING,
    STOPPING,
    UNAVAILABLE,
    WAITING,
    ActiveUserStatus,
    GpuStatus,
    MonitorStatus,
    ProcessStatus,
    ProgramStatus,
    Status,
)
from gpu_tracker.idle.waiting import waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpu_tracker.idle.config.idle_settings import GpuId, Program
    from gpu_tracker.idle.state import Observation, Rest, State, WatchedGpu


class ProgramCount(NamedTuple):
    """What has come of one program so far."""

    restarts: int = 0
    """Its starts without the first one."""
    failures: int = 0
    """How often it has ended by itself with an error."""
    seconds_run: float = 0.0
    """All its runs together, the present one included."""
    changed: float | None = None
    """When it was last started, or ended; None: it never was."""
    last_end: str | None = None
    """How it has ended last, in words; None: it never has."""


@dataclass(slots=True)
class _Runs:
    """The runs of one program, or of all programs on one GPU."""

    starts: int = 0
    finished_seconds: float = 0.0
    running_since: float | None = None

    def start(self, now: float) -> None:
        self.end(now)
        self.starts += 1
        self.running_since = now

    def end(self, now: float, *, started: bool = True) -> None:
        if started:
            self.finished_seconds = self.seconds(now)
        elif self.running_since is not None:
            self.starts -= 1
        self.running_since = None

    @property
    def restarts(self) -> int:
        return max(self.starts - 1, 0)

    def seconds(self, now: float) -> float:
        return self.finished_seconds + (0.0 if self.running_since is None else now - self.running_since)


@dataclass(slots=True)
class _Gpu:
    """What is known of one GPU."""

    runs: _Runs = field(default_factory=_Runs)
    program: str | None = None
    state: str = UNAVAILABLE
    since: float | None = None
    seen: WatchedGpu | None = None
    """None: the last poll has not shown it."""

    def poll(self, seen: WatchedGpu | None, now: float) -> None:
        state = _state(seen)
        if self.since is None or state != self.state:
            self.since = now
        self.state = state
        self.seen = seen


@dataclass(slots=True)
class _Program:
    """What is known of one program."""

    runs: _Runs = field(default_factory=_Runs)
    failures: int = 0
    changed: float | None = None
    last_end: str | None = None


class Tally:
    """Counts from the monitor's start on; it decides nothing."""

    def __init__(self) -> None:
        self._gpus: dict[GpuId, _Gpu] = {}
        self._programs: dict[str, _Program] = {}

    def poll(self, observation: Observation, now: float) -> None:
        """Take what a poll of the machine has shown.

        A GPU that is gone stays, unavailable, until ``keep`` says otherwise, or until its number stands for something
        else: GPUs can be put into MIG mode, and MIG devices be made anew.
        """
        shown = {seen.gpu: seen for seen in observation.gpus}
        numbers = {gpu.number for gpu in shown}
        self.keep(lambda gpu: gpu in shown or gpu.number not in numbers)
        for gpu in dict.fromkeys([*self._gpus, *shown]):
            self._gpu(gpu).poll(shown.get(gpu), now)

    def keep(self, is_watched: Callable[[GpuId], bool]) -> None:
        """Forget the GPUs that are not watched any more, as a new configuration may have it."""
        self._gpus = {gpu: known for gpu, known in self._gpus.items() if is_watched(gpu)}

    def add_start(self, program: str, gpus: Iterable[GpuId], now: float) -> None:
        """Count the start of a program on its GPUs."""
        known = self._programs.setdefault(program, _Program())
        known.runs.start(now)
        known.changed = now
        for gpu in gpus:
            self._gpu(gpu).runs.start(now)
            self._gpu(gpu).program = program

    def add_end(
        self, program: str, now: float, *, failed: bool = False, text: str | None = None, started: bool = True
    ) -> None:
        """Count the end of a program: from here on its GPUs are without it.

        :param failed: Whether it ended by itself with an error.
        :param text: How it has ended, in words.
        :param started: False: it never ran, so its start is not counted after all, and no time.
        """
        known = self._programs.setdefault(program, _Program())
        known.runs.end(now, started=started)
        known.failures += failed
        known.changed = now
        known.last_end = text
        for gpu in self._gpus.values():
            if gpu.program == program:
                gpu.runs.end(now, started=started)
                gpu.program = None

    def program(self, name: str, now: float) -> ProgramCount:
        """Return what has come of a program so far."""
        known = self._programs.get(name, _Program())
        seconds = round(known.runs.seconds(now), 3)
        return ProgramCount(known.runs.restarts, known.failures, seconds, known.changed, known.last_end)

    def gpus(self, now: float, to_iso: Callable[[float], str], pids: Mapping[str, int]) -> tuple[GpuStatus, ...]:
        """Return the status of each GPU, in order.

        :param to_iso: Returns the ISO 8601 text of a monotonic time.
        :param pids: The processes of the programs that run, by the programs' names.
        """
        in_order = sorted(
            self._gpus.items(), key=lambda item: (item[0].number, -1 if item[0].mig is None else item[0].mig)
        )
        return tuple(_status(gpu, known, now, to_iso, pids) for gpu, known in in_order)

    def _gpu(self, gpu: GpuId) -> _Gpu:
        return self._gpus.setdefault(gpu, _Gpu())


def _state(seen: WatchedGpu | None) -> str:
    if seen is None or seen.problem is not None:
        return UNAVAILABLE
    return IDLE if seen.busy is None else BUSY


def _reason(seen: WatchedGpu | None) -> str | None:
    if seen is None:
        return 'is not there'
    return seen.problem or seen.busy


def _status(gpu: GpuId, known: _Gpu, now: float, to_iso: Callable[[float], str], pids: Mapping[str, int]) -> GpuStatus:
    seen = known.seen
    return GpuStatus(
        gpu=str(gpu),
        state=known.state,
        uuid=None if seen is None else seen.uuid,
        since=None if known.since is None else to_iso(known.since),
        by=() if seen is None else tuple(ProcessStatus(*user) for user in seen.users),
        reason=_reason(seen),
        program=known.program,
        program_pid=None if known.program is None else pids.get(known.program),
        restarts=known.runs.restarts,
        idle_seconds_used=round(known.runs.seconds(now), 3),
    )


def status_of(
    monitor: MonitorStatus,
    programs: Sequence[Program],
    state: State,
    observation: Observation,
    tally: Tally,
    pids: Mapping[str, int],
    now: float,
    to_iso: Callable[[float], str],
) -> Status:
    """Return the whole document.

    :param programs: All that are configured.
    :param observation: The last poll.
    :param pids: The processes of the programs that run, by the programs' names.
    :param now: Monotonic seconds.
    :param to_iso: Returns the ISO 8601 text of a monotonic time.
    """
    configured = {program.name: program for program in programs}
    removed = {name: run.program for name, run in state.runs.items() if name not in configured}
    gpus = tally.gpus(now, to_iso, pids)
    reasons = _reasons(programs, state, observation, now, 'would start' if monitor.dry_run else 'starts')
    programs_status = (
        _program(program, state, reasons.get(program.name), tally, pids.get(program.name), now, to_iso)
        for program in (configured | removed).values()
    )
    return Status(
        monitor=monitor,
        active_users=tuple(ActiveUserStatus(*user) for user in observation.active),
        gpus=tuple(replace(gpu, idle_seconds_used=None) for gpu in gpus) if monitor.dry_run else gpus,
        programs=tuple(replace(one, seconds_run=None) for one in programs_status)
        if monitor.dry_run
        else tuple(programs_status),
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
    to_iso: Callable[[float], str],
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
        since=None if since is None else to_iso(since),
        pid=pid,
        reason=reason,
        restarts=count.restarts,
        failures=count.failures,
        seconds_run=count.seconds_run,
        next_start=None if next_start is None else to_iso(next_start),
        last_end=count.last_end,
    )


def _waiting_since(ended: float | None, rest: Rest | None) -> float | None:
    """Return when a program began to wait: after its last end, or the rest that followed; None: it has never run."""
    return ended if ended is None or rest is None else max(ended, rest.not_before)
