"""High-water marks (VmHWM): the most that each process had resident, also between two samples. Linux only."""

from __future__ import annotations

import os

from gpu_tracker.processes.stat import HUGE_PAGE, PAGE_SIZE
from gpu_tracker.resources import MIDDLE
from gpu_tracker.resources.budget import MOST_AT_EDGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources.budget import Budget, OverheadLimit
    from gpu_tracker.resources.ram.pages import MemoryFiles

_FIRST_COST = 20e-6
"""CPU seconds for reading one mark, until that has been measured."""
_CORES = os.cpu_count() or 1
_INEXACT = min(max(1 << 20, 3 * _CORES * max(32, 2 * _CORES) * PAGE_SIZE), 1 << 23)
"""Bytes by which a mark may seem to rise: every core keeps some pages of each counter for itself (since Linux 6.2)."""


def _largest_page() -> int:
    """Return the bytes that one page fault can bring: a huge page, or a few pages of a file at a time."""
    try:
        with open('/sys/kernel/mm/transparent_hugepage/enabled', 'rb') as file:
            if b'[never]' not in file.read():
                return HUGE_PAGE
    except OSError:
        pass  # this kernel has no huge pages, or a container hides the file
    return 16 * PAGE_SIZE


LARGEST_PAGE = _largest_page()


class Marks:
    """Reads the marks that can have risen: the root's always, the others' within the budget.

    A mark cannot rise without a page fault, and every sample has the page faults. A mark that is read late still has
    the peak, unless the process calls exec before.

    :param cpu_time: The CPU seconds that this process has used.
    """

    def __init__(self, files: MemoryFiles, budget: Budget | OverheadLimit, cpu_time: Callable[[], float]) -> None:
        self._files = files
        self._budget = budget
        self._cpu_time = cpu_time
        self._cost = _FIRST_COST
        self._before_start: dict[Process, int] | None = None
        """The marks of processes that are older than the run: peaks up to these may be from before."""
        self.are_missing = False
        """Marks that can have risen were not affordable at the last reading."""

    def read(
        self, now: float, kind: str, root: Process, counted: Sequence[Process], *, is_saving: bool = False
    ) -> list[Process]:
        """Read marks; return the processes whose mark has risen above what they have now.

        :param is_saving: The budget is needed for an exact reading: between the edges only the root's mark is read.
        """
        if self._before_start is None:
            self._before_start = dict.fromkeys(counted, 0)
        waiting = [process for process in counted if process.huge or process.faults != process.mark_faults]
        self.are_missing = False
        if not waiting:
            return []
        waiting.sort(key=lambda process: (process is not root, process.mark_faults - process.faults))
        cost = max(self._cost, 1e-6)
        affordable = self._budget.count(now, cost) if kind == MIDDLE else int(MOST_AT_EDGE / cost)
        affordable = 1 if is_saving and kind == MIDDLE else max(1, min(len(waiting), affordable))
        self.are_missing = affordable < len(waiting)
        before = self._cpu_time()
        risen = [process for process in waiting[:affordable] if self.has_risen(process)]
        took = self._cpu_time() - before
        self._cost += 0.1 * (took / affordable - self._cost)
        if kind == MIDDLE:
            self._budget.spend(took)
        return risen

    def has_risen(self, process: Process) -> bool:
        """Read the mark of ``process``; return whether it has risen above what the process has now."""
        found = self._files.mark(process.pid)
        if found is None:
            return False
        huge_before = process.huge
        mark, resident, process.huge = found
        process.resident = resident + process.huge
        process.mark_faults, process.mark_resident = process.faults, process.resident
        # The mark may be from another moment than the huge pages.
        process.most = max(mark + max(huge_before, process.huge), process.resident)
        mark = max(mark, process.resident)
        before = process.mark
        process.mark = mark
        older = self._before_start or {}
        if before is None and older.get(process):
            del older[process]  # another program: its mark has begun anew
        if process in older:
            older[process] = older[process] or process.most
            return mark > max(older[process] + _INEXACT, before or 0, process.resident)
        return mark > max(before or 0, process.resident)

    def peak(self, process: Process) -> int:
        """Return the most that ``process`` is known to have had since the run has begun."""
        # Huge pages may have been given back since the mark was read.
        resident = process.resident - (process.huge if self.unread_faults(process) else 0)
        mark = process.mark or 0
        return resident if self._is_from_before(process, mark) else max(mark, resident)

    def most(self, process: Process, brought: int) -> int:
        """Return the most that ``process`` may have had from the begin of the run to its last mark.

        :param brought: What it had at the previous sample, and what page faults can have brought since. It bounds a
            peak below a mark from before the run.
        """
        most = min(process.most, brought) if self._is_from_before(process, process.most) else process.most
        return max(most, process.resident)

    def _is_from_before(self, process: Process, mark: int) -> bool:
        """Return whether a mark may be from before the run."""
        before = 0 if self._before_start is None else self._before_start.get(process, 0)
        return before > 0 and mark <= before + _INEXACT

    def unread_faults(self, process: Process) -> int:
        """Return the page faults that ``process`` has had since its mark was read."""
        return max(0, process.faults - max(0, process.mark_faults))
