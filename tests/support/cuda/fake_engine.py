"""An engine of the probe without a kernel: it tells what a test has put into it."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.engine.kernel_layout import Overflow
from gpu_tracker.cuda_probe.kernel_data import DeviceTotals, ProcessTotals, Totals

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from gpu_tracker.cuda_probe.engine.attaching import Refused
    from gpu_tracker.cuda_probe.engine.kernel_layout import Notice
    from gpu_tracker.cuda_probe.libraries import CodeFile, FileOnDisk


class FakeEngine:
    """Tells what it is given, as :class:`gpu_tracker.cuda_probe.engine.engine.Engine` does."""

    kind = 'made up'

    def __init__(self) -> None:
        self.files = self
        self.followed: list[int] = []
        self.room = 1000
        self.clock: Callable[[], int] = lambda: 0
        self.attached_at: dict[FileOnDisk, int] = {}
        self.missed: list[tuple[int, int]] = []
        self.few_files = 64
        self.closed = 0
        self.freed_graphs = 0
        self._waiting: tuple[int, ...] = ()
        self.events: list[tuple[int, ...]] = []
        self.notices: list[Notice] = []
        self.processes: dict[int, ProcessTotals] = {}
        self.overflows = (0,) * len(Overflow)
        self.attached: dict[FileOnDisk, str] = {}
        self.refused: tuple[Refused, ...] = ()
        """Of the files to begin with."""
        self.unwelcome: set[str] = set()
        """Files that cannot be attached to, as their processes see them."""
        self.without_functions: set[str] = set()
        self.while_attaching: dict[str, Callable[[], object]] = {}
        """What happens while it attaches to a file, once."""
        self.problem: Exception | None = None
        """Why its totals cannot be read."""

    def follow(self, pid: int, *, has_begun: bool = False) -> int | None:
        if len(self.followed) == self.room:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        if pid in self.followed:
            return None
        self.followed.append(pid)
        return len(self.followed)

    def since(self, file: CodeFile) -> int:
        return self.attached_at.get(file.identity, 0)

    def missed_calls(self, pid: int, process: int) -> None:
        self.missed.append((pid, process))

    def unfollow(self, pid: int) -> None:
        self.followed.remove(pid)

    def followed_pids(self) -> list[int]:
        return self.followed

    def has_many(self) -> bool:
        return len(self.attached) > self.few_files

    def release(self, used: Collection[FileOnDisk]) -> None:
        self.attached = {file: path for file, path in self.attached.items() if file in used}

    def handles(self) -> tuple[int, ...]:
        self._waiting = self._waiting or (os.eventfd(0), os.eventfd(0))
        return self._waiting

    def close(self) -> None:
        self.closed += 1
        for handle in self._waiting:
            os.close(handle)
        self._waiting = ()

    def take_events(self) -> Iterator[tuple[int, ...]]:
        told = [*self.events]
        del self.events[: len(told)]  # a test may add to them meanwhile
        return iter(told)

    def take_notices(self) -> Iterator[Notice]:
        told, self.notices = self.notices, []
        return iter(told)

    def totals(self) -> Totals:
        if self.problem is not None:
            raise self.problem
        devices = tuple(DeviceTotals(number, 0, 1, 1, *[0] * 9) for number in self.processes)
        return Totals(tuple(self.processes.values()), devices, (), (), self.overflows)

    def free_graphs(self) -> None:
        self.freed_graphs += 1

    def ended(self) -> int:
        return sum(process.ended is not None for process in self.processes.values())

    def forget(self, processes: Collection[int]) -> None:
        for number in processes:
            del self.processes[number]

    def is_new(self, file: CodeFile) -> bool:
        return file.identity not in self.attached

    def attach(self, file: CodeFile) -> int:
        if file.shown in self.unwelcome:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        self.while_attaching.pop(file.shown, lambda: None)()
        self.attached[file.identity] = file.shown
        self.attached_at.setdefault(file.identity, self.clock())
        return int(file.shown not in self.without_functions)

    def has(self, number: int, ended: int | None = None) -> None:
        self.processes[number] = ProcessTotals(number, 4000 + number, 0, 'train', number, ended, 1, 0, 0)
