"""What one look at the machine shows, in plain data: the input of a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gpu_tracker.idle.gpu_id import GpuId


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


class SeenGpu(NamedTuple):
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
    """One look at all that matters."""

    gpus: tuple[SeenGpu, ...] = ()
    """Those that are watched and there, in order."""
    active: tuple[ActiveUser, ...] = ()
