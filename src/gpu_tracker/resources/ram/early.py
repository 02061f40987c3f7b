"""Samples of the memory of young processes between two points of the grid.

The younger a process, the likelier it ends before the next point. So it is read again each time that it has become a
tenth older, until the sampling interval is shorter than that. Whatever the interval, at most the last tenth of a life
is missed. New processes are searched for often while the tree starts some, and less often while it does not.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources.budget import Budget, OverheadLimit
    from gpu_tracker.resources.ram.reading import RamReading

    class MemoryTree(Protocol):
        """A process tree whose memory can be read without all else."""

        members: dict[int, Process]
        arrived: list[Process]
        """Those that have come, or have become another program, since this was emptied."""
        changes: int

        def refresh_memory(self) -> None:
            """Read the CPU time and the memory of all members again, and take in those that are new."""

        def find_new(self) -> None:
            """Take in those that are new, without reading the others."""

    class EarlyRam(Protocol):
        """Reads the memory of that tree."""

        @property
        def spent(self) -> float:
            """CPU seconds of what it has paid for itself."""

        def read_early(self, now: float, due: Sequence[Process]) -> RamReading | None:
            """Return what is resident now, with the marks of those that are ``due``; None where that is no news."""


_OLDER = 0.1
"""A process is read again when it has become this part older."""
_YOUNGEST = 0.01
"""Seconds of age below which a process counts as that old: its start is known in ticks of 10 ms."""
_TOGETHER = 0.3
"""Those that would be due within this part of their pauses are read together: waking up costs more than reading."""
_WHILE_STARTING = 0.025
"""Seconds between two searches for new processes while the tree starts some."""
_WHILE_QUIET = 0.1
"""The same while it does not."""
_LONG_QUIET = 5.0
"""Seconds after which it does not, and is searched half as often."""
_STARTING = 1.0
"""Seconds for which a tree counts as starting processes after it has started one."""
_FIRST_COST = 100e-6
"""CPU seconds of one early sample, until that has been measured."""
_NEVER = float('inf')


class EarlySamples:
    """Knows when early samples are due, and makes them as far as the budget suffices.

    :param take_in: Called with each reading that is news.
    :param interval: Seconds between two points of the grid, at which everything is read.
    :param for_one: What they are paid from while one process is young. Of several that end together the kernel reports
        least afterwards.
    :param for_several: What they are paid from while several are.
    :param budget: What all optional readings together are paid from; what is spent here is missing there.
    :param cpu_time: The CPU seconds that this thread has used.
    """

    def __init__(
        self,
        tree: MemoryTree,
        ram: EarlyRam,
        take_in: Callable[[RamReading], None],
        interval: float,
        for_one: Budget | OverheadLimit,
        for_several: Budget | OverheadLimit,
        budget: Budget | OverheadLimit,
        cpu_time: Callable[[], float],
    ) -> None:
        self._tree = tree
        self._ram = ram
        self._take_in = take_in
        self._interval = interval
        self._budgets = {for_one, for_several, budget}
        self._for_one = for_one
        self._for_several = for_several
        self._cpu_time = cpu_time
        self._young: dict[Process, float] = {}
        """When each young process is due to be read."""
        self._next_search = 0.0
        self._started_at: float | None = None
        self._earliest = 0.0
        """Before this moment nothing can be paid."""
        self._cost = _FIRST_COST
        self._cpu_before = 0.0
        self._changes = -1
        self._is_idle = False
        """Nobody is young and nothing is searched for, until somebody arrives at a point of the grid."""
        self.samples = 0
        """Early samples that were made."""
        self.postponed = 0
        """Readings of processes that came later than they were due, because the budget did not suffice."""

    def due(self) -> float:
        """Return the time of the next early sample or search."""
        if self._is_idle:
            return _NEVER
        return max(self._earliest, min([self._next_search, *self._young.values()]))

    def grid_sampled(self, now: float) -> None:
        """Take note that everything was read at ``now``, at a point of the grid."""
        if self._is_idle and not self._tree.arrived:
            return
        self._is_idle = False
        if self._started_at is None:
            self._started_at = now - _STARTING
        self._take_in_arrived(now)
        if self._young:
            for process in self._young:
                self._plan(process, now)
            self._drop_old(now)
        self._plan_search(now)
        self._is_idle = self.due() == _NEVER
        if not self._is_idle:
            self._cpu_before = self._own_cpu_time()

    def sample(self, now: float) -> None:
        """Read what is due at ``now``."""
        due = [process for process, at in self._young.items() if at <= now + _TOGETHER * self._pause(process, now)]
        reading = None
        if due:
            self._tree.refresh_memory()
        elif now >= self._next_search:
            self._tree.find_new()
        arrived = self._take_in_arrived(now)
        if arrived and not due:
            self._tree.refresh_memory()
        if (due or arrived) and self._tree.changes != self._changes:
            readable = self._affordable([*arrived, *due], now)
            reading = self._ram.read_early(now, readable)
            self._changes = self._tree.changes
            self.samples += 1
        for process in due:
            self._plan(process, now)
        self._drop_old(now)
        self._plan_search(now)
        self._pay(now, is_whole=bool(due or arrived))
        if reading is not None:
            self._take_in(reading)

    @property
    def _budget(self) -> Budget | OverheadLimit:
        return self._for_several if len(self._young) > 1 else self._for_one

    def _affordable(self, processes: Sequence[Process], now: float) -> list[Process]:
        """Return the youngest of ``processes``, as many as can be paid, at least one."""
        ran = sorted((process for process in processes if process.resident), key=lambda process: -process.born)
        most = max(1, self._budget.count(now, self._cost / 4))
        self.postponed += max(0, len(ran) - most)
        return ran[:most]

    def _pay(self, now: float, *, is_whole: bool) -> None:
        cpu = self._own_cpu_time()
        cost = cpu - self._cpu_before
        self._cpu_before = cpu
        for budget in self._budgets:
            budget.spend(cost)
        if is_whole:
            self._cost += 0.1 * (min(cost, 10 * self._cost) - self._cost)
        wait = self._budget.seconds_until(now, self._cost)
        self._earliest = now + wait
        if wait:
            self.postponed += sum([at < self._earliest for at in self._young.values()])

    def _own_cpu_time(self) -> float:
        return self._cpu_time() - self._ram.spent

    def _take_in_arrived(self, now: float) -> list[Process]:
        arrived, self._tree.arrived = self._tree.arrived, []
        for process in arrived:
            process.is_young = True
            self._plan(process, now)
        if arrived:
            self._started_at = now
            self._is_idle = False
        return arrived

    def _plan(self, process: Process, now: float) -> None:
        self._young[process] = now + self._pause(process, now)

    def _pause(self, process: Process, now: float) -> float:
        return _OLDER * max(_YOUNGEST, now - process.born)

    def _drop_old(self, now: float) -> None:
        """Leave those to the grid that are old enough, and forget those that have ended."""
        oldest = now - self._interval / _OLDER
        for process in [p for p in self._young if p.born <= oldest or p.left or p.ended]:
            process.is_young = False
            del self._young[process]

    def _plan_search(self, now: float) -> None:
        quiet = 0.0 if self._started_at is None else now - self._started_at
        pause = _WHILE_STARTING if quiet < _STARTING else _WHILE_QUIET if quiet < _LONG_QUIET else 2 * _WHILE_QUIET
        self._next_search = now + pause if pause < self._interval else _NEVER
