"""One GPU at one look: who else uses it, what makes it busy besides, and why it cannot be used."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gpu_tracker.idle.observing.load import load_of
from gpu_tracker.idle.state import GpuUser, SeenGpu

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from gpu_tracker.idle.config.idle_settings import GpuSection
    from gpu_tracker.idle.observing.layout import Place


class ProcessLookup(Protocol):
    """Tells what processes are."""

    def never_counts(self, pid: int) -> bool:
        """Tell whether a process never makes a GPU busy."""

    def is_ignored(self, pid: int, ignore_programs: Collection[str]) -> bool:
        """Tell whether a process runs one of these programs."""

    def describe(self, pid: int) -> GpuUser:
        """Return what a process is called and whose it is."""


class Sighting(NamedTuple):
    """What GPUs are looked at with, at one look."""

    programs: ProcessLookup
    is_ours: Callable[[int], bool]
    """Tells whether a process belongs to our programs."""
    exists: Callable[[int], bool]
    """Tells whether there is a process of an ID, be it hidden."""
    is_certain: bool
    """Whether the driver tells of every process on a GPU by an ID that is valid here; not in some containers."""

    def see(self, place: Place, section: GpuSection, holders: Collection[int], problem: str | None) -> SeenGpu:
        """Return what a watched GPU shows.

        A GPU that the driver cannot read counts as one that cannot be used, also where this user merely may not read
        it: nobody could see who else uses it.

        :param holders: The processes that hold its device file open.
        :param problem: Why it cannot be used, though the driver tells nothing of that.
        """
        pids = place.pids(holders)
        ours = {pid for pid in pids if self.is_ours(pid)}
        # The driver's list may be older than the end of a process, which may have been ours.
        ended = {pid for pid in pids - ours if not self.exists(pid)}
        users = tuple(self.programs.describe(pid) for pid in sorted(pids - ours - ended) if self._counts(pid, section))
        state = place.state
        if state is None:
            return SeenGpu(place.gpu, None, users, None, problem)
        load = load_of(state, section, ours, ended=ended, is_certain=self.is_certain)
        if state.problem is not None:
            problem = f'cannot be used: {state.problem}'
        return SeenGpu(place.gpu, state.uuid, users, load, problem)

    def _counts(self, pid: int, section: GpuSection) -> bool:
        return not (self.programs.never_counts(pid) or self.programs.is_ignored(pid, section.ignore_programs))


def exists(pid: int) -> bool:
    """Tell whether there is a process of an ID, also where ``/proc`` hides those of other users."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # another user's
    return True
