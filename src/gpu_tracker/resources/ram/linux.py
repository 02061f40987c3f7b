"""Resident memory of the root, of its descendants and of both together: cheap at every sample, exact where it matters.

Every sample knows the resident size of each member. For one process that is the truth. For a group it counts shared
pages more than once, so the exact split is read where the group may have reached a new maximum: its cheap sum has
grown; its members have had page faults (which also tells when copy-on-write has turned shared pages into private ones,
while no resident size changes); new members have come; or one has ended with which others shared pages. What happens
between two samples is read from the kernel's high-water marks.
"""

from __future__ import annotations

from gpu_tracker.processes.stat import PAGE_SIZE
from gpu_tracker.resources import LAST
from gpu_tracker.resources.ram.estimates import DESCENDANTS, Estimates, handed_over, reconcile
from gpu_tracker.resources.ram.exact import SEVERAL, ExactReadings
from gpu_tracker.resources.ram.peaks import PeakReader
from gpu_tracker.resources.ram.reading import RamReading, Resident
from gpu_tracker.resources.ram.split import has_begun
from gpu_tracker.resources.ram.upper_bounds import UpperBounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources.budget import Budget, OverheadLimit
    from gpu_tracker.resources.ram.memory_files import MemoryFiles

_COMBINED = 2
_SLACK = 1 << 18
"""Bytes by which the kernel's sizes are inexact."""


class LinuxRamReader:
    """Reads the memory of a tree on Linux.

    :param tree: Refreshed before each reading.
    :param cpu_time: The CPU seconds that this process has used, by which optional readings are paid.
    """

    def __init__(
        self,
        tree: ProcessTree,
        files: MemoryFiles,
        budget: Budget | OverheadLimit,
        cpu_time: Callable[[], float],
    ) -> None:
        self._tree = tree
        self._files = files
        self._exact = ExactReadings(tree, files, budget, cpu_time)
        self._estimates = Estimates(tree, self._exact)
        self._peaks = PeakReader(files, budget, cpu_time)
        self._upper = UpperBounds(tree, self._exact, files.huge_pages)
        self._launch_peak = 0
        self._largest_sizes = [0, 0, 0]
        """The largest resident sizes of root, descendants and both that were looked at between samples on the grid."""
        self._largest: dict[Process, int] = {}
        """What each process had at most at any sample since the last exact reading."""
        self._alone: dict[Process, int] = {}
        """What it had of that which was its own, copies since then left out."""
        self._given_back_by_ended = 0
        """Bytes of those that have ended since, see :meth:`_given_back_by`."""
        self._faults: dict[Process, int] = {}
        """The page faults that each had had by then."""
        self._last: RamReading | None = None
        """What was read last; None where that is out of date though the tree has not changed."""
        self._is_complete = False
        """Nothing is left to be read of the tree as it was then."""
        self._changes = 0
        """The changes of the tree's memory at that time."""

    @property
    def unreadable(self) -> bool:
        """Some process may not be read, because it is another user's."""
        return self._exact.unreadable

    @property
    def spent(self) -> float:
        """CPU seconds of the exact readings that were paid from the budget."""
        return self._exact.spent

    @property
    def doubled(self) -> int:
        """The most bytes that any one process was seen to have mapped twice: the kernel's marks count them twice."""
        return self._exact.doubled

    @property
    def most_waited_for(self) -> int | None:
        """How many descendants there can have been at once; None where not all of them have been waited for."""
        return self._upper.most_at_once if self._upper.all_are_waited_for else None

    @property
    def may_miss_orphans(self) -> bool:
        """Descendants may have ended, or live on, that no sample has seen and for which no member has waited."""
        return self._upper.orphans.may_have_been

    def read(self, now: float, kind: str) -> RamReading:
        """Return what is resident now, and the peaks since the sample before.

        :param now: Seconds on the clock of the budget.
        :param kind: Where the sample stands in the run: ``FIRST``, ``MIDDLE`` or ``LAST``.
        """
        unchanged = self._last if self._changes == self._tree.memory_changes and kind != LAST else None
        if unchanged is not None and self._is_complete:
            self._upper.orphans.settle()
            return unchanged
        self._changes = self._tree.memory_changes
        reading = self._last = self._read(now, kind, unchanged)
        return reading

    def read_early(self, now: float, due: Sequence[Process]) -> RamReading | None:
        """Return what is resident between two samples on the grid, where the tree's memory has just been refreshed.

        None where that is no more than before, and nobody has come or gone.

        :param due: The processes whose marks are read.
        """
        counted, descendants = self._counted()
        for process in counted:
            process.anonymous_least = min(process.anonymous_least, process.anonymous)
        sizes = self._sizes(counted, descendants)
        copies = {process for process in counted if process.forked and process.peak is None}
        exact = self._exact.read_early(now, counted, sizes)
        risen = self._peaks.read_these([process for process in due if process in counted])
        grown = any(size > most for size, most in zip(sizes, self._largest_sizes, strict=True))
        if not (exact or risen or grown or self._upper.is_stale(counted)):
            return None
        self._last = None  # peaks that were read here are news for the next sample as well
        self._largest_sizes = list(map(max, sizes, self._largest_sizes))
        groups = self._split_groups(counted, descendants) if exact else self._estimated_groups(counted, descendants)
        return self._finish(groups, counted, descendants, copies, risen, is_exact=exact, is_whole=False)

    def estimate(self) -> Sequence[Resident]:
        """Return what root, descendants and both have now, estimated, without reading anything."""
        return self._estimated_groups(*self._counted())

    def watch(self, process: Process) -> None:
        """Read the high-water mark of a command that has just been started: it may end at any moment."""
        self._launch_peak = max(self._launch_peak, self._files.peak(process.pid) or 0)
        self._last = None

    def _read(self, now: float, kind: str, unchanged: RamReading | None) -> RamReading:
        """Return what is resident now.

        :param unchanged: What was read last, where that is right as long as nothing else can be read and afforded.
        """
        root = self._tree.root
        counted, descendants = self._counted()
        sizes = self._sizes(counted, descendants)
        due, exact = self._exact.read(now, kind, counted, sizes)
        copies = {process for process in counted if process.forked and process.peak is None}
        risen = self._peaks.read(now, kind, root, counted, saving=due and not exact)
        is_read = not self._peaks.pending and (exact or not (due or self._exact.is_unconfirmed))
        if unchanged is not None and not (exact or risen or is_read):
            self._upper.orphans.settle()
            return unchanged
        if exact:
            groups = self._split_groups(counted, descendants)
        elif due or risen or len(counted) < SEVERAL:
            groups = self._estimated_groups(counted, descendants)
        else:  # nothing that counts can be larger than at the exact reading, but for single processes
            of_one = len(descendants) == 1
            groups = [
                self._of_main(),
                self._estimates.of_group(DESCENDANTS, descendants) if of_one else Resident(None),
                Resident(None),
            ]
            if not descendants:
                groups[1] = Resident(0, 0, 0)
        reading = self._finish(groups, counted, descendants, copies, risen, is_exact=exact, is_whole=True)
        for process in counted:
            process.anonymous_before = process.anonymous_least = process.anonymous
        # What has just been estimated is to be confirmed, also where nothing changes any more.
        self._is_complete = not self._peaks.pending and (exact or not (due or self._exact.is_unconfirmed))
        return reading

    def _counted(self) -> tuple[list[Process], list[Process]]:
        """Return the processes whose memory counts, and those of them that are descendants."""
        root = self._tree.root
        counted = [
            process
            for process in self._tree.members.values()
            if not process.ended and not process.left and not process.shares_memory and has_begun(process)
        ]
        return counted, [process for process in counted if process is not root]

    def _sizes(self, counted: Sequence[Process], descendants: Sequence[Process]) -> list[int]:
        of_root = 0 if len(descendants) == len(counted) else self._tree.root.resident
        of_descendants = sum([process.resident for process in descendants])
        return [of_root, of_descendants, of_root + of_descendants]

    def _of_main(self) -> Resident:
        root = self._tree.root
        if not root.resident or root.ended or root.shares_memory or not has_begun(root):
            return Resident(None)  # it has ended, or it is not the program that is tracked yet: nothing is known now
        return self._estimates.of_group(0, [root])

    def _estimated_groups(self, counted: Sequence[Process], descendants: Sequence[Process]) -> list[Resident]:
        main = self._of_main()
        if descendants:
            combined = self._estimates.of_group(_COMBINED, counted)
        else:
            combined = Resident(main.total, main.private, main.shared)
            combined.lower = main.lower
        return [main, self._estimates.of_group(DESCENDANTS, descendants), combined]

    def _split_groups(self, counted: Sequence[Process], descendants: Sequence[Process]) -> list[Resident]:
        """Return the figures of the exact reading that has just been made, to be changed freely."""
        split = self._exact.last
        if split is None:
            return [Resident(None), Resident(None), Resident(None)]
        groups = [Resident(r.total, r.private, r.shared) for r in (split.main, split.descendants, split.combined)]
        for group, members, twice in zip(groups[1:], (descendants, counted), split.handed_over, strict=True):
            certain = (group.total or 0) - handed_over(members) - twice
            group.lower = None if group.total is None else max(0, certain)
        if not descendants:
            groups[1] = Resident(0, 0, 0)
        return groups

    def _finish(
        self,
        groups: list[Resident],
        counted: Sequence[Process],
        descendants: Sequence[Process],
        copies: set[Process],
        risen: Sequence[Process],
        *,
        is_exact: bool,
        is_whole: bool,
    ) -> RamReading:
        """Return the reading, with the peaks of those who have ``risen`` and the bounds until now."""
        estimates = self._estimates
        marks = self._upper.marks(counted)
        estimates.raise_groups(groups, risen, counted, copies)
        if self._launch_peak:
            for watched in (groups[0], groups[_COMBINED]):
                watched.peak = max(watched.peak or 0, self._launch_peak)
                watched.lower = max(watched.lower or 0, self._launch_peak)
            self._launch_peak = 0
        reconcile(groups, marks, [estimates.doubled([self._tree.root]), estimates.doubled(descendants)])
        upper = self._upper.read(counted, is_whole=is_whole)
        reading = RamReading(groups[0], groups[1], groups[2], upper)
        self._note_sizes(counted, risen)
        if not is_exact and len(counted) >= SEVERAL:
            self._exact.expect([max(group.total or 0, group.peak or 0) for group in groups])
        split = self._exact.last
        if is_exact and split is not None and split.is_firm:
            reading.is_exact = True
            reading.given_back = self._given_back()
            self._largest, self._alone, self._given_back_by_ended = {}, {}, 0
            self._note_sizes(counted, risen)
            self._faults = {process: process.faults for process in counted}
        return reading

    def _note_sizes(self, counted: Sequence[Process], risen: Sequence[Process]) -> None:
        largest = self._largest
        for process in counted:
            if process.resident > largest.get(process, -1):
                largest[process] = process.resident
                self._alone[process] = self._estimates.alone(process)
        for process in risen:
            largest[process] = max(largest[process], process.peak or 0)
        if len(largest) > len(counted):
            for process in [process for process in largest if process.ended or process.left]:
                self._given_back_by_ended += self._given_back_by(process)
                del largest[process]
                self._alone.pop(process, None)

    def _given_back(self) -> int:
        """Return how many bytes fewer the processes have than each had at most since the last exact reading."""
        return self._given_back_by_ended + sum([self._given_back_by(process) for process in self._largest])

    def _given_back_by(self, process: Process) -> int:
        """Return the same of one process.

        Of a copy that has ended only that counts which it had not inherited, and what it can have copied: its files
        are those of the others as well.
        """
        if process.forked and (process.ended or process.left):
            return max(0, self._alone.get(process, 0)) + process.inherited - self._still_shared(process)
        most = self._largest[process]
        return most - process.resident if most > process.resident + _SLACK else 0

    def _still_shared(self, process: Process) -> int:
        """Return the inherited bytes that neither ``process`` nor who has passed them on can have copied."""
        if not process.inherited:
            return 0
        family = [process] if process.relative is None else [process, process.relative]
        faults = sum([member.faults - self._faults.get(member, 0) for member in family])
        return max(0, process.inherited - faults * PAGE_SIZE)
