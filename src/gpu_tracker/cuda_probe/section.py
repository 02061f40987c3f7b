"""The probe as a section of a tracked run: what the sampler finds by name and asks once a second.

See ``gpu_tracker.sources.section`` for what a section is. What this one tells are the fields of
:class:`gpu_tracker.cuda_usage.CUDAUsage` in base units, those of memory with ``_bytes`` at the end of their names.
"""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.section_figures import SectionFigures
from gpu_tracker.errors import GpuTrackerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from gpu_tracker.cuda_probe.report import CudaReport
    from gpu_tracker.sources.section import Target

    class FollowingProbe(Protocol):
        """What a section needs of :class:`gpu_tracker.cuda_probe.session.Probe`."""

        def open(self) -> None:
            """Make ready; raise where something is missing."""

        def follow(self, pid: int) -> None:
            """Follow that process, which may be followed already, and all that it starts."""

        def start(self) -> None:
            """Begin to collect."""

        def report(self) -> CudaReport:
            """Return what was seen until now."""

        def close(self) -> None:
            """Detach."""


_MOST_WORDS = 64
"""Of a command line: each is looked for on PATH."""


class CudaSection:
    """What a probe has seen of one tracked process and its descendants.

    :param probe: Follows the processes, and collects.
    :param main: The tracked process.
    :param followed: The processes that it follows already.
    """

    def __init__(self, probe: FollowingProbe, main: int, followed: frozenset[int]) -> None:
        self._probe = probe
        self._followed = followed
        self._figures = SectionFigures(main)

    def look(self, members: frozenset[int]) -> dict[str, object]:
        """Return all that is known so far.

        :param members: The process IDs that are tracked now. The kernel follows those that were started meanwhile; to
            name them again finds those that were being started while the first were named.
        """
        follow_all(self._probe, members - self._followed)
        self._followed = members
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
    programs = (*programs_of(target.command, target.folder), sys.executable)
    return opened(lambda: Probe(command=programs), target)


def opened(make_probe: Callable[[], FollowingProbe], target: Target) -> CudaSection:
    """Return the section with a probe that follows all of them and collects.

    :raises GpuTrackerError: The probe is not available; nothing stays open.
    """
    probe = make_probe()
    members = target.descendants | {target.pid}
    try:
        probe.open()
        follow_all(probe, members)
        probe.start()
    except BaseException:
        probe.close()
        raise
    return CudaSection(probe, target.pid, members)


def programs_of(command: Sequence[str], folder: str) -> list[str]:
    """Return the words of a command line, those of a shell's too, in which relative paths are made absolute.

    :param folder: Where the command is started: the sampler itself is elsewhere.
    """
    words: list[str] = []
    for argument in command[:_MOST_WORDS]:
        try:
            words += shlex.split(argument)[:_MOST_WORDS] if ' ' in argument else [argument]
        except ValueError:
            pass  # quotes that do not close: no program can be read out of that
    return [os.path.join(folder, word) if '/' in word else word for word in words[:_MOST_WORDS]]


def follow_all(probe: FollowingProbe, pids: frozenset[int]) -> None:
    """Follow each; those that have ended meanwhile have nothing more to tell."""
    for pid in sorted(pids):
        try:
            probe.follow(pid)
        except ProcessLookupError:
            pass  # it has ended since it was listed
