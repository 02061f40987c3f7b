"""When the exact split of a tree's memory is worth reading, and whether it can be afforded."""

from __future__ import annotations

from gpu_tracker.processes.stat import PAGE_SIZE
from gpu_tracker.resources import LAST, MIDDLE
from gpu_tracker.resources.budget import MOST_AT_EDGE
from gpu_tracker.resources.ram.split import SplitReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources.budget import Budget, OverheadLimit
    from gpu_tracker.resources.ram.memory_files import MemoryFiles
    from gpu_tracker.resources.ram.split import Seen, Split

_MOST_AT_END = 0.2
"""CPU seconds that a reading may take at the last sample, where there has been none at all."""
_MOST_DETAILED = 0.25
"""CPU seconds above which sums are read in place of mappings."""
SEVERAL = 2
"""From this many processes on, resident sizes added up may count pages more than once."""
_GROWTH = 1.01
_LEAST_GROWTH = 1 << 16
"""What has not grown by this factor and by these bytes is not worth another reading."""
_GROWTH_OF_ONE = 2.0
"""The same for a single process while it grows: its total is known, and a reading makes its page faults wait."""
_GROWTH_OF_YOUNG = 1.5
"""The same between two samples on the grid."""
_MUCH_SHARED = 32 << 20
"""Shared bytes of a single process above which its mappings are read: more than libraries take."""
_SOON = 0.25
_AT_ONCE = 0.001
"""Seconds: see :meth:`ExactReadings._changes_fast`."""
_CHANGED_SHARE = 0.02
"""Changed memory since the last reading that is worth another one, as a share of the group's size."""


class ExactReadings:
    """The exact readings of a tree, the last two of which are kept.

    :param tree: Refreshed before each reading.
    :param cpu_time: The CPU seconds that this process has used, by which readings are paid.
    """

    def __init__(
        self,
        tree: ProcessTree,
        files: MemoryFiles,
        budget: Budget | OverheadLimit,
        cpu_time: Callable[[], float],
    ) -> None:
        self._tree = tree
        self._budget = budget
        self._reader = SplitReader(files, cpu_time)
        self.last: Split | None = None
        self.before: Split | None = None
        self._most_read = [0, 0, 0]
        """The largest resident sizes of root, descendants and both at which there was an exact reading."""
        self._most_exact = [0, 0, 0]
        self._most_private = [0, 0, 0]
        """The largest totals and private sizes that were read exactly, for the three as well."""
        self.doubled = 0
        """The most bytes that any one process was seen to have mapped twice."""
        self.spent = 0.0
        """CPU seconds of the readings that were paid from the budget."""
        self._estimated = [0, 0, 0]
        """The most that the three were estimated to have since the last reading."""
        self._faults = 0
        self._faults_at = float('-inf')
        """Page faults of the tree when a reading was last considered, and when that was."""
        self._last_size = 0
        """Resident bytes of the tree at the sample before."""

    @property
    def unreadable(self) -> bool:
        """Some process may not be read, because it is another user's."""
        return self._reader.unreadable

    def read(self, now: float, kind: str, counted: Sequence[Process], sizes: Sequence[int]) -> tuple[bool, bool]:
        """Read the split where that could find more than the last ones; tell whether it could, and whether it was read.

        :param counted: The processes whose memory counts.
        :param sizes: The resident sizes of root, descendants and both, added up.
        """
        due = self._is_due(counted, sizes)
        waits = due and len(counted) < SEVERAL and kind == MIDDLE and self._still_grows(sizes)
        self._last_size = sizes[2]
        # Nothing is saved up for the check of an estimate: it is made where it can be paid at once.
        wanted = (due and not waits) or (not due and self.is_unconfirmed)
        return due, wanted and self._read_split(now, kind, counted, sizes)

    def expect(self, estimated: Sequence[int]) -> None:
        """Take note of what root, descendants and both are estimated to have; the next reading checks that."""
        self._estimated = list(map(max, self._estimated, estimated))

    @property
    def is_unconfirmed(self) -> bool:
        """Whether more was estimated than any exact reading has found."""
        return _exceeds(self._estimated, self._most_exact)

    def read_early(self, now: float, counted: Sequence[Process], sizes: Sequence[int]) -> bool:
        """Read the split between two samples on the grid where a group has grown much; tell whether it was read."""
        if not _exceeds(sizes, self._most_read, _GROWTH_OF_YOUNG):
            return False
        if self._reader.cost(counted, detailed=True) > MOST_AT_EDGE:
            return (
                False  # large groups are read at the points of the grid: else the budget is spent on a group that grows
            )
        return self._read_split(now, MIDDLE, counted, sizes)

    def _is_due(self, counted: Sequence[Process], sizes: Sequence[int]) -> bool:
        """Return whether an exact reading could find more than the last ones."""
        split = self.last
        if split is None:
            return bool(counted)
        if _exceeds(sizes, self._most_read):
            return True
        worth_it = max(_LEAST_GROWTH, _CHANGED_SHARE * (split.combined.total or 0))
        if split.copied > worth_it and _exceeds(sizes, self._most_private) and _left_behind(split) > worth_it:
            return True
        if len(counted) < SEVERAL or not _exceeds(sizes, self._most_exact):
            return False
        return self._most_changed(counted, split.counted) > worth_it

    def _still_grows(self, sizes: Sequence[int]) -> bool:
        """Return whether an exact reading of a single process would soon be followed by another one."""
        grows = _exceeds(sizes[2:], [self._last_size])
        return grows and self.last is not None and not _exceeds(sizes, self._most_read, _GROWTH_OF_ONE)

    def _most_changed(self, counted: Sequence[Process], then: dict[Process, Seen]) -> int:
        """Return how many bytes at most were not there at the last exact reading or were shared then.

        A process that was forked brings no page but by a fault; of any other new one all may be new. What came while
        pages were counted may have come after they were.
        """
        changed = 0
        for process in counted:
            seen = then.get(process)
            if seen is not None:
                changed += max(0, process.faults - seen.faults_before) * PAGE_SIZE
            elif process.forked:
                changed += min(process.resident, process.faults * PAGE_SIZE)
            else:
                changed += process.resident
        return changed

    def _read_split(self, now: float, kind: str, counted: Sequence[Process], sizes: Sequence[int]) -> bool:
        """Read the exact split where that is affordable, and tell whether it was."""
        detailed = len(counted) > 1 and self._reader.cost(counted, detailed=True) <= _MOST_DETAILED
        cost = self._reader.cost(counted, detailed=detailed)
        if kind == LAST and self.last is None:
            if detailed and cost > _MOST_AT_END:
                detailed = False
                cost = self._reader.cost(counted, detailed=False)
            affordable = self._budget.affords_at_edge(now, cost, _MOST_AT_END)
        elif kind == MIDDLE:
            # While much changes, what a reading costs is held back: the memory is of more interest when it has settled.
            held_back = max(cost, self._budget.reserve) if self._changes_fast(now, counted) else 0.0
            affordable = self._budget.affords(now, cost + held_back)
        else:
            affordable = self._budget.affords_at_edge(now, cost, MOST_AT_EDGE)
        if not affordable:
            return False
        split, took = self._reader.read(self._tree.root, counted, detailed=detailed)
        if len(counted) < SEVERAL and self._may_be_mapped_twice(split, counted):
            split, took_again = self._reader.read(self._tree.root, counted, detailed=True)
            took += took_again
        self.before, self.last = self.last, split
        self.doubled = max([self.doubled, *[seen.doubled for seen in split.counted.values()]])
        groups = (split.main, split.descendants, split.combined)
        if split.is_firm:  # else the next reading has to confirm what was estimated
            self._estimated = [0, 0, 0]
        self._most_read = list(map(max, sizes, self._most_read))
        self._most_exact = [max(most, group.total or 0) for most, group in zip(self._most_exact, groups, strict=True)]
        self._most_private = [
            max(most, group.private or 0) for most, group in zip(self._most_private, groups, strict=True)
        ]
        if kind == MIDDLE:
            self._budget.spend(took)
            self.spent += took
        return True

    def _may_be_mapped_twice(self, split: Split, counted: Sequence[Process]) -> bool:
        """Return whether a single process shares so much that its mappings are worth reading: perhaps with itself."""
        shares_much = (split.combined.shared or 0) > _MUCH_SHARED
        return shares_much and self._reader.cost(counted, detailed=True) <= _MOST_DETAILED

    def _changes_fast(self, now: float, counted: Sequence[Process]) -> bool:
        """Return whether, since this was asked last, so much has changed that it would be worth an exact reading.

        Where that was a moment ago, what will have changed soon counts, if it goes on like this.
        """
        faults, at = self._faults, self._faults_at
        self._faults, self._faults_at = sum([process.faults for process in counted]), now
        changed = (self._faults - faults) * PAGE_SIZE * max(1.0, _SOON / max(now - at, _AT_ONCE))
        known = 0 if self.last is None else self.last.combined.total or 0
        return changed > max(_LEAST_GROWTH, _CHANGED_SHARE * known)


def _left_behind(split: Split) -> int:
    """Return how many bytes at most belong to one process alone since others have ended that shared them with it."""
    return sum([seen.copied for process, seen in split.counted.items() if process.ended])


def _exceeds(sizes: Sequence[int], known: Sequence[int], factor: float = _GROWTH) -> bool:
    return any(size > most * factor + _LEAST_GROWTH for size, most in zip(sizes, known, strict=True))
