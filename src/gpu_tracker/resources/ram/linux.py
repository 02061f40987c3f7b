"""Resident memory of main, its descendants and all of them: cheap at every sample, exact if that can matter.

The resident size and the high-water mark of one process are its memory. Of several processes these count shared pages
more than once, so the pages are read (:mod:`.exact`) if the group may have more than ever before. Only what was read
like that, and what is true of one process, enters a figure. What the group may have had beside (:mod:`.ceilings`)
decides when pages are read, and at the end whether the figure is marked as a lower bound.
"""

from __future__ import annotations

from gpu_tracker.resources import LAST, MIDDLE, larger
from gpu_tracker.resources.budget import MOST_AT_EDGE
from gpu_tracker.resources.ram.ceilings import Ceilings
from gpu_tracker.resources.ram.exact import BUDGET, NOTHING, UNKNOWN, ExactReader
from gpu_tracker.resources.ram.marks import Marks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources.budget import Budget, OverheadLimit
    from gpu_tracker.resources.ram.pages import MemoryFiles
    from gpu_tracker.totals import Sizes

_MOST_ARGUMENTS = 1 << 17
"""Bytes that the arguments and the environment of hardly any program exceed."""
_MOST_AT_END = 0.2
"""CPU seconds that a reading may take at the last sample, if there has been none at all."""
_GROWTH = 1.01
_LEAST_GROWTH = 1 << 16
"""What has not grown by this factor and by these bytes is not worth another reading."""
_GROWTH_OF_ONE = 2.0
"""The factor for a single process while it grows: its total is known, and a reading makes its page faults wait."""
_REST_AFTER_LIMIT = 9
"""Readings above a memory limit are followed by a pause that is so many times as long."""
_GROUPS = range(3)
_MAIN, _DESCENDANTS, _COMBINED = _GROUPS


class LinuxRamReader:
    """Reads the memory of a tree, and keeps the largest sizes.

    :param tree: Refreshed before each reading.
    :param budget: What exact readings and marks are paid from.
    :param cpu_time: The CPU seconds that this process has used.
    :param limit: The bytes above which the run is ended; None: there is no limit.
    :param is_reaped: The kernel will report the root's peak.
    """

    def __init__(
        self,
        tree: ProcessTree,
        files: MemoryFiles,
        budget: Budget | OverheadLimit,
        cpu_time: Callable[[], float],
        limit: float | None = None,
        *,
        is_reaped: bool = True,
    ) -> None:
        self._tree = tree
        self._budget = budget
        self._files = files
        self._exact = ExactReader(files, cpu_time)
        self._marks = Marks(files, budget, cpu_time)
        self.ceilings = Ceilings(tree, self._marks, files.huge_pages, is_reaped=is_reaped)
        self._limit = limit
        self._limit_due = float('-inf')
        self.maxima: tuple[Sizes, Sizes, Sizes] = (UNKNOWN, UNKNOWN, UNKNOWN)
        """The largest sizes of main, descendants and all of them, each field by itself."""
        self.used: int | None = None
        """The most bytes that all of them had for certain: sums beside a peak do not count."""
        self.reasons: set[str] = set()
        """Why groups of several may have had more than any ceiling says."""
        self._is_alone = False
        self.most_private = 0
        """The most private bytes that main can have had while it was alone."""
        self._most_read = [0, 0, 0]
        """The largest sizes that were expected when pages were read."""
        self._changes = -1
        self._expected: list[int] | None = None
        """What the groups can have now, as long as nothing changes."""
        self._is_complete = False
        self._counted: list[Process] = []
        self._current: tuple[Sizes, Sizes, Sizes] | None = None

    def watch(self, process: Process) -> None:
        """Read the mark of a command that has just been started: it may end at any moment.

        Its first marks are small. If it ends before another is read, its page faults mark the figure.
        """
        if process.shares_memory:
            self._tree.refresh_root()
        if process.shares_memory:
            return  # it is still held
        found = self._files.mark(process.pid)
        if found is not None:
            size = (found[0], None, None)
            self._fold((size, UNKNOWN, size))

    def read(self, now: float, kind: str) -> None:
        """Read what is resident now, and fold it into the maxima.

        :param now: Seconds on the clock of the budget.
        :param kind: The place of the sample in the run: ``FIRST``, ``MIDDLE`` or ``LAST``.
        """
        tree = self._tree
        if tree.changes == self._changes and self._is_complete and kind != LAST:
            return
        if tree.changes != self._changes:
            self._expected = None
        self._changes = tree.changes
        self._current = None
        root = tree.root
        counted = self._counted = [process for process in tree.members.values() if _counts(process)]
        self.ceilings.note_root(root, counts=root in counted)
        risen = self._marks.read(now, kind, root, counted, is_saving=BUDGET in self.reasons)
        self.ceilings.note(counted)
        if self._expected is None or risen:
            self._fold_single(counted)
        expected = self._expected = self._expected or self.ceilings.expected(counted)
        is_due = bool(counted) and self._is_due(counted, expected)
        for process in risen:
            self._fold_peak(process)  # before the reading, which may have copies that came after a peak
        is_read = is_due and self._read_exactly(now, kind, counted, expected)
        is_waiting = is_due and not is_read
        self.reasons = self.reasons - {BUDGET} | ({BUDGET} if is_waiting else set())
        self._is_complete = not self._marks.are_missing and not is_waiting

    def current(self) -> tuple[Sizes, Sizes, Sizes]:
        """Return about what main, descendants and all of them have now, for a time series."""
        if self._current is None:
            root, counted = self._tree.root, self._counted
            others = [process for process in counted if process is not root]
            main = self._about(_MAIN, [root]) if root in counted else UNKNOWN
            descendants = self._about(_DESCENDANTS, others) if others else NOTHING
            self._current = main, descendants, self._about(_COMBINED, counted) if counted else UNKNOWN
        return self._current

    def _about(self, group: int, members: Sequence[Process]) -> Sizes:
        last, sizes = self.ceilings.last, [process.resident for process in members]
        if last is None or last.groups[group][0] is None:
            return max(sizes), None, None
        total = sizes[0]
        if len(members) > 1:
            total = (last.groups[group][0] or 0) - self.ceilings.freed_by_gone(group)
            total += sum([self._change(process) for process in members])
            total = min(sum(sizes), max(*sizes, total))
        shared = last.groups[group][2]
        if shared is None:
            return total, None, None
        return total, max(0, total - shared), min(total, shared)

    def _change(self, process: Process) -> int:
        seen = self.ceilings.seen(process)
        if seen is None:
            return self.ceilings.growth(process, process.resident)
        return process.resident - seen.resident

    def _is_due(self, counted: Sequence[Process], expected: Sequence[int]) -> bool:
        """Return whether pages are worth reading: a group may have more than ever, or more of it may be private."""
        last = self.ceilings.last
        if last is None:
            return True
        factor = _GROWTH
        known: Sequence[int] = self._most_read
        if len(counted) > 1:
            known = [min(most, size[0] or 0) for most, size in zip(known, self.maxima, strict=True)]
        elif counted[0].resident > counted[0].resident_before:
            factor = _GROWTH_OF_ONE
        if any(now > most * factor + _LEAST_GROWTH for now, most in zip(expected, known, strict=True)):
            return True
        left = sum([seen.copied for process, seen in last.seen.items() if process.ended])
        of_all = last.groups[_COMBINED]
        return left > max(_LEAST_GROWTH, (of_all[0] or 0) // 50) and (of_all[2] or 0) > 0

    def _read_exactly(self, now: float, kind: str, counted: Sequence[Process], expected: Sequence[int]) -> bool:
        """Read the pages if that is affordable; return whether they were read."""
        cost = self._exact.cost(counted)
        limit = self._limit
        is_forced = limit is not None and expected[_COMBINED] > limit >= (self.used or 0) and now >= self._limit_due
        if kind == MIDDLE:
            affordable = is_forced or self._budget.affords(now, cost)
        else:
            most = _MOST_AT_END if kind == LAST and self.ceilings.last is None else MOST_AT_EDGE
            affordable = is_forced or self._budget.affords_at_edge(now, cost, most)
        if not affordable:
            return False
        self._expected = None
        reading, took = self._exact.read(self._tree.root, counted, is_copy=self._tree.root_is_copy)
        if is_forced:
            self._limit_due = now + took * (1 + _REST_AFTER_LIMIT)
        elif kind == MIDDLE:
            self._budget.spend(took)
        self.reasons |= reading.reasons
        self._fold(reading.groups)
        if reading.seen and reading.seen.keys() >= set(counted):  # else some had memory, and have ended meanwhile
            self.ceilings.begin_anew(reading)
            self._most_read = list(map(max, self._most_read, expected))
        return True

    def _fold_single(self, counted: Sequence[Process]) -> None:
        """Fold what is true of one process, and therefore of each group that has it."""
        root = self._tree.root
        peaks = [self._marks.peak(process) for process in counted if process is not root]
        main = self._marks.peak(root) if root in counted else None
        descendants = max(peaks, default=None)
        of_all = larger(main, descendants)
        private = None
        was_alone, self._is_alone = self._is_alone, counted == [root] and not self._tree.root_is_copy
        if self._is_alone:  # nobody shares what belongs to no file
            private = root.resident - root.files - root.huge
        if main is not None and (was_alone or self._is_alone):
            self.most_private = max(self.most_private, main - root.files)
        self._fold(((main, private, None), (descendants, None, None), (of_all, private, None)))

    def _fold_peak(self, process: Process) -> None:
        """Fold what others had for certain while ``process`` had its peak.

        Others count with the smaller of their sizes before and after, and the peak with what it has beyond the last
        exact reading, less all files that others have and that it may have mapped.
        """
        last, root = self.ceilings.last, self._tree.root
        if last is None:
            return
        seen = self.ceilings.seen(process)
        base = process.files if seen is None else seen.resident
        if process.forked and process.relative is not None:
            # fork lends a process the size of its original, as a mark also.
            base = max(base, process.relative.resident, process.relative.mark or 0)
        grown = self._marks.peak(process) - base - max(0, last.files - process.files)
        if grown <= 0:
            return
        found = [UNKNOWN, UNKNOWN, UNKNOWN]
        for group in (_DESCENDANTS, _COMBINED):
            total = last.groups[group][0]
            if total and not (group == _DESCENDANTS and process is root):
                lost = sum([self._lost(other) for other in last.seen if group == _COMBINED or other is not root])
                lost -= self._lost(process) if seen is not None else 0
                found[group] = (total - lost + grown, None, None)
        self._fold_sums(found)

    def _lost(self, process: Process) -> int:
        """Return how much of what ``process`` had at the last exact reading it may have given back by now.

        Of one that has ended, others may have what it shared, and may have ended as well. Of another, page faults since
        the previous sample may have brought what it had given back before.
        """
        if self.ceilings.last is None:
            return 0
        seen = self.ceilings.last.seen[process]
        if process.ended or process.programs != seen.programs:
            return seen.resident
        brought = self.ceilings.brought_since_sample(process)
        return max(0, seen.resident - max(0, min(process.resident_before, process.resident) - brought))

    def _fold(self, groups: Sequence[Sizes]) -> None:
        """Fold what was read of groups, or is true of one process."""
        self.used = larger(self.used, groups[_COMBINED][0])
        self._fold_sums(groups)

    def _fold_sums(self, groups: Sequence[Sizes]) -> None:
        first, second, third = map(_larger, self.maxima, groups)
        self.maxima = (first, second, third)


def _larger(most: Sizes, sizes: Sizes) -> Sizes:
    """Return the larger of each size; a group without processes leaves what was known."""
    if not sizes[0]:
        return most
    total, private, shared = map(larger, most, sizes)
    return total, private, shared


def _counts(process: Process) -> bool:
    """Return whether ``process`` has memory of its own, and runs its program.

    In the middle of exec it has arguments only, and no page of a file. What it has then says nothing of the program.
    """
    if process.ended or process.shares_memory or not process.resident:
        return False
    return process.files > 0 or process.resident > _MOST_ARGUMENTS
