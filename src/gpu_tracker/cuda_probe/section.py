"""The probe as a section of a tracked run: what the sampler finds by name and asks once a second.

See ``gpu_tracker.resources.section`` for what a section is. What this one tells are the fields of
:class:`gpu_tracker.cuda_usage.CUDAUsage` in base units, those of memory with ``_bytes`` at the end of their names.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.following import opened
from gpu_tracker.cuda_probe.section_figures import SectionFigures
from gpu_tracker.errors import GpuTrackerError

if TYPE_CHECKING:
    from gpu_tracker.cuda_probe.following import FollowingProbe
    from gpu_tracker.resources.section import Target


class CudaSection:
    """What a probe has seen of one tracked process and its descendants.

    :param probe: Follows the processes, and collects.
    :param main: The tracked process.
    """

    def __init__(self, probe: FollowingProbe, main: int) -> None:
        self._probe = probe
        self._figures = SectionFigures(main)

    def look(self, members: frozenset[int]) -> dict[str, object]:  # noqa: ARG002 - the kernel follows them itself
        """Return all that is known so far, of the processes that were ever tracked."""
        return self._figures.of(self._probe.report())

    def close(self) -> None:
        """Detach from all programs."""
        self._probe.close()


def open_section(target: Target) -> CudaSection:
    """Return the section for a process, which may be a command that does not run yet, and its descendants.

    :raises GpuTrackerError: Something is missing, which the text names.
    """
    if sys.platform != 'linux':
        raise GpuTrackerError('CUDA calls cannot be probed: that works on Linux only.')
    from gpu_tracker.cuda_probe.session import Probe  # noqa: PLC0415 - what it needs exists on Linux only

    # Programs of Python often use the CUDA libraries that lie beside the interpreter, which is that of the tracker too.
    command = (sys.executable, *target.command)
    probe = opened(lambda: Probe(command=command, folder=target.folder), target.pid)
    return CudaSection(probe, target.pid)
