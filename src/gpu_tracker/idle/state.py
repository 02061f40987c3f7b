"""Plain data of a decision: what one poll of the machine shows, and what the monitor remembers from poll to poll.

Times are seconds of monotonic time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tracker.idle.config.idle_settings import GpuId, Program


class GpuUser(NamedTuple):
    """A process that uses a GPU and is neither ours nor to be ignored."""

    pid: int
    program: str
    """Its name; ``?`` where that is not to be seen."""
    user: str | None = None
    """Whose it is; None where unknown."""

    def __str__(self) -> str:
        """Return it as it stands in a log: ``python (pid 17, alice)``."""
        return f'{self.program} (pid {self.pid}{f", {self.user}" if self.user else ""})'


class ActiveUser(NamedTuple):
    """A user who works at a terminal and is not on the whitelist."""

    name: str
    """The user's name; the number where there is none."""
    terminal: str
    """Such as ``pts/3``."""
    idle: float
    """Seconds since the terminal was used."""

    def __str__(self) -> str:
        """Return it as it stands in a log: ``alice at pts/3``."""
        return f'{self.name} at {self.terminal}'


class WatchedGpu(NamedTuple):
    """A watched GPU that is there."""

    gpu: GpuId
    uuid: str | None = None
    """None where unknown."""
    users: tuple[GpuUser, ...] = ()
    """Who else uses it, by pid."""
    load: str | None = None
    """What makes it busy besides, in words: its memory or utilization; None: nothing does."""
    problem: str | None = None
    """Why no program can use it, in words that follow its name, such as ``is lost``; None: it works."""
    claim: str | None = None
    """Who has claimed it, in words; None: nobody but programs of ours."""

    @property
    def busy(self) -> str | None:
        """Why it is not idle, in words; None: it is."""
        if self.users:
            return 'used by ' + ', '.join(map(str, self.users))
        return self.load or self.problem or self.claim


class Observation(NamedTuple):
    """What one poll of the machine shows."""

    gpus: tuple[WatchedGpu, ...] = ()
    """Those that are watched and there, in order."""
    active: tuple[ActiveUser, ...] = ()


SHORT_RUN = 2.0
"""Seconds. No program for some GPUs has to make room for one for all whose last run was shorter."""
LONGEST_REST = 300.0
"""Seconds up to which the rest after failures is doubled. A run that lasts as long begins a new row."""
_FIRST_REST = 1.0
"""Seconds of rest after the first failure if the back-off is 0."""

_MOST_DOUBLINGS = 64
"""Enough to reach the longest rest from any back-off; a float has no room for the doublings of a week."""


class Run(NamedTuple):
    """A program of ours, from the decision to start it until it and all that it had started are gone."""

    program: Program
    gpus: tuple[GpuId, ...]
    """Those that it was started on, all of them its own."""
    started: float
    stopping: str | None = None
    """Why it is being stopped, in words; None: it is not."""
    stopping_since: float | None = None
    """When it was ordered to stop; None: it was not."""


class Rest(NamedTuple):
    """What is remembered of a program that has ended although nobody had asked for it."""

    program: Program
    """Started otherwise than then, it may succeed."""
    failures: int
    """How many of such ends in a row were failures; 0 after exit code 0."""
    since: float
    """When it ended."""
    worked: bool = False
    """Whether its last run shows that it works: 2 s with exit code 0, or 300 s."""

    @property
    def not_before(self) -> float:
        """It is not started before."""
        backoff = self.program.restart_backoff
        if self.failures == 0:
            return self.since + min(backoff, self.program.interval)
        first = backoff or _FIRST_REST
        doubled = first * 2.0 ** min(self.failures - 1, _MOST_DOUBLINGS)
        return self.since + max(first, min(doubled, LONGEST_REST))


@dataclass(frozen=True, slots=True)
class State:
    """All that decisions rest on besides the configuration and a poll."""

    runs: Mapping[str, Run] = field(default_factory=dict)
    """By the program's name."""
    rests: Mapping[str, Rest] = field(default_factory=dict)
    """By the program's name."""
    idle_since: Mapping[GpuId, float] = field(default_factory=dict)
    """The first of the polls that have shown a GPU idle, and no user active, without a break; by the idle GPUs."""
    closing: str | None = None
    """Why the monitor ends, in words: nothing is started any more. None: it goes on."""

    def rest_of(self, program: Program) -> Rest | None:
        """Return what is remembered of a program, unless it was started differently then."""
        rest = self.rests.get(program.name)
        return rest if rest is not None and starts_alike(rest.program, program) else None


def starts_alike(one: Program, other: Program) -> bool:
    """Return whether two configurations of a program differ at most in what a start makes no use of."""
    return other == replace(
        one,
        idle_before_start=other.idle_before_start,
        stop_grace=other.stop_grace,
        restart_backoff=other.restart_backoff,
        interval=other.interval,
    )


def with_observation(state: State, programs: Sequence[Program], observation: Observation, now: float) -> State:
    """Remember what a poll shows, and forget the rests of programs that are not configured (so) any more.

    A change of what a start makes no use of holds from now on, for a run and a rest that has begun as well.
    """
    idle = [] if observation.active else [seen.gpu for seen in observation.gpus if seen.busy is None]
    idle_since = {gpu: state.idle_since.get(gpu, now) for gpu in idle}
    now_configured = {program.name: program for program in programs}
    runs = {
        name: run._replace(program=program)
        if (program := now_configured.get(name)) is not None and starts_alike(run.program, program)
        else run
        for name, run in state.runs.items()
    }
    rests = {
        program.name: rest._replace(program=program)
        for program in programs
        if (rest := state.rest_of(program)) is not None
    }
    return replace(state, runs=runs, rests=rests, idle_since=idle_since)


def with_end(state: State, name: str, now: float, *, failed: bool = True) -> State:
    """Remember that a program is gone with all that it had started, or that it could not be started.

    Unless it was being stopped, it rests: for its back-off, doubled for each failure in a row, up to 300 s. After exit
    code 0 it rests for no longer than the interval. An end that was asked for sets no rest and leaves the row as it is.
    A name that does not run changes nothing.

    :param failed: Whether it has ended with an error, or could not be started.
    """
    run = state.runs.get(name)
    if run is None:
        return state
    runs = {other: kept for other, kept in state.runs.items() if other != name}
    rests = dict(state.rests)
    lasted = now - run.started
    if run.stopping is None:
        before = state.rest_of(run.program)
        row = 0 if lasted >= LONGEST_REST or before is None else before.failures
        worked = lasted >= (LONGEST_REST if failed else SHORT_RUN)
        rests[name] = Rest(run.program, row + 1 if failed else 0, now, worked)
    elif lasted >= LONGEST_REST:
        rests.pop(name, None)
    return replace(state, runs=runs, rests=rests)
