"""What guardians tell the monitor. Pure."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from gpu_tracker.idle.running import program_log


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
        return program_log.ending_in_words(self.code, self.signal, self.left_behind)

    def used(self, gpus: int) -> str:
        """Return what it has used in words, having run on so many GPUs."""
        return program_log.usage_in_words(self.seconds, gpus, self.usage._asdict())


class Lost(NamedTuple):
    """The guardian has ended without a word, or has failed; the program with it, and the rest is to be ended now."""

    reason: str


Message = Started | NotStarted | Stuck | Ended | Lost
FINAL = (NotStarted, Ended, Lost)
"""No message follows these."""


def parse(line: bytes) -> Message:
    """Return what a line from a guardian says."""
    told: dict[str, Any] = json.loads(line)
    event = told.pop('event')
    if event == 'ended':
        return Ended(**{**told, 'usage': Usage(**told['usage'])})
    kinds: dict[str, type[Started | NotStarted | Stuck | Lost]] = {
        'started': Started,
        'not_started': NotStarted,
        'stuck': Stuck,
        'lost': Lost,
    }
    return kinds[event](**told)
