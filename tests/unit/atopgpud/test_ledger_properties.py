"""A client that asks now and then can add up and subtract what it is told, whatever happens in between."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from gpu_tracker.atopgpud.ledger import Ledger, ListedGpu
from gpu_tracker.gpus.model import GpuProcess
from support.atop.atop_client import UNKNOWN, parsed_statistics
from support.gpus.gpu_readings import known, monitored

KIB = 1024
GPUS = ['GPU-0', 'GPU-1', 'GPU-2']
PIDS = [7, 8]
gpus = st.sampled_from(GPUS)
pids = st.sampled_from(PIDS)


class Client:
    """Remembers what it was told, as atop does."""

    def __init__(self, book, version) -> None:
        self.book = book
        self.version = version
        self.visitor = book.welcome()
        self.before = None

    def ask(self):
        told = parsed_statistics(self.book.statistics(self.version, self.visitor)[4:].decode(), self.version)
        before, self.before = self.before, told
        return before, told


class Machine(RuleBasedStateMachine):
    """Three GPUs and two processes; what they really do is added up here in the plainest way."""

    def __init__(self) -> None:
        super().__init__()
        self.book = Ledger(max_age=1e9)
        self.book.show([ListedGpu(key, known(number, key)) for number, key in enumerate(GPUS)], 0.0)
        self.births = dict.fromkeys(PIDS, 0.0)
        self.on = {key: set() for key in GPUS}
        self.memory = Counter()
        self.samples = Counter()
        self.busy = {key: [] for key in GPUS}
        self.known_busy = dict.fromkeys(GPUS)

    @initialize()
    def connect(self) -> None:
        self.clients = [Client(self.book, version) for version in (1, 2, 2)]
        self.asked_at = [dict.fromkeys(GPUS, 0) for _ in self.clients]

    def read(self, key, activity) -> None:
        listed = {process.pid for process in activity.processes or ()}
        living = {pid: self.births[pid] for pid in PIDS}
        self.book.take(key, activity, living, 0.0)
        if activity.processes is not None and activity.problem is None:
            self.on[key] = {(pid, self.births[pid]) for pid in listed}

    @rule(key=gpus, listed=st.sets(pids), busy=st.none() | st.integers(0, 100), size=st.integers(0, 9))
    def reading(self, key, listed, busy, size) -> None:
        processes = tuple(GpuProcess(pid, size * KIB, utilization=1, memory_utilization=1) for pid in sorted(listed))
        self.read(key, monitored(None, busy, busy, KIB, KIB, processes))
        for pid in listed:
            self.memory[pid, self.births[pid]] += size
            self.samples[pid, self.births[pid]] += 1
        if busy is not None:
            self.busy[key].append(busy)
        self.known_busy[key] = busy

    @rule(key=gpus)
    def failure(self, key) -> None:
        self.read(key, monitored('is lost'))
        self.known_busy[key] = None

    @rule(key=gpus)
    def reading_without_processes(self, key) -> None:
        self.read(key, monitored(None, 50, 50, KIB, KIB, None))
        self.busy[key].append(50)
        self.known_busy[key] = 50

    @rule(pid=pids)
    def another_process(self, pid) -> None:
        """End a process; its ID is given to a new one."""
        self.births[pid] += 1

    @rule(number=st.integers(0, 2))
    def ask(self, number) -> None:
        before, told = self.clients[number].ask()
        since = self.asked_at[number]
        for place, key in enumerate(GPUS):
            now = told[place].busy_total
            assert (now == UNKNOWN) == (self.known_busy[key] is None)
            if before is not None and now != UNKNOWN:
                true = sum(self.busy[key][since[key] :])
                # 0 cannot be told where -1 was told before: it would be -1 again
                one_more = before[place].busy_total == UNKNOWN and true == 0
                assert now - before[place].busy_total == true + one_more
            since[key] = len(self.busy[key])
        self.expect_sums(told)

    def expect_sums(self, told) -> None:
        for pid in PIDS:
            assert all(len([p for p in gpu.processes if (p.pid, p.state) == (pid, 'A')]) <= 1 for gpu in told)
            active = [
                process for gpu in told for process in gpu.processes if (process.pid, process.state) == (pid, 'A')
            ]
            exited = [
                process for gpu in told for process in gpu.processes if (process.pid, process.state) == (pid, 'E')
            ]
            shown_as = {start for key in GPUS for number, start in self.on[key] if number == pid}
            if active and not exited and shown_as == {self.births[pid]}:
                assert sum(process.samples for process in active) == self.samples[pid, self.births[pid]]
                assert sum(process.memory_total for process in active) == self.memory[pid, self.births[pid]]


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
