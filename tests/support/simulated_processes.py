"""A table of simulated processes that fork, use CPU time, end and are reaped; and a tree that reads it."""

from __future__ import annotations

import math

from gpu_tracker.processes.process import Process

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
        self.ended = False


class Machine:
    """The processes there are, and the CPU seconds that all descendants of the root have used."""

    def __init__(self) -> None:
        self.table = {ROOT: Simulated(ROOT, INIT)}
        self.of_descendants = 0.0
        self._next = ROOT + 1

    @property
    def living(self) -> list[int]:
        """The pids of processes that can do something."""
        return [pid for pid, process in self.table.items() if not process.ended]

    def fork(self, pid: int) -> None:
        """Start a child."""
        self.table[self._next] = Simulated(self._next, pid)
        self._next += 1

    def burn(self, pid: int, seconds: float) -> None:
        """Use CPU time."""
        self.table[pid].cpu += seconds
        if pid != ROOT:
            self.of_descendants += seconds

    def ignore(self, pid: int) -> None:
        """Ignore SIGCHLD from now on; zombies that are there stay."""
        self.table[pid].ignores = True

    def end(self, pid: int) -> None:
        """End a process other than the root: init adopts its children and reaps those that have ended."""
        if pid == ROOT:
            return
        process = self.table[pid]
        process.ended = True
        for child in list(self.table.values()):
            if child.parent == pid:
                child.parent = INIT
                if child.ended:
                    del self.table[child.pid]
        parent = self.table.get(process.parent)
        if parent is None or parent.ignores:
            del self.table[pid]

    def reap(self, pid: int) -> None:
        """Wait for all children that have ended."""
        process = self.table[pid]
        for child in list(self.table.values()):
            if child.parent == pid and child.ended:
                process.reaped += child.cpu + child.reaped
                process.reaped_faults += 1 + child.reaped_faults
                del self.table[child.pid]


class SimulatedTree:
    """Reads the machine as the kernel tells it: the time of reaped children in ticks, rounded down."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.members: dict[int, Process] = {}
        self.gone: list[Process] = []
        self.root_gone = False
        self.foreign_cpu = 0.0
        self.samplers: dict[int, Process] = {}
        self.listings = 0
        self.counts_reaped_faults = self.counts_reaped_time = True
        self.questions: list[int] = []
        self.begun = 0.0
        self.changes = 0
        self.refresh()
        self.root = self.members[ROOT]

    def refresh(self) -> None:
        """Read every process; all that ever belonged to the tree do so still."""
        table = self._machine.table
        self.changes += 1
        self.listings += 1
        self.begun += 1.0
        self.gone = [process for pid, process in self.members.items() if pid not in table]
        for process in self.gone:
            del self.members[process.pid]
        for pid, simulated in table.items():
            process = self.members.setdefault(pid, Process(pid))
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
