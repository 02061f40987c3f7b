"""A GPU as people look at it: what the driver says of it, whose processes are on it, and who has claimed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gpu_tracker.gpus.claims.record import Claim
    from gpu_tracker.gpus.state import DeviceState


class GpuProcess(NamedTuple):
    """A process on a GPU; without a user it is one that cannot be looked up from here."""

    pid: int
    """As the driver tells it."""
    memory: int | None = None
    """Bytes of the GPU's memory; None where the driver does not know."""
    user: str | None = None
    started: float | None = None
    """Seconds since 1970."""
    command: str | None = None
    """The command line, its words quoted as for a shell; the first 4,000 characters."""
    program: str | None = None
    """What the command line is about: ``train.py`` of ``python -u train.py``."""
    computes: bool = True
    """Whether it computes, and does not only draw."""

    @property
    def is_seen(self) -> bool:
        """Whether the process could be looked up."""
        return self.user is not None


class Gpu(NamedTuple):
    """A GPU, or a MIG device of one."""

    state: DeviceState
    processes: tuple[GpuProcess, ...] | None = None
    """None: the driver does not list them."""
    claim: Claim | None = None
    mig_devices: tuple[Gpu, ...] | None = None
    """None: not in MIG mode."""
    parent: DeviceState | None = None
    """The GPU that this is a MIG device of; None for a whole GPU."""
    is_claim_known: bool = True
    """Whether a claim would stand here; False: the claims could not be read."""

    @property
    def label(self) -> str:
        """``GPU 0``, or ``GPU 0 MIG 1``."""
        if self.parent is None:
            return f'GPU {self.state.number}'
        return f'GPU {self.parent.number} MIG {self.state.number}'

    def devices(self) -> tuple[Gpu, ...]:
        """Return the GPU itself and its MIG devices."""
        return (self, *(self.mig_devices or ()))
