"""A table of simulated processes that fork, use CPU time, end and are reaped; and the process tree that reads it."""

from __future__ import annotations

import math
from unittest import mock

from gpu_tracker.processes import linux, stat
from gpu_tracker.processes.process import Process
from support.simulated_proc import TICKS, stat_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

INIT = 1
"""Adopts orphans, and reaps them at once."""
ROOT = 2
_SAMPLER = 1 << 20
_ACTION = 1e-6
"""CPU seconds that anything takes that a process does."""


class Simulated:
    """One process of the simulation: times are true, not rounded."""

    def __init__(self, pid: int, parent: int) -> None:
        self.pid = pid
        self.parent = parent
        self.cpu = 0.0
        self.reaped = 0.0
        self.reaped_faults = 0
        self.ignores = False
        self.discards = False
        self.is_subreaper = False
        self.ended = False

    @property
    def line(self) -> bytes:
        """The content of its stat file: times of reaped children are rounded down."""
        ticks = math.floor(self.reaped / 2 * TICKS)
        return stat_line(
            self.pid,
            self.parent,
            state='Z' if self.ended else 'S',
            faults=(1, self.reaped_faults, 0, 0),
            ticks=(0, 0, ticks, ticks),
        ).encode()


class Machine:
    """The processes there are, and the CPU seconds that all descendants of the root have used."""

    def __init__(self) -> None:
        self.table = {ROOT: Simulated(ROOT, INIT)}
        self.of_descendants = 0.0
        self.lost: list[Simulated] = []
        """Those that ended and whose time nobody in the tree has got."""
        self.newest = ROOT
        self.meanwhile: Callable[[], object] = lambda: None
        """Called before each file is read."""

    @property
    def living(self) -> list[int]:
        """The pids of processes that can do something."""
        return [pid for pid, process in self.table.items() if not process.ended]

    @property
    def started(self) -> int:
        """How many processes there have ever been."""
        return self.newest - ROOT + 1

    def fork(self, pid: int) -> int:
        """Start a child; return its pid."""
        self._run(pid)
        self.newest += 1
        self.table[self.newest] = Simulated(self.newest, pid)
        return self.newest

    def burn(self, pid: int, seconds: float) -> None:
        """Use CPU time."""
        self._run(pid, seconds)

    def ignore(self, pid: int) -> None:
        """Ignore SIGCHLD from now on; zombies that are there stay."""
        self._run(pid).ignores = True

    def discard(self, pid: int) -> None:
        """Set SA_NOCLDWAIT: as if it ignored SIGCHLD, but no file shows it."""
        self._run(pid).discards = True

    def subreap(self, pid: int) -> None:
        """Adopt descendants that lose their parents from now on."""
        self._run(pid).is_subreaper = True

    def end(self, pid: int) -> None:
        """End a process other than the root: the next subreaper, or else init, adopts its children."""
        if pid == ROOT:
            return
        process = self._run(pid)
        process.ended = True
        for child in list(self.table.values()):
            if child.parent == pid:
                child.parent = self._adopter(process)
                self._reap_at_once(child)
        self._reap_at_once(process)

    def end_namespace(self, pid: int) -> None:
        """End the first process of a PID namespace: all others in it are killed, and their times lost."""
        inside = {pid}
        for child, process in sorted(self.table.items()):
            if process.parent in inside:
                inside.add(child)
        for child in inside - {pid}:
            self.lost.append(self.table.pop(child))
        self.end(pid)

    def reap(self, pid: int) -> None:
        """Wait for all children that have ended."""
        self._run(pid)
        while self.reap_one(pid):
            pass

    def reap_one(self, pid: int) -> bool:
        """Wait for the child that was started last, among those that have ended; return whether there was one."""
        process = self._run(pid)
        ended = [child for child in self.table.values() if child.parent == pid and child.ended]
        for child in ended[-1:]:
            process.reaped += child.cpu + child.reaped
            process.reaped_faults += 1 + child.reaped_faults
            del self.table[child.pid]
        return bool(ended)

    def clock(self, pid: int) -> float:
        """Return the CPU seconds of a process."""
        try:
            return self.table[pid].cpu
        except KeyError:
            raise OSError from None

    def _run(self, pid: int, seconds: float = 0.0) -> Simulated:
        process = self.table[pid]
        process.cpu += seconds + _ACTION
        if pid != ROOT:
            self.of_descendants += seconds + _ACTION
        return process

    def _adopter(self, process: Simulated) -> int:
        above = self.table.get(process.parent)
        while above is not None and not (above.is_subreaper and not above.ended):
            above = self.table.get(above.parent)
        return INIT if above is None else above.pid

    def _reap_at_once(self, process: Simulated) -> None:
        """Let go of a process that has ended if its parent is init, or ignores its children."""
        parent = self.table.get(process.parent)
        if process.ended and (parent is None or parent.ignores or parent.discards):
            self.lost.append(process)
            del self.table[process.pid]


class Files:
    """The files of the machine's processes, see :class:`gpu_tracker.processes.files.ProcessFiles`."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def newest(self) -> int:
        return self._machine.newest

    def names(self) -> set[str]:
        return set(map(str, self._machine.table))

    def open(self, pid: int) -> Process | None:
        process = Process(pid)
        try:
            stat.update(process, self.line(process))
        except ProcessLookupError:
            return None
        return process

    def parent(self, pid: int) -> int | None:
        found = self._machine.table.get(pid)
        return None if found is None else found.parent

    def line(self, process: Process) -> bytes:
        self._machine.meanwhile()
        try:
            return self._machine.table[process.pid].line
        except KeyError:
            raise ProcessLookupError(process.pid) from None

    def memory(self, process: Process) -> bytes:
        return b'1000 %d 10 1 0 50 0\n' % (100 + process.pid)

    def ignores_children(self, process: Process) -> bool:
        found = self._machine.table.get(process.pid)
        return found is not None and found.ignores

    def is_sampler(self, process: Process) -> bool:
        return False

    def waits_uninterruptibly(self, process: Process) -> bool:
        return False

    def open_memory(self, process: Process) -> None:
        """Do nothing: there are no descriptors here."""

    close = open_memory


def tree_of(machine: Machine) -> linux.LinuxProcessTree:
    """Return the tree of the root, whose orphans init adopts: it is a command, and init its launcher."""
    with mock.patch.object(linux, 'ProcessFiles', return_value=Files(machine)):
        return linux.LinuxProcessTree(ROOT, launcher=INIT, own_pid=_SAMPLER, clock=machine.clock, monotonic=lambda: 0.0)
