"""CPU time of the root and of its descendants, from cumulative counters.

The CPU time of a tree is what its living members have used plus what they have got from their reaped children. When
a member ends and a member reaps it, its time moves from the one to the other, so that the sum does not jump and
children that lived between two samples count. Two cases need care: a member that was reaped by somebody
outside the tree, and one whose parent ignores SIGCHLD, to which the kernel then adds nothing. Its last seen time is
kept by :class:`.HandedOver`, and what it used since comes from :class:`.MissedTime`, where that can be known.
"""

from __future__ import annotations

from gpu_tracker.resources.cpu.handed_over import HandedOver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.resources.cpu.missed_time import MissedTime


class CpuReading:
    """CPU seconds since the start, which never decrease, and threads at this moment.

    ``begun`` is when the reading of them began, where that is known: on a busy machine it may take its time.
    """

    __slots__ = ('begun', 'descendants', 'descendants_threads', 'main', 'main_threads')

    def __init__(
        self,
        main: float,
        descendants: float,
        main_threads: int,
        descendants_threads: int,
        begun: float | None = None,
    ) -> None:
        self.main = main
        self.descendants = descendants
        self.main_threads = main_threads
        self.descendants_threads = descendants_threads
        self.begun = begun


class CpuCounters:
    """Folds the times of a tree's members into the CPU seconds of the root and of its descendants since the start.

    :param missed: Adds what the members' counters miss; None: nothing does.
    """

    def __init__(self, tree: ProcessTree, missed: MissedTime | None = None) -> None:
        self._tree = tree
        self._missed = missed
        self._handed_over = HandedOver(tree)
        self._main_start = tree.root.own_cpu
        self._descendants_start, self._threads = self._sum_of_descendants()
        self._descendants = 0.0
        self._changes = tree.changes
        self._total = self._descendants_start
        self._reaped_start = tree.root.reaped_cpu

    def read(self) -> CpuReading:
        """Return the CPU seconds since the start and the threads of now; the tree has just been refreshed."""
        tree, handed_over = self._tree, self._handed_over
        handed_over.has_ignored = handed_over.has_adopted = False
        if tree.changes != self._changes or handed_over.is_open:
            self._changes = tree.changes
            self._add_up()
        main, descendants = max(0.0, tree.root.own_cpu - self._main_start), self._descendants
        if self._missed is not None:
            main, descendants = self._missed.add(
                main, descendants, ignored=handed_over.has_ignored, adopted=handed_over.has_adopted
            )
        return CpuReading(main, descendants, tree.root.threads, self._threads, tree.begun)

    @property
    def unreaped(self) -> float:
        """CPU seconds of descendants that the root has not got."""
        root = self._tree.root
        of_reaped = root.reaped_cpu - self._reaped_start + self._handed_over.of(root)
        return max(0.0, self._total - self._descendants_start - of_reaped)

    @property
    def adopted(self) -> float:
        """CPU seconds of members that somebody outside the tree has reaped, as they were last seen."""
        return self._handed_over.adopted

    def _add_up(self) -> None:
        if self._tree.gone or self._handed_over.is_open:
            self._handed_over.settle()
        self._total, self._threads = self._sum_of_descendants()
        # Time that is handed over in ticks may be a little less than what was seen: the sum waits until it has caught
        # up.
        self._descendants = max(self._descendants, self._total - self._descendants_start)

    def _sum_of_descendants(self) -> tuple[float, int]:
        root = self._tree.root
        total = self._handed_over.missing - self._tree.foreign_cpu
        threads = 0
        if not self._tree.root_gone:
            total -= root.own_cpu
            threads -= root.threads
        self._handed_over.remember()
        for process in self._tree.members.values():
            total += process.own_cpu + process.reaped_cpu
            threads += process.threads
        return total, threads
