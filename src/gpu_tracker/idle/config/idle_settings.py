"""What a configuration file says, checked, in plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable


class GpuId(NamedTuple):
    """A GPU, or a MIG device of one. Written ``5``, or ``5:1`` for the second MIG device of GPU 5."""

    number: int
    """The GPU's place in PCI bus order, from 0, as nvidia-smi numbers them."""
    mig: int | None = None
    """The MIG device's number on its GPU, from 0; None for a whole GPU."""

    def __str__(self) -> str:
        """Return it as it is written."""
        return str(self.number) if self.mig is None else f'{self.number}:{self.mig}'


Threshold = TypeVar('Threshold', int, float)


@dataclass(frozen=True, slots=True)
class Program:
    """A ``[process-NAME]`` section: a program that runs while its GPUs are idle."""

    name: str
    """The section's name, such as ``process-0``."""
    gpus: tuple[GpuId, ...] | None
    """Those that it runs on, all together; None: all that are watched."""
    command: tuple[str, ...]
    """The program and its arguments; ``{gpu}`` stands for its GPUs."""
    folder: str
    """The working folder, absolute."""
    log: str | None = None
    """The file, absolute, to which its output is appended; None: it writes where the monitor does."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables in addition to those of the monitor."""
    user: str | None = None
    """Whose it is; None: the monitor's user."""
    use_uuids: bool = False
    """Whether CUDA_VISIBLE_DEVICES gets UUIDs instead of indices; MIG devices always do."""
    idle_before_start: float = 0.0
    """Seconds for which its GPUs have to be idle before it is started."""
    stop_grace: float = 5.0
    """Seconds between SIGTERM and SIGKILL."""
    restart_backoff: float = 1.0
    """Seconds from its end to the next start, doubled with each further failure, up to 300."""
    interval: float = 10.0
    """Seconds between two polls. After exit code 0 it does not rest for longer."""


@dataclass(frozen=True, slots=True)
class GpuSection:
    """A ``[gpu-NAME]`` section: GPUs that are watched, and who may use them without making them busy."""

    name: str
    """The section's name, such as ``gpu-all``."""
    gpus: tuple[GpuId, ...] | None
    """None: all."""
    ignore_programs: tuple[str, ...] = ()
    """Names of programs that do not count."""
    busy_memory: int | None = None
    """Bytes in use by others from which on a GPU is busy; None: the memory does not matter."""
    busy_utilization: float | None = None
    """Percent from which on a GPU is busy that no program of ours is on; None: it does not matter."""


@dataclass(frozen=True, slots=True)
class Terminals:
    """The ``[tty]`` section, where it is enabled."""

    idle_seconds: float
    """A user counts as active whose terminal was used less long ago."""
    whitelist: frozenset[str] = frozenset()
    """Users who do not count."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A whole configuration."""

    interval: float = 10.0
    """Seconds between two polls."""
    gpus: tuple[GpuSection, ...] = ()
    """Empty: all GPUs are watched, and everybody counts."""
    programs: tuple[Program, ...] = ()
    """In the file's order."""
    terminals: Terminals | None = None
    """None: terminals are not watched."""

    def section_of(self, gpu: GpuId) -> GpuSection | None:
        """Return what all sections say that speak of a GPU, put together; None: it is not watched.

        What they ignore adds up, and the lowest threshold holds. A section for a whole GPU in MIG mode speaks of its
        MIG devices as well.
        """
        if not self.gpus:
            return GpuSection('gpu-all', None)
        both = {gpu, gpu._replace(mig=None)}
        sections = [section for section in self.gpus if section.gpus is None or not both.isdisjoint(section.gpus)]
        if not sections:
            return None
        return GpuSection(
            ' and '.join(section.name for section in sections),
            (gpu,),
            tuple(dict.fromkeys(name for section in sections for name in section.ignore_programs)),
            _lowest(section.busy_memory for section in sections),
            _lowest(section.busy_utilization for section in sections),
        )


def _lowest(thresholds: Iterable[Threshold | None]) -> Threshold | None:
    return min((threshold for threshold in thresholds if threshold is not None), default=None)
