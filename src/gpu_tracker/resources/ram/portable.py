"""Resident memory through psutil's figures, on any system: what is private and what is shared is not told there."""

from __future__ import annotations

from gpu_tracker.resources.ram.reading import RamReading, Resident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process

_UNKNOWN = (None, None, None)


class PortableRamReader:
    """Adds up resident sizes; pages that several processes share count once for each of them."""

    unreadable = False

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree

    def watch(self, process: Process) -> None:
        """Do nothing: no peaks are told portably."""

    def read(self, now: float, kind: str) -> RamReading:
        """Return what is resident now; the tree has just been refreshed."""
        del now, kind
        root = self._tree.root
        members = self._tree.members.values()
        descendants = sum(process.resident for process in members if process is not root)
        if root.ended or root.shares_memory:
            return RamReading(Resident(None, 0, 0), Resident(descendants, 0, 0), Resident(None, 0, 0), _UNKNOWN)
        return RamReading(
            Resident(root.resident, 0, 0),
            Resident(descendants, 0, 0),
            Resident(root.resident + descendants, 0, 0),
            _UNKNOWN,
        )
