"""Orders and messages between monitor and guardian: what a program is started with, and what comes of it. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.idle import wording

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tracker.idle.config.idle_settings import Program
    from gpu_tracker.idle.state import WatchedGpu


class LaunchError(GpuTrackerError):
    """A program cannot be started with these GPUs."""


@dataclass(frozen=True, slots=True)
class Orders:
    """A program that is to run now.

    :ivar program: Its section.
    :ivar command: Its words, ``{gpu}`` replaced.
    :ivar environment: Its variables; a change of user and the mark of its monitor come on top of them.
    :ivar gpus: Those that it runs on.
    :ivar reason: Why it is started, for its log; may be empty.
    """

    program: Program
    command: tuple[str, ...]
    environment: Mapping[str, str]
    gpus: tuple[WatchedGpu, ...]
    reason: str = ''

    @property
    def uuids(self) -> tuple[str, ...] | None:
        """Of the GPUs; None where not all are known, or some are MIG devices, whose utilization is unknown."""
        found = [seen.uuid for seen in self.gpus if seen.uuid is not None and seen.gpu.mig is None]
        return tuple(found) if found and len(found) == len(self.gpus) else None

    @property
    def gpu_names(self) -> str:
        """Such as ``GPU 0``, or ``GPUs 0, 5:1``."""
        return f'GPU{"" if len(self.gpus) == 1 else "s"} {", ".join(str(seen.gpu) for seen in self.gpus)}'


def orders_for(program: Program, gpus: Sequence[WatchedGpu], inherited: Mapping[str, str], reason: str = '') -> Orders:
    """Return the orders to start ``program`` on ``gpus``.

    :param inherited: The monitor's own variables.
    :raises LaunchError: There is no way to name these GPUs to the program.
    """
    return Orders(
        program=program,
        command=command_for(program, gpus),
        environment={
            **inherited,
            **dict(program.environment),
            'CUDA_VISIBLE_DEVICES': visible_devices(gpus, use_uuids=program.use_uuids),
            'CUDA_DEVICE_ORDER': 'PCI_BUS_ID',
        },
        gpus=tuple(gpus),
        reason=reason,
    )


def visible_devices(gpus: Sequence[WatchedGpu], *, use_uuids: bool) -> str:
    """Return the value of CUDA_VISIBLE_DEVICES: ``0,1``, or UUIDs where asked for, known of all, or needed.

    MIG devices have no other name there, and CUDA takes either numbers or UUIDs.

    :raises LaunchError: A UUID is needed and not known.
    """
    needed = any(seen.gpu.mig is not None for seen in gpus)
    uuids = [seen.uuid for seen in gpus if seen.uuid is not None]
    if (use_uuids or needed) and len(uuids) == len(gpus):
        return ','.join(uuids)
    if needed:
        unknown = next(str(seen.gpu) for seen in gpus if seen.uuid is None)
        raise LaunchError(f'the UUID of GPU {unknown} is unknown, and CUDA selects MIG devices only by UUID')
    return ','.join(str(seen.gpu) for seen in gpus)


def command_for(program: Program, gpus: Sequence[WatchedGpu]) -> tuple[str, ...]:
    """Return the words of ``program`` with ``{gpu}`` replaced by its GPUs, such as ``0`` or ``0,5:1``."""
    names = ','.join(str(seen.gpu) for seen in gpus)
    return tuple(word.replace('{gpu}', names) for word in program.command)


class Usage(NamedTuple):
    """What a program has used with all its descendants; None stands for what is not known."""

    max_ram_bytes: float | None = None
    cpu_seconds: float | None = None
    max_gpu_ram_bytes: float | None = None
    gpu_utilization_percent: float | None = None
    """The mean over time and over its GPUs, whoever used them: 0 to 100."""


class Started(NamedTuple):
    """The program runs."""

    pid: int
    unmeasured: str | None = None
    """Why what it uses is not measured; None: it is."""


class NotStarted(NamedTuple):
    """The program could not be started, or was stopped before; its guardian ends now."""

    reason: str
    """In words that follow its name, such as ``its folder /x does not exist``."""
    stopped: bool = False
    """Whether it was stopped before; then the reason is that of the stop."""


class Stuck(NamedTuple):
    """Processes have not ended 10 s after SIGKILL; the guardian goes on."""

    left: str
    """Which, such as ``python (pid 17)``."""


class Ended(NamedTuple):
    """The program and all its descendants have ended; the guardian ends now."""

    code: int | None
    """The program's exit code; None where a signal has ended it."""
    signal: int | None
    """That signal."""
    seconds: float
    """For how long it ran, until nothing was left of it."""
    reason: str | None
    """Why it was stopped; None: it ended by itself."""
    usage: Usage
    left_behind: int = 0
    """How many processes were there when it had ended by itself, and were ended."""

    @property
    def ending(self) -> str:
        """How it has ended, such as ``exit code 1``, or ``killed by SIGTERM``, and what it had left behind."""
        return wording.ending_in_words(self.code, self.signal, self.left_behind)

    def used(self, gpus: int) -> str:
        """Return what it has used in words, having run on so many GPUs."""
        return wording.usage_in_words(self.seconds, gpus, self.usage._asdict())


class Lost(NamedTuple):
    """The guardian has ended without a word, or has failed; the program with it, and the rest is to be ended now."""

    reason: str


Message = Started | NotStarted | Stuck | Ended | Lost
FINAL = (NotStarted, Ended, Lost)
"""No message follows these."""


def parse(line: bytes) -> Message:
    """Return what a line from a guardian says."""
    fields: dict[str, Any] = json.loads(line)
    event = fields.pop('event')
    if event == 'ended':
        return Ended(**{**fields, 'usage': Usage(**fields['usage'])})
    kinds: dict[str, type[Started | NotStarted | Stuck | Lost]] = {
        'started': Started,
        'not_started': NotStarted,
        'stuck': Stuck,
        'lost': Lost,
    }
    return kinds[event](**fields)
