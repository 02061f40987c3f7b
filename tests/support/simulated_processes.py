"""A table of simulated processes that fork, use CPU time, end and are reaped; and a tree that reads it."""

from __future__ import annotations

import math

from gpu_tracker.processes.process import Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

INIT = 1
ROOT = 2


class Simulated:
    """One process of the simulation: times are true, not rounded."""

    def __init__(self, pid: int, parent: int) -> None:
        self.pid = pid
        self.parent = parent
        self.cpu = 0.0
        self.reaped = 0.0
        self.reaped_faults = 0
        self.ignores = False
        self.is_subreaper = False
        self.ended = False
        self.actions = 0

    @property
    def runs(self) -> tuple[float, ...]:
        """What changes whenever it runs."""
        return self.cpu, self.reaped, self.actions


class Machine:
    """The processes there are, and the CPU seconds that all descendants of the root have used."""

    def __init__(self) -> None:
        self.table = {ROOT: Simulated(ROOT, INIT)}
        self.of_descendants = 0.0
        self.lost: list[Simulated] = []
        """Those that ended and whose time nobody in the tree has got."""
        self._next = ROOT + 1

    @property
    def living(self) -> list[int]:
        """The pids of processes that can do something."""
        return [pid for pid, process in self.table.items() if not process.ended]

    @property
    def started(self) -> int:
        """How many processes there have ever been."""
        return self._next - ROOT

    def fork(self, pid: int) -> None:
        """Start a child."""
        self._run(pid)
        self.table[self._next] = Simulated(self._next, pid)
        self._next += 1

    def burn(self, pid: int, seconds: float) -> None:
        """Use CPU time."""
        self._run(pid).cpu += seconds
        if pid != ROOT:
            self.of_descendants += seconds

    def ignore(self, pid: int) -> None:
        """Ignore SIGCHLD from now on; zombies that are there stay."""
        self._run(pid).ignores = True

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

    def reap(self, pid: int) -> None:
        """Wait for all children that have ended."""
        process = self._run(pid)
        for child in list(self.table.values()):
            if child.parent == pid and child.ended:
                process.reaped += child.cpu + child.reaped
                process.reaped_faults += 1 + child.reaped_faults
                del self.table[child.pid]

    def reap_one(self, pid: int) -> None:
        """Wait for the child that was started last, among those that have ended."""
        process = self._run(pid)
        ended = [child for child in self.table.values() if child.parent == pid and child.ended]
        for child in ended[-1:]:
            process.reaped += child.cpu + child.reaped
            process.reaped_faults += 1 + child.reaped_faults
            del self.table[child.pid]

    def _run(self, pid: int) -> Simulated:
        self.table[pid].actions += 1
        return self.table[pid]

    def _adopter(self, process: Simulated) -> int:
        above = self.table.get(process.parent)
        while above is not None and not (above.is_subreaper and not above.ended):
            above = self.table.get(above.parent)
        return INIT if above is None else above.pid

    def _reap_at_once(self, process: Simulated) -> None:
        """Let go of a process that has ended if its parent is init, or ignores its children."""
        parent = self.table.get(process.parent)
        if process.ended and (parent is None or parent.ignores):
            self.lost.append(process)
            del self.table[process.pid]


class SimulatedTree:
    """Reads the machine as the kernel tells it: the time of reaped children in ticks, rounded down."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._runs: dict[int, tuple[float, ...]] = {}
        self.members: dict[int, Process] = {}
        self.gone: list[Process] = []
        self.root_gone = False
        self.foreign_cpu = 0.0
        self.samplers: dict[int, Process] = {}
        self.listings = 0
        self.counts_reaped_faults = self.counts_reaped_time = True
        self.questions: list[int] = []
        self.begun = self.listed = 0.0
        self.changes = 0
        self.refresh()
        self.root = self.members[ROOT]

    def refresh(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Read every process that has run or has another parent; all that ever belonged to the tree do so still.

        :param meanwhile: Called before each is read.
        """
        table = self._machine.table
        self.changes += 1
        self.listings += 1
        self.begun += 1.0
        self.listed = self.begun
        self.gone = []
        ended: set[int] = set()
        for pid, process in list(self.members.items()):
            meanwhile()
            if pid not in table:
                self.gone.append(process)
                ended.add(pid)
            elif table[pid].runs != self._runs[pid] or process.parent in ended:
                self._read(process)
                if process.ended:
                    ended.add(pid)
        for process in self.gone:
            del self.members[process.pid]
        for pid in table:
            if pid not in self.members:
                self.members[pid] = Process(pid)
                self._read(self.members[pid])

    def _read(self, process: Process) -> None:
        simulated = self._machine.table[process.pid]
        self._runs[process.pid] = simulated.runs
        process.parent = simulated.parent
        process.ended = simulated.ended
        process.own_cpu = simulated.cpu
        process.reaped_cpu = 2 * math.floor(simulated.reaped / 2 * 100) / 100
        process.reaped_faults = simulated.reaped_faults
        process.threads = 0 if simulated.ended else 1

    def ignores_children(self, process: Process) -> bool:
        """Tell what /proc/PID/status would."""
        self.questions.append(process.pid)
        return self._machine.table[process.pid].ignores
