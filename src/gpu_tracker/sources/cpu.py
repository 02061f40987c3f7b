"""CPU time of the root and of its descendants, from cumulative counters.

The CPU time of a tree is what its living members have used plus what they have been told of their reaped children. When a
member ends and a member reaps it, its time moves from the one to the other, so that the sum does not jump and children
that lived between two samples count. Two cases need a closer look: a member that was reaped by somebody outside the tree,
and one whose parent ignores SIGCHLD, to which the kernel then adds nothing. Its last seen time is kept here.
"""

from __future__ import annotations

from gpu_tracker.sources.reading import CpuReading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.process_tree import ProcessTree
    from gpu_tracker.process_tree.process import Process

_ROUNDING = 0.02
"""Reaped time comes in ticks of 10 ms, user and system time each rounded down."""


class CpuSource:
    """Folds the times of a tree's members into the CPU seconds of the root and of its descendants since the start."""

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self._kept = 0.0
        self._owing: set[Process] = set()
        self._main_start = tree.root.own_cpu
        self._descendants_start = self._sum_of_descendants()[0]
        self._descendants = 0.0

    def read(self) -> CpuReading:
        """Return the CPU seconds since the start and the threads of now; the tree has just been refreshed."""
        tree = self._tree
        self._settle()
        for process in reversed(tree.gone):  # children before their parents
            self._hand_over(process)
        total, threads = self._sum_of_descendants()
        # Time that is handed over in ticks may be a little less than what was seen: the sum waits until it has caught up.
        self._descendants = max(self._descendants, total - self._descendants_start)
        return CpuReading(
            max(0.0, tree.root.own_cpu - self._main_start), self._descendants, tree.root.threads, threads
        )

    def _sum_of_descendants(self) -> tuple[float, int]:
        root = self._tree.root
        total = self._kept - self._tree.foreign_cpu
        threads = 0
        if not self._tree.root_gone:
            total += root.reaped_cpu + root.owed
        for process in self._tree.members.values():
            if process is not root:
                total += process.own_cpu + process.reaped_cpu + process.owed
                threads += process.threads
        return total, threads

    def _hand_over(self, process: Process) -> None:
        """Expect the time of a member that is gone at the one that reaped it; keep it where that is no member."""
        self._owing.discard(process)
        root = self._tree.root
        time = process.reaped_cpu + process.owed + (0.0 if process is root else process.own_cpu)
        process.owed = 0.0
        parent = self._tree.members.get(process.parent)
        if parent is None:
            parent = next((other for other in self._tree.gone if other.pid == process.parent), None)
        if parent is None or process is root:
            self._kept += time
            return
        parent.owed += time
        parent.owed -= min(parent.owed, max(0.0, parent.reaped_cpu - parent.reaped_before))
        if parent.owed > 0:
            self._owing.add(parent)

    def _settle(self) -> None:
        """Take from what is owed what has turned up since the last sample; decide about the rest.

        A parent may have been read just before it reaped its child, so the rest is decided upon one sample later.
        """
        for parent in self._owing:
            parent.owed -= min(parent.owed, max(0.0, parent.reaped_cpu - parent.reaped_before))
            if parent.owed > 0 and (parent.owed > _ROUNDING or self._tree.ignores_children(parent)):
                self._kept += parent.owed
            parent.owed = 0.0
        self._owing.clear()
