"""The status that the running monitor reports: plain data, and its JSON.

The keys are part of the documented interface: they never change their meaning. Whatever is unknown is null. Moments are
texts as ISO 8601 has them, with their zone; lengths of time are seconds.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, TypeVar

from gpu_tracker.errors import GpuTrackerError

if TYPE_CHECKING:
    from collections.abc import Callable

IDLE = 'idle'
BUSY = 'busy'
UNAVAILABLE = 'unavailable'

RUNNING = 'running'
STOPPING = 'stopping'
RESTING = 'resting'
WAITING = 'waiting'


@dataclass(frozen=True, slots=True)
class MonitorStatus:
    """The monitor itself."""

    pid: int
    version: str
    """Of gpu-tracker."""
    config_path: str
    started: str
    """An ISO 8601 time."""
    interval_seconds: float
    dry_run: bool
    """Whether it only reports what it would do: then states and restarts of programs are those that would be."""
    user: str


@dataclass(frozen=True, slots=True)
class ActiveUserStatus:
    """A user who works at a terminal, which keeps every program from running."""

    user: str
    terminal: str
    idle_seconds: float
    """Since the terminal was used."""


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """A process of others that uses a GPU."""

    pid: int
    program: str
    user: str | None = None


@dataclass(frozen=True, slots=True)
class GpuStatus:
    """A GPU that is watched."""

    gpu: str
    """Its number, such as ``0``, or ``0:1`` for a MIG device."""
    state: str
    """``idle``: nobody else uses it; ``busy``: somebody does; ``unavailable``: no program can use it."""
    uuid: str | None = None
    since: str | None = None
    """The time since which it has been in that state; the first poll of the monitor at the earliest."""
    by: tuple[ProcessStatus, ...] = ()
    """Who else uses it."""
    reason: str | None = None
    """Why it is not idle, in words."""
    program: str | None = None
    """Which of our programs has it."""
    program_pid: int | None = None
    restarts: int = 0
    """Starts of our programs on it, without the first one."""
    idle_seconds_used: float | None = 0.0
    """For how long programs of ours had it, that of the present included; null in a dry run."""


@dataclass(frozen=True, slots=True)
class ProgramStatus:
    """A program that the configuration names."""

    name: str
    gpus: str
    """``ALL``, or numbers such as ``0,1``."""
    state: str
    """``running``, ``stopping``, ``resting`` (it ended, and is not started again yet) or ``waiting``."""
    since: str | None = None
    """The time since which it has been in that state; null where it waits for its first start."""
    pid: int | None = None
    reason: str | None = None
    """Why it is in that state, in words; null where it runs."""
    restarts: int = 0
    """Its starts without the first one."""
    failures: int = 0
    """How often it has ended by itself with an error."""
    seconds_run: float | None = 0.0
    """All its runs together, the present one included; null in a dry run."""
    next_start: str | None = None
    """The time before which it is not started again."""
    last_end: str | None = None
    """How it has ended last, or why it could not be started, in words; null before any end."""


@dataclass(frozen=True, slots=True)
class Status:
    """The whole document."""

    monitor: MonitorStatus
    active_users: tuple[ActiveUserStatus, ...] = ()
    gpus: tuple[GpuStatus, ...] = ()
    """In order."""
    programs: tuple[ProgramStatus, ...] = ()
    """In the order of the configuration file."""


def to_json(status: Status) -> str:
    """Return the document as one line of ASCII."""
    return json.dumps(asdict(status))


def from_json(text: str) -> Status:
    """Return the document that a monitor has written, be it of an older or a newer version.

    :raises GpuTrackerError: if it is none.
    """
    try:
        document = json.loads(text)
        return Status(
            monitor=_made(MonitorStatus, document['monitor']),
            active_users=tuple(_made(ActiveUserStatus, values) for values in document['active_users']),
            gpus=tuple(_gpu(values) for values in document['gpus']),
            programs=tuple(_made(ProgramStatus, values) for values in document['programs']),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise GpuTrackerError(f'the answer is not a status of an idle monitor: {text[:60]!r}') from error


Made = TypeVar('Made', MonitorStatus, ActiveUserStatus, ProcessStatus, GpuStatus, ProgramStatus)


def _made(kind: type[Made], values: dict[str, object]) -> Made:
    """Make one part; a newer version may have added keys, and in what an older one wrote some may be missing."""
    known = {field.name for field in fields(kind)}
    return kind(**{key: value for key, value in values.items() if key in known})  # type: ignore[arg-type] # as written


def _gpu(values: dict[str, object]) -> GpuStatus:
    users: list[dict[str, object]] = values.get('by', [])  # type: ignore[assignment] # as written
    return _made(GpuStatus, {**values, 'by': tuple(_made(ProcessStatus, user) for user in users)})


def iso_time(moment: float, zone: tzinfo | None = None) -> str:
    """Return a moment in seconds since 1970 as ISO 8601 has it, to the second.

    :param zone: None: that of this machine.
    """
    return datetime.fromtimestamp(moment, UTC).astimezone(zone).isoformat(timespec='seconds')


def seconds_since_1970(moment: str) -> float:
    """Return what ``iso_time`` was given.

    :raises ValueError: if the text is no such moment.
    """
    return datetime.fromisoformat(moment).timestamp()


def wall_clock(monotonic: float, since_1970: float, zone: tzinfo | None = None) -> Callable[[float], str]:
    """Return the function that gives the ISO 8601 time of a monotonic one, given what both clocks show now."""
    return lambda moment: iso_time(since_1970 - monotonic + moment, zone)
