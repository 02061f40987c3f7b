"""CPU: the time that was used and the largest utilization, of the tracked process, its descendants and the machine.

The CPU time of a tree is what its living members have used, and what they have got from the children that they have
reaped. If a member reaps another, time moves from the one to the other, and children that lived between two samples
count. If a member is reaped by nobody in the tree, its last time is kept, and the figure is a lower bound.
"""

from __future__ import annotations

from gpu_tracker.processes import stat
from gpu_tracker.resources import COUNTER, GAUGE, GROUPS, WHOSE, Column, Resource, first_of
from gpu_tracker.resources.rates import MaximalRate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Literal

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources.context import Context, System
    from gpu_tracker.result import usage
    from gpu_tracker.totals import Group, Totals
    from gpu_tracker.units import Units

_ROUNDING = 0.02
"""Reaped time comes in ticks of 10 ms, user and system time each rounded down."""
_MOST_QUESTIONS = 4
"""The members that are asked at a sample whether they ignore their children: 20 µs each."""


class Cpu(Resource):
    """CPU time from cumulative counters, and numbers of threads.

    :param machine: Returns how busy all cores were.
    """

    columns = (
        *(Column(f'{group}_cpu', 'seconds', COUNTER, f'CPU time of {whose}') for group, whose in WHOSE.items()),
        *(Column(f'{group}_n_threads', 'count', GAUGE, f'threads of {WHOSE[group]}') for group in GROUPS),
    )

    def __init__(self, tree: ProcessTree, machine: System) -> None:
        self._tree = tree
        self._machine = machine
        self._before = tree.root.own_cpu
        self._counters: CpuCounters | None = None
        self._rates = {group: MaximalRate() for group in (*GROUPS, 'system')}
        self._threads = (0, 0, 0)
        self._most_threads = (0, 0, 0)

    def sample(self, now: float, kind: str) -> None:
        """Read the CPU time of the tree and of the machine; times count from the first of these."""
        del kind
        if self._counters is None:
            self._counters = CpuCounters(self._tree)
            self._before = self._tree.root.own_cpu  # it may have run since this was made
        of_machine = self._machine.cpu()
        main, descendants, *threads = self._counters.read()
        rates, begun = self._rates, self._tree.begun
        rates['main'].add(now, main, begun)
        rates['descendants'].add(now, descendants, begun)
        rates['combined'].add(now, main + descendants, begun)
        if of_machine is not None:
            rates['system'].add(now, of_machine)
        self._threads = (threads[0], threads[1], sum(threads))
        first, second, third = map(max, self._most_threads, self._threads)
        self._most_threads = (first, second, third)

    def row(self) -> Sequence[float | None]:
        """Return the CPU seconds of the three groups and of the machine, and the threads of the groups."""
        return [rate.amount for rate in self._rates.values()] + list(self._threads)

    def used_so_far(self) -> float | None:
        """Return the CPU seconds of all together."""
        return self._rates['combined'].amount

    def totals(self) -> dict[str, object]:
        """Return the evidence: see :class:`gpu_tracker.totals.CpuEvidence`."""
        root, counters = self._tree.root, self._counters
        return {
            **{group: (rate.amount, rate.largest()) for group, rate in self._rates.items()},
            'threads': self._most_threads,
            'cores': self._machine.cores,
            'before': self._before,
            'unreceived': 0.0 if counters is None else counters.unreceived,
            # If the system does not tell: whether there was anybody to be reaped.
            'has_reaped': stat.has_reaped(root.raw) if root.raw else self._most_threads[1] > 0,
            'has_orphans': counters is not None and counters.has_orphans,
            'is_ignored': counters is not None and counters.is_ignored,
            'counts_reaped': self._tree.counts_reaped_time,
        }


class CpuCounters:
    """Folds the times of a tree's members into the CPU seconds of the root and of its descendants since the start."""

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self._main_start = tree.root.own_cpu
        self._kept = 0.0
        """CPU seconds of members that are gone and that no member has reaped, as they were last read."""
        self.unreceived = 0.0
        """The part of them that processes outside the tree may have got."""
        self.has_orphans = False
        """A process outside the tree has reaped a member."""
        self.is_ignored = False
        """The kernel adds the time of a member's children to nobody's: see sigaction(2), SA_NOCLDWAIT."""
        self._reaped: dict[Process, tuple[float, int]] = {}
        """CPU seconds and page faults of reaped children at the previous sample, by member."""
        self._asked: dict[Process, float] = {}
        """The CPU seconds of each member when it was asked whether it ignores its children."""
        self._listings = -1
        self._changes = -1
        self._start, self._threads = self._sum_of_descendants()
        self._descendants = 0.0

    def read(self) -> tuple[float, float, int, int]:
        """Return the CPU seconds of root and descendants since the start, and their threads now.

        The tree has just been refreshed.
        """
        tree = self._tree
        if tree.changes != self._changes:
            self._changes = tree.changes
            if tree.gone:
                self._keep_unreceived()
            total, self._threads = self._sum_of_descendants()
            # Reaped time is rounded down, so that the sum may be a little less than before.
            self._descendants = max(self._descendants, total - self._start)
            if tree.listings != self._listings and not self.is_ignored:
                self._listings = tree.listings
                self.is_ignored = self._finds_ignoring_member()
        return max(0.0, tree.root.own_cpu - self._main_start), self._descendants, tree.root.threads, self._threads

    def _sum_of_descendants(self) -> tuple[float, int]:
        tree = self._tree
        total = self._kept - tree.foreign_cpu
        threads = 0
        if not tree.root_gone:
            total -= tree.root.own_cpu
            threads -= tree.root.threads
        for process in tree.members.values():
            total += process.own_cpu + process.reaped_cpu
            threads += process.threads
        self._reaped = {p: (p.reaped_cpu, p.reaped_faults) for p in tree.members.values()}
        return total, threads

    def _keep_unreceived(self) -> None:
        """Keep the time of members that are gone, as far as no member has got it.

        Parents are read after the end of their children. Every process has page faults, so a parent without new ones
        has reaped nobody: it ignores SIGCHLD, or has set SA_NOCLDWAIT. No file shows the latter.
        """
        tree = self._tree
        gone = {process.pid for process in tree.gone}
        owed = 0.0
        for process in tree.gone:
            if process is tree.root:
                self._kept += process.reaped_cpu
                continue
            seconds = process.own_cpu + process.reaped_cpu
            parent = tree.members.get(process.parent)
            if parent is None:
                self.has_orphans |= process.parent not in gone
            elif process.faults and self._has_reaped_nobody(parent):
                if not parent.ended:
                    self.is_ignored = True
                    self._kept += seconds
                    continue
                self.has_orphans = True  # the parent's own parent, or init, has adopted and reaped it
            owed += seconds
        received = [p.reaped_cpu - self._reaped[p][0] for p in tree.members.values() if p in self._reaped]
        received = [seconds for seconds in received if seconds > 0]
        if owed > sum(received) + _ROUNDING * len(received):
            self._kept += owed - sum(received)
            self.unreceived += owed - sum(received)

    def _has_reaped_nobody(self, process: Process) -> bool:
        return self._tree.counts_reaped_faults and process.reaped_faults == self._reaped.get(process, (0.0, 0))[1]

    def _finds_ignoring_member(self) -> bool:
        """Return whether a member ignores its children, of those that have run since they were asked, the root first.

        A member that gets page faults of children is not asked.
        """
        tree = self._tree
        if tree.gone:
            self._asked = {process: cpu for process, cpu in self._asked.items() if not process.ended}
        waiting = [p for p in tree.members.values() if not p.reaped_faults and self._asked.get(p) != p.own_cpu]
        waiting.sort(key=lambda process: (process is not tree.root, self._asked.get(process, -1.0)))
        for process in waiting[:_MOST_QUESTIONS]:
            self._asked[process] = process.own_cpu
            if tree.ignores_children(process):
                return True
        return False


def open_resource(context: Context) -> Cpu:
    """Return the CPU time of the tree."""
    return Cpu(context.tree, context.machine)


def usage_of(totals: Totals, wanted: Units) -> dict[str, usage.CPUUtilization]:
    """Return the section ``cpu_utilization`` of the result."""
    from gpu_tracker.resources.rates import percentages  # noqa: PLC0415 - as above
    from gpu_tracker.result import usage  # noqa: PLC0415 - the sampler needs none of it

    cpu, seconds = totals['cpu'], totals['seconds']
    cores = cpu.get('cores')
    expected = wanted.expected_cores or cores

    def utilization(group: Group | Literal['system'], divisor: int | None) -> usage.ProcessingUnitPercentages:
        used: Any = cpu.get(group)
        amount, largest = first_of(used, 2)
        mean = amount / seconds if amount is not None and seconds > 0 else None
        return percentages(_at_most(largest, cores), _at_most(mean, cores), divisor)

    main_threads, descendants_threads, combined_threads = first_of(cpu.get('threads'), 3)
    section = usage.CPUUtilization(
        system_core_count=cores,
        n_expected_cores=expected,
        system=utilization('system', cores),
        main=utilization('main', expected),
        descendants=utilization('descendants', expected),
        combined=utilization('combined', expected),
        main_n_threads=main_threads,
        descendants_n_threads=descendants_threads,
        combined_n_threads=combined_threads,
    )
    return {'cpu_utilization': section}


def _at_most(rate: float | None, cores: int | None) -> float | None:
    """Return ``rate``, which cannot be more than all cores: what lies above is the rounding of a short span."""
    return rate if rate is None or cores is None else min(rate, float(cores))
