"""Which processes never make a GPU busy, whatever the configuration says."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.idle.running import GUARDIAN_MARK
from gpu_tracker.processes import SAMPLER_MARK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_tracker.idle.observing.program_names import NamedProgram

_COMM = 15
"""Characters of its name that the kernel keeps, see TASK_COMM_LEN in proc_pid_comm(5)."""
_GPU_TRACKER = frozenset({'gpu-tracker', 'gpu_tracker'})
"""The program, and the module that is the same."""


class Exempt(NamedTuple):
    """A kind of process that never counts."""

    who: str
    """Which processes these are, and why they do not count."""
    programs: frozenset[str] = frozenset()
    """Names of programs."""
    commands: frozenset[str] = frozenset()
    """Where there are any, one of them has to be the first argument."""
    mark: str | None = None
    """A word that stands in the command line; None: the program's name tells."""

    def applies(self, program: NamedProgram) -> bool:
        """Tell whether a process that runs ``program`` is one of these."""
        if self.mark is not None:
            return self.mark in program.words
        if not has_name(program.names, self.programs):
            return False
        return not self.commands or (bool(program.arguments) and program.arguments[0] in self.commands)


EXEMPT = (
    Exempt('nvidia-persistenced keeps the driver loaded', frozenset({'nvidia-persistenced'})),
    Exempt("atopgpud, the original or gpu-tracker's, reads statistics", frozenset({'atopgpud'})),
    Exempt("gpu-tracker atopgpud is gpu-tracker's atopgpud", _GPU_TRACKER, frozenset({'atopgpud'})),
    Exempt('gpu-tracker agent reads statistics', _GPU_TRACKER, frozenset({'agent'})),
    Exempt('gpu-tracker gpus, ls and available read statistics', _GPU_TRACKER, frozenset({'gpus', 'ls', 'available'})),
    Exempt('gpu-tracker idle is a monitor, this one or another', _GPU_TRACKER, frozenset({'idle'})),
    Exempt('a guardian keeps a program of a monitor, and runs nothing itself', mark=GUARDIAN_MARK),
    Exempt('a sampler measures what a tracked program uses', mark=SAMPLER_MARK),
)
"""Those that never count. A program that ``gpu-tracker`` tracks is a process of its own, and does."""


def is_exempt(program: NamedProgram) -> bool:
    """Tell whether a process that runs ``program`` never counts."""
    return any(kind.applies(program) for kind in EXEMPT)


def has_name(names: tuple[str, ...], wanted: Iterable[str]) -> bool:
    """Tell whether one of a process' names is among those wanted; of a long one the first 15 characters suffice.

    :param names: As :class:`NamedProgram` has them, the one that the kernel keeps, cut, first.
    """
    return any(name in names or (len(name) > _COMM and names[:1] == (name[:_COMM],)) for name in wanted)
