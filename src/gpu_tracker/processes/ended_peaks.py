"""The largest high-water mark of the descendants that have ended, starters of samplers left out. Linux only."""

from __future__ import annotations

from gpu_tracker.processes import SAMPLER_MARK
from gpu_tracker.processes.stat import INEXACT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tracker.processes.fork_notices import Fork
    from gpu_tracker.processes.process import Process

_LONGEST_START = 0.1
"""Seconds after which a sampler that was started can be told from other processes."""


class EndedPeaks:
    """Takes the marks of those that have ended, and waits until those are known that have only started a sampler.

    What its methods call the family are the processes of the tree that have not ended, each with its fork.
    """

    def __init__(self) -> None:
        self._peaks: list[tuple[int, int]] = []
        self._new_peaks: list[tuple[int, int]] = []
        """Descendants that have just ended, and their high-water marks; those after the last settling."""
        self._starters: set[int] = set()
        """Those that have started a sampler: they live for a millisecond, and do not count."""
        self._settled = 0.0
        self.largest = 0
        """The largest high-water mark of a descendant that has ended."""
        self.of_copies = 0
        """The same of those that may have run in the memory of the root: children that have never called execve(2)."""

    def begin(self) -> None:
        """Forget all until now."""
        self.largest = self.of_copies = 0
        self._peaks, self._new_peaks = [], []

    def add(self, pid: int, peak: int, *, is_copy: bool) -> None:
        """Take note of the high-water mark of a descendant that has just ended, in bytes.

        :param is_copy: It may have run in the memory of the root.
        """
        if is_copy:
            self.of_copies = max(self.of_copies, peak)
        else:
            self._new_peaks.append((pid, peak))

    def add_starter(self, pid: int) -> None:
        """Take note that a process has started a sampler."""
        self._starters.add(pid)

    def settle(self, now: float, family: Mapping[int, Fork]) -> None:
        """Decide on those of which it is known by now whether they have started a sampler."""
        if now - self._settled > _LONGEST_START:
            self._settled = now
            self.largest = self._largest(self._peaks, family)
            self._peaks, self._new_peaks = self._new_peaks, []

    def largest_so_far(self, family: Mapping[int, Fork]) -> int:
        """Return the largest of all until now, in bytes."""
        return self._largest([*self._peaks, *self._new_peaks], family)

    def _largest(self, peaks: Sequence[tuple[int, int]], family: Mapping[int, Fork]) -> int:
        """Return the largest peak so far, those of processes that have started a sampler left out."""
        largest = self.largest
        for pid, peak in peaks:
            if peak > largest and not self._has_started_sampler(pid, family):
                largest = peak
        return largest

    def _has_started_sampler(self, pid: int, family: Mapping[int, Fork]) -> bool:
        children = [child for _, parent, child in family.values() if parent == pid]
        return pid in self._starters or any(_is_sampler(child) for child in children)


def new_peak(process: Process | None, peak: int) -> int:
    """Return the peak of a process that was there at the start, where it is not from before; else 0."""
    known = None if process is None else process.peak
    return peak if known is not None and peak > known + INEXACT else 0


def _is_sampler(pid: int) -> bool:
    try:
        with open(f'/proc/{pid}/cmdline', 'rb') as file:
            return SAMPLER_MARK.encode() in file.read()
    except OSError:
        return False  # it has ended: its record tells
