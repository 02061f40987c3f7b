"""What processes have had resident between two samples, from the kernel's high-water marks."""

from __future__ import annotations

from gpu_tracker.processes import stat
from gpu_tracker.processes.stat import PAGE_SIZE
from gpu_tracker.resources import MIDDLE
from gpu_tracker.resources.budget import MOST_AT_EDGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources.budget import Budget, OverheadLimit
    from gpu_tracker.resources.ram.memory_files import MemoryFiles

_FIRST_COST = 20e-6
"""CPU seconds for reading one mark, until that has been measured."""
_INEXACT = min(max(1 << 20, stat.INEXACT), 1 << 23)
"""Bytes by which a mark may seem to have risen without a new peak, see :data:`.stat.INEXACT`."""
_MUCH = 1 << 20
"""Bytes that page faults have brought, from which on it matters to which program a mark belongs."""


class PeakReader:
    """Reads the high-water marks that can have risen: the root's always, the others' within the budget.

    A mark cannot rise without a page fault, and page faults are known from every sample. A mark that is read late still
    tells of the peak.
    """

    def __init__(self, files: MemoryFiles, budget: Budget | OverheadLimit, cpu_time: Callable[[], float]) -> None:
        self._files = files
        self._budget = budget
        self._cpu_time = cpu_time
        self._cost = _FIRST_COST
        self._older: set[Process] | None = None
        """Processes from before the start whose marks have not been read yet: their first one may be older."""
        self.pending = False
        """Marks that can have risen were not affordable at the last reading."""

    def read_these(self, due: Sequence[Process]) -> list[Process]:
        """Read the marks of the processes that are ``due``, and return those that have peaked above their present size.

        The reading is not paid for here.
        """
        return [process for process in due if self._has_peaked(process)]

    def read(
        self, now: float, kind: str, root: Process, counted: Sequence[Process], *, saving: bool = False
    ) -> list[Process]:
        """Read marks, and return the processes that have peaked above their present size since their last reading.

        :param saving: The budget is being saved up for something more important.
        """
        if self._older is None:
            self._older = set(counted)
        waiting = [process for process in counted if process.faults != process.peak_reading.faults]
        self.pending = False
        if not waiting:
            return []
        waiting.sort(key=lambda process: (process is not root, process.peak_reading.faults - process.faults))
        affordable = 1 if saving else self._affordable(now, kind, len(waiting))
        self.pending = affordable < len(waiting)
        before = self._cpu_time()
        risen = [process for process in waiting[:affordable] if self._has_peaked(process)]
        took = self._cpu_time() - before
        self._cost += 0.1 * (took / affordable - self._cost)
        if kind == MIDDLE:
            self._budget.spend(took)
        return risen

    def _affordable(self, now: float, kind: str, waiting: int) -> int:
        """Return how many marks may be read, at least one."""
        cost = max(self._cost, 1e-6)
        affordable = self._budget.count(now, cost) if kind == MIDDLE else int(MOST_AT_EDGE / cost)
        return max(1, min(waiting, affordable))

    def _has_peaked(self, process: Process) -> bool:
        found = self._files.marks(process.pid)
        if found is None:
            return False
        mark, resident, anonymous, huge = found
        if self._is_of_new_program(process, mark):
            return False
        process.resident += huge - process.huge
        process.anonymous += huge - process.huge
        process.huge = huge
        # The mark may be from before the huge pages came.
        process.peak_reading.mark = mark
        resident, anonymous = resident + huge, anonymous + huge
        mark = max(mark, resident)
        before = process.peak
        if before is not None and mark < before and _is_same_program(process):
            mark = before  # the kernel keeps marks a few pages inexact
        process.peak = mark
        reading = process.peak_reading
        if before is None:
            reading.inherited = max(0, mark - process.faults * PAGE_SIZE) if process.forked else 0
        is_of_new = before is None or not _is_same_program(process)
        reading.is_new_peak = is_of_new or mark > reading.last_peak + _INEXACT
        reading.higher = mark - (before or 0)
        if reading.is_new_peak:
            reading.last_peak = mark
        reading.raw = process.raw
        reading.new_faults = process.faults - max(0, reading.faults)
        reading.faults = process.faults
        reading.resident_before, reading.resident = reading.resident, resident
        reading.grown = max(0, anonymous - process.anonymous)
        of_files, reading.of_files = reading.of_files, resident - anonymous
        reading.dropped_files = max(0, of_files - reading.of_files)
        if self._older and process in self._older:
            self._older.discard(process)
            return False
        return mark != before and mark > process.resident

    def _is_of_new_program(self, process: Process, mark: int) -> bool:
        """Return whether ``process`` has called execve(2) since its page faults were read: the mark is another's.

        That is asked only where many page faults have not raised the mark.
        """
        before = process.peak_reading.faults
        brought = (process.faults - before) * PAGE_SIZE
        if before < 0 or brought < _MUCH or mark > (process.peak or 0) + brought // 2:
            return False
        return self._files.image(process.pid) != stat.image(process.raw)


def _is_same_program(process: Process) -> bool:
    """Return whether a process has not called execve(2), with which its mark begins anew, since that was last read."""
    return stat.image(process.peak_reading.raw) == stat.image(process.raw)
