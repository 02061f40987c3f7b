"""CPU: the time that was used and the largest utilization, of the tracked process, its descendants and the machine."""

from __future__ import annotations

import os

from gpu_tracker.processes import stat
from gpu_tracker.resources import COUNTER, GAUGE, GROUPS, WHOSE, Column, Resource
from gpu_tracker.resources.rates import MaximalRate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from gpu_tracker import usage
    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.resources.context import Context, System
    from gpu_tracker.resources.cpu.counters import CpuCounters
    from gpu_tracker.resources.cpu.missed_time import Clocks, MissedTime
    from gpu_tracker.resources.cpu.recorded_time import RecordedTime
    from gpu_tracker.totals import Totals
    from gpu_tracker.units import Units


class Cpu(Resource):
    """CPU time from cumulative counters, and numbers of threads.

    :param machine: Returns how busy all cores were.
    :param missed: Adds the CPU time that counters miss; None: nothing does.
    :param recorded: Adds that of processes which have ended unseen; None: nobody reports them.
    """

    columns = (
        *(Column(f'{group}_cpu', 'seconds', COUNTER, f'CPU time of {whose}') for group, whose in WHOSE.items()),
        *(Column(f'{group}_n_threads', 'count', GAUGE, f'threads of {WHOSE[group]}') for group in GROUPS),
    )

    def __init__(
        self,
        tree: ProcessTree,
        machine: System,
        missed: MissedTime | None = None,
        recorded: RecordedTime | None = None,
    ) -> None:
        self._tree = tree
        self._recorded = recorded
        self._machine = machine
        self._missed = missed
        self._cpu_before = tree.root.own_cpu
        self._counters: CpuCounters | None = None
        self._rates = {group: MaximalRate() for group in (*GROUPS, 'system')}
        self._threads = (0, 0, 0)
        self._most_threads = [0, 0, 0]

    def sample(self, now: float, kind: str) -> None:
        """Read the CPU time of the tree and of the machine; times count from the first of these."""
        del kind
        if self._counters is None:
            from gpu_tracker.resources.cpu.counters import CpuCounters  # noqa: PLC0415 - in the sampler alone

            self._counters = CpuCounters(self._tree, self._missed)
            self._cpu_before = self._tree.root.own_cpu  # it may have run since this was made
        of_machine = self._machine.cpu()  # missed time is compared with it
        reading = self._counters.read()
        if self._recorded is not None:
            self._recorded.add(reading)
        rates = self._rates
        rates['main'].add(now, reading.main, reading.begun)
        rates['descendants'].add(now, reading.descendants, reading.begun)
        rates['combined'].add(now, reading.main + reading.descendants, reading.begun)
        if of_machine is not None:
            rates['system'].add(now, of_machine)
        main, descendants = reading.main_threads, reading.descendants_threads
        threads = (main, descendants, main + descendants)
        if threads != self._threads:
            self._threads = threads
            self._most_threads = list(map(max, self._most_threads, threads))

    def sample_between(self) -> None:
        """Read the clocks of processes whose time no counter may have at the next sample."""
        if self._missed is not None:
            self._missed.attach_where_ignored()

    def row(self) -> Sequence[float | None]:
        """Return the CPU seconds of the three groups and of the machine, and the threads of the groups."""
        return [rate.amount for rate in self._rates.values()] + list(self._threads)

    def used_so_far(self) -> float | None:
        """Return the CPU seconds of all together."""
        return self._rates['combined'].amount

    def totals(self) -> dict[str, object]:
        """Return ``main``, ``descendants``, ``combined`` and ``system``, each [seconds, most seconds a second].

        With them ``threads``, the most of the first three, and ``cores``, the logical cores of the machine.
        """
        return {
            **{group: [rate.amount, rate.largest()] for group, rate in self._rates.items()},
            'threads': self._most_threads,
            'cores': self._machine.cores,
        }

    def record(self) -> dict[str, object]:
        """Return what :mod:`gpu_tracker.resources.rusage` has to know of the counters."""
        counters, missed, recorded, tree = self._counters, self._missed, self._recorded, self._tree
        root = tree.root
        is_bound = missed is not None and missed.is_lower_bound
        if recorded is not None and recorded.is_complete:
            is_bound = False
        is_recorded = recorded is not None and recorded.is_needed
        if is_recorded:
            is_bound = True  # a record is made before a process gives its memory back, which takes CPU time as well
        return {
            'unreaped': 0.0 if counters is None else counters.unreaped,
            'adopted': 0.0 if counters is None else counters.adopted,
            'has_clocks': (missed is not None and missed.is_added) or is_recorded,
            'cpu_is_lower_bound': not tree.counts_reaped_time or is_bound,
            'cpu_before': self._cpu_before,
            # Where the system does not tell it: whether there was anybody to be waited for.
            'has_reaped': stat.has_reaped(root.raw) if root.raw else self._most_threads[1] > 0,
        }


def open_resource(context: Context) -> Cpu:
    """Return the CPU time of the tree."""
    return Cpu(context.tree, context.machine, _open_missed(context), _open_recorded(context))


def _open_recorded(context: Context) -> RecordedTime | None:
    if context.ended is None:
        return None
    from gpu_tracker.resources.cpu.recorded_time import RecordedTime  # noqa: PLC0415 - most users have no right to it

    return RecordedTime(context.tree, context.ended)


def _open_missed(context: Context) -> MissedTime | None:
    config = context.config
    if config['reader'] != 'proc':
        return None
    from gpu_tracker.resources.cpu.missed_time import MissedTime  # noqa: PLC0415 - Linux only

    is_launched = config['launcher'] is not None
    return MissedTime(
        context.tree,
        context.machine,
        _open_clocks,
        root_may_vanish=not is_launched and config['target'] != config['owner'],
        orphans_are_waited_for=is_launched,
    )


def _open_clocks(tree: ProcessTree, root_may_vanish: bool) -> Clocks:  # noqa: FBT001 - called by position alone
    try:
        from gpu_tracker.processes.announced import AnnouncedSamplers  # noqa: PLC0415 - most runs do not need it
        from gpu_tracker.processes.task_clocks import PerfEvents, TaskClocks  # noqa: PLC0415 - imports ctypes: 6 ms
    except ImportError as error:  # this interpreter has no ctypes, or no more files may be opened
        raise OSError(str(error)) from error

    root = tree.root.pid
    others = [pid for pid in tree.members if pid != root]
    strangers = [os.getpid(), *tree.samplers]
    kernel = PerfEvents()
    samplers = AnnouncedSamplers(root)
    try:
        return TaskClocks(kernel, root, others, strangers, samplers=samplers, root_may_vanish=root_may_vanish)
    except OSError:
        samplers.close()
        raise


def usage_of(totals: Totals, wanted: Units) -> dict[str, usage.CPUUtilization]:
    """Return the section ``cpu_utilization`` of the result."""
    from gpu_tracker import usage  # noqa: PLC0415 - the sampler needs none of it
    from gpu_tracker.resources.rates import percentages  # noqa: PLC0415 - as above

    cpu, seconds = totals['cpu'], totals['seconds']
    cores = cpu['cores']
    expected = wanted.expected_cores or cores

    def utilization(used: list[Any], divisor: int | None) -> usage.ProcessingUnitPercentages:
        amount, largest = used
        mean = amount / seconds if amount is not None and seconds > 0 else None
        if largest is not None and mean is not None:
            largest = max(largest, mean)
        return percentages(_at_most(largest, cores), _at_most(mean, cores), divisor)

    main_threads, descendants_threads, combined_threads = cpu['threads']
    section = usage.CPUUtilization(
        system_core_count=cores,
        n_expected_cores=expected,
        system=utilization(cpu['system'], cores),
        main=utilization(cpu['main'], expected),
        descendants=utilization(cpu['descendants'], expected),
        combined=utilization(cpu['combined'], expected),
        main_n_threads=main_threads,
        descendants_n_threads=descendants_threads,
        combined_n_threads=combined_threads,
    )
    return {'cpu_utilization': section}


def _at_most(rate: float | None, cores: int | None) -> float | None:
    """More than all cores cannot have been busy: what lies above is the rounding of a short span."""
    return rate if rate is None or cores is None else min(rate, float(cores))
