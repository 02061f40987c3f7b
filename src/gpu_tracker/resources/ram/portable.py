"""Resident memory through psutil, on any system: sizes added up, so that shared pages count once for each process."""

from __future__ import annotations

from gpu_tracker.resources import larger
from gpu_tracker.resources.ram.exact import NOTHING, UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process
    from gpu_tracker.totals import Sizes


class PortableRamReader:
    """Adds up resident sizes. Private and shared memory are unknown."""

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self.maxima: tuple[Sizes, Sizes, Sizes] = (UNKNOWN, UNKNOWN, UNKNOWN)
        self.used: int | None = None
        self.reasons: set[str] = set()
        self.most_private = 0

    def watch(self, process: Process) -> None:
        """Do nothing: there are no high-water marks here."""

    def read(self, now: float, kind: str) -> None:
        """Fold what is resident now into the maxima; the tree has just been refreshed."""
        del now, kind
        living = [process.resident for process in self._tree.members.values() if not process.shares_memory]
        self.used = larger(self.used, max(living, default=None))  # sums may count pages several times
        first, second, third = [
            (larger(most[0], size[0]), None, None) for most, size in zip(self.maxima, self.current(), strict=True)
        ]
        self.maxima = (first, second, third)

    def current(self) -> tuple[Sizes, Sizes, Sizes]:
        """Return what main, descendants and all of them have now."""
        root = self._tree.root
        descendants = sum(process.resident for process in self._tree.members.values() if process is not root)
        of_descendants: Sizes = (descendants, None, None) if descendants else NOTHING
        if root.ended or root.shares_memory:
            return UNKNOWN, of_descendants, UNKNOWN
        return (root.resident, None, None), of_descendants, (root.resident + descendants, None, None)
