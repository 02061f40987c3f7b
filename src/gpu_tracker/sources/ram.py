"""Resident memory of the root, of its descendants and of both together: cheap at every sample, exact where it matters.

Every sample knows the resident size of each member. For one process that is the truth. For a group it counts shared
pages more than once, so the exact split is read where the group may have reached a new maximum: its cheap sum has
grown; its members have had page faults (which also tells when copy-on-write has turned shared pages into private ones,
while no resident size changes); new members have come; or one has ended with which others shared pages. What happens
between two samples is read from the kernel's high-water marks.
"""

from __future__ import annotations

from gpu_tracker.sources.exact import SEVERAL, ExactReadings
from gpu_tracker.sources.peaks import PeakReader
from gpu_tracker.sources.reading import LAST, RamReading, Resident
from gpu_tracker.sources.rises import Rises, reconcile
from gpu_tracker.sources.upper import UpperBounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.allowance import Allowance, OverheadLimit
    from gpu_tracker.process_tree import ProcessTree
    from gpu_tracker.process_tree.process import Process
    from gpu_tracker.sources.memory_files import MemoryFiles


class RamSource:
    """Reads the memory of a tree on Linux.

    :param tree: Refreshed before each reading.
    :param cpu_time: The CPU seconds that this process has used, by which optional readings are paid.
    """

    def __init__(
        self,
        tree: ProcessTree,
        files: MemoryFiles,
        allowance: Allowance | OverheadLimit,
        cpu_time: Callable[[], float],
    ) -> None:
        self._tree = tree
        self._files = files
        self._exact = ExactReadings(tree, files, allowance, cpu_time)
        self._rises = Rises(tree, self._exact)
        self._peaks = PeakReader(files, allowance, cpu_time)
        self._upper = UpperBounds(tree)
        self._launch_peak = 0
        self._last: RamReading | None = None
        """What was read last, if nothing is left to be read of the tree as it was then."""
        self._changes = 0
        """The changes of the tree at that time."""

    @property
    def unreadable(self) -> bool:
        """Some process may not be read, because it is another user's."""
        return self._exact.unreadable

    def read(self, now: float, kind: str) -> RamReading:
        """Return what is resident now, and the peaks since the sample before.

        :param now: Seconds on the clock of the allowance.
        :param kind: Where the sample stands in the run: ``FIRST``, ``MIDDLE`` or ``LAST``.
        """
        if self._last is None or self._changes != self._tree.changes or kind == LAST:
            self._changes = self._tree.changes
            reading, complete = self._read(now, kind)
            self._last = reading if complete else None
            return reading
        return self._last

    def _read(self, now: float, kind: str) -> tuple[RamReading, bool]:
        """Return the reading, and whether it has all that there is to be read."""
        root = self._tree.root
        counted = [
            process for process in self._tree.members.values() if not process.ended and not process.shares_memory
        ]
        descendants = [process for process in counted if process is not root]
        of_root = 0 if len(descendants) == len(counted) else root.resident
        of_descendants = sum([process.resident for process in descendants])
        sizes = [of_root, of_descendants, of_root + of_descendants]

        due, exact = self._exact.read(now, kind, counted, sizes)
        if exact:
            groups = self._split_groups()
            if not descendants:
                groups[1] = Resident(0, 0, 0)
        else:
            groups = [
                Resident(of_root),
                Resident(of_descendants if len(descendants) < SEVERAL else None) if descendants else Resident(0, 0, 0),
                Resident(sizes[2] if len(counted) < SEVERAL else None),
            ]
            if counted == [root]:
                groups[0].private = groups[2].private = self._rises.private_of_root()
        if not of_root:  # it has ended, or it is not the program that is tracked yet: nothing is known about it now
            groups[0] = Resident(None)
            if not descendants:
                groups[2] = Resident(None)
        copies = {process for process in counted if process.forked and process.peak is None}
        risen = self._peaks.read(now, kind, root, counted, saving=due and not exact)
        for group, members in ((1, descendants), (2, counted)):
            if groups[group].total is None and (due or risen):
                groups[group].total = self._rises.estimate(group, members)
        marks = self._upper.sums(counted)
        self._rises.raise_groups(groups, risen, counted, copies)
        self._take_launch_peak(groups)
        reconcile(groups, marks, [self._rises.doubled([root]), self._rises.doubled(descendants)])
        complete = (exact or not due) and not self._peaks.pending
        return RamReading(groups[0], groups[1], groups[2], self._upper.read(counted, marks)), complete

    def watch(self, process: Process) -> None:
        """Read the high-water mark of a command that has just been started: it may end at any moment."""
        self._launch_peak = max(self._launch_peak, self._files.peak(process.pid) or 0)
        self._last = None

    def _take_launch_peak(self, groups: list[Resident]) -> None:
        if self._launch_peak:
            for watched in (groups[0], groups[2]):
                watched.peak = max(watched.peak or 0, self._launch_peak)
            self._launch_peak = 0

    def _split_groups(self) -> list[Resident]:
        """Return the figures of the exact reading that has just been made, to be changed freely."""
        split = self._exact.last
        if split is None:
            return [Resident(None), Resident(None), Resident(None)]
        return [Resident(r.total, r.private, r.shared) for r in (split.main, split.descendants, split.combined)]
