"""CPU time of processes that have ended and left it in no counter, from the kernel's records of their ends.

Counters are exact where they have everything, and clocks tell more than records where they were attached in time: so
whatever of these has the most counts. Of records only that is added up which members have not got from their children.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.ended import EndedProcesses
    from gpu_tracker.resources.cpu.counters import CpuReading


_TOLERANCE = 1e-3
"""Seconds by which clocks and records of the same processes may differ."""


class RecordedTime:
    """Raises the CPU seconds of a tree to what its living members and the records of the others have together."""

    def __init__(self, tree: ProcessTree, ended: EndedProcesses) -> None:
        self._tree = tree
        self._ended = ended
        self._start: tuple[float, float] | None = None
        """CPU seconds of root and descendants at the first sample."""
        self._most = (0.0, 0.0)
        self.is_needed = False
        """The records have more than counters and clocks."""

    @property
    def is_complete(self) -> bool:
        """Everything that has ended since the first sample was recorded."""
        return self._ended.is_confirmed and not self._ended.is_incomplete

    def add(self, reading: CpuReading) -> None:
        """Raise what was read, in place; the tree has just been refreshed, after the records were taken."""
        ended = self._ended
        if self._start is None:
            self._start = self._tree.root.own_cpu, ended.sums.descendants_seconds()
            return
        if not ended.count and ended.root_seconds is None:
            return
        main, descendants = self._start
        most_of_main = (ended.root_seconds or 0.0) - main
        most_of_descendants = ended.sums.descendants_seconds() - descendants
        self._most = max(self._most[0], most_of_main), max(self._most[1], most_of_descendants)
        self.is_needed = self._most[1] > reading.descendants + _TOLERANCE
        reading.main = max(reading.main, self._most[0])
        reading.descendants = max(reading.descendants, self._most[1])
