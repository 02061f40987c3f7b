"""What has been counted of a GPU and its processes since the daemon started: pure functions of the readings.

In the units of atop's protocol: percent, KiB, milliseconds. A cumulative figure is the sum of one figure a reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_tracker.gpus.model import Account, GpuProcess, GpuReading

REMEMBERED = 256
"""Processes that have left a GPU and live on, and whose counters are kept: clients subtract what they were told."""

_KIB = 1024


class ProcessCounters(NamedTuple):
    """One process on one GPU. What is known of now was so at the last reading that showed the process."""

    pid: int
    started: float | None = None
    """What distinguishes it from another process that has had the same process ID; None where that cannot be known."""
    computes: bool = True
    draws: bool = False
    busy: int | None = None
    """Percent that the GPU worked for it: over its life where accounting mode is on, else since the reading before."""
    memory_busy: int | None = None
    """Percent that memory was read or written for it, over the same time."""
    milliseconds: int = 0
    """How long it used the GPU; known only after its end."""
    memory: int = 0
    """KiB; 0 as well where unknown."""
    samples: int = 0
    busy_total: int | None = 0
    """Of what was so since the reading before, at each reading; None: the first one did not report it."""
    memory_busy_total: int | None = 0
    memory_total: int = 0
    has_left: bool = False
    """Whether it has left the GPU."""

    @property
    def only_draws(self) -> bool:
        """Whether it is in the driver's list of graphics processes alone."""
        return self.draws and not self.computes


class GpuCounters(NamedTuple):
    """One GPU. What is known of now was so at the last reading that could be made."""

    is_readable: bool = False
    """Whether the last reading could be made."""
    busy: int | None = None
    """Percent."""
    memory_busy: int | None = None
    """Percent."""
    memory_size: int = 0
    """KiB; 0 as well where unknown."""
    memory: int = 0
    """KiB in use; 0 as well where unknown."""
    samples: int = 0
    """Readings that have told utilization, if this GPU tells it at all."""
    busy_total: int = 0
    memory_busy_total: int = 0
    memory_total: int = 0
    processes: Mapping[int, ProcessCounters] = {}
    """By process ID, those of the last reading that listed processes."""
    are_listed: bool = False
    """Whether the last reading listed processes."""
    left: Mapping[int, ProcessCounters] = {}
    """By process ID, those that have left the GPU and live on; of now they have nothing on it."""
    tells_busy: bool = False
    """Whether this GPU has told how busy it is since it was opened."""

    @property
    def busy_now(self) -> int | None:
        """Percent; None where the last reading could not be made, as well."""
        return self.busy if self.is_readable else None

    @property
    def memory_busy_now(self) -> int | None:
        """Percent; None where the last reading could not be made, as well."""
        return self.memory_busy if self.is_readable else None


class Counted(NamedTuple):
    """What a reading has led to."""

    gpu: GpuCounters
    ended: tuple[ProcessCounters, ...] = ()
    """Processes that were on the GPU, or had left it, and have ended since the reading before."""


def count(before: GpuCounters, activity: GpuReading, starts: Mapping[int, float | None]) -> Counted:
    """Return the counters after a reading.

    :param starts: By process ID, what distinguishes it from others with the same ID: all of the reading, and those
        that it does not show any more and that live on.
    """
    if activity.problem is not None:
        return Counted(before._replace(is_readable=False))
    gpu = _of_now(before, activity)
    is_known = None not in {activity.utilization, activity.memory_utilization}
    if is_known or not before.tells_busy:  # else the reading would take part in a mean that it knows nothing of
        gpu = gpu._replace(
            samples=gpu.samples + 1,
            busy_total=gpu.busy_total + (gpu.busy or 0),
            memory_busy_total=gpu.memory_busy_total + (gpu.memory_busy or 0),
            memory_total=gpu.memory_total + gpu.memory,
            tells_busy=is_known,
        )
    if activity.processes is None:
        return Counted(gpu._replace(are_listed=False))
    return _with_processes(gpu, activity.processes, activity.ended, starts)


def total(one: int | None, other: int | None) -> int | None:
    """Return a sum, unknown where a part of it is."""
    return None if one is None or other is None else one + other


def opened_anew(gpu: GpuCounters) -> GpuCounters:
    """Return the counters of a GPU that has been opened anew: it may tell less than before, as in MIG mode."""
    return gpu._replace(tells_busy=False)


def _of_now(before: GpuCounters, activity: GpuReading) -> GpuCounters:
    return before._replace(
        is_readable=True,
        busy=None if activity.utilization is None else round(activity.utilization),
        memory_busy=activity.memory_utilization,
        memory_size=_kib(activity.memory_total),
        memory=_kib(activity.memory_used),
    )


def _with_processes(
    gpu: GpuCounters,
    listed: tuple[GpuProcess, ...],
    accounts: tuple[Account, ...],
    starts: Mapping[int, float | None],
) -> Counted:
    """Return the counters with the processes of a reading.

    Some processes leave a GPU and come back. They go on where they were, so that a client that has seen nothing of it
    subtracts what it should.
    """
    known = {**gpu.left, **gpu.processes}
    processes = {}
    for process in _once_each(listed):
        started = starts.get(process.pid)
        before = known.get(process.pid)
        if before is not None and before.started == started:
            del known[process.pid]
        else:
            before = ProcessCounters(process.pid, started)
        processes[process.pid] = _process(before, process)
    left = {}
    ended = []
    account_of = {account.pid: account for account in accounts}
    for pid, gone in known.items():
        if pid not in processes and gone.started is not None and starts.get(pid) == gone.started:
            left[pid] = gone._replace(busy=0, memory_busy=0, memory=0, has_left=True)
        else:
            ended.append(_settled(gone, account_of.get(pid)))
    for pid in list(left)[: max(0, len(left) - REMEMBERED)]:
        del left[pid]
    return Counted(gpu._replace(processes=processes, are_listed=True, left=left), tuple(ended))


def _once_each(listed: tuple[GpuProcess, ...]) -> Iterable[GpuProcess]:
    """Return each process once: one that is on several MIG devices has what is known of its memory there together."""
    found: dict[int, GpuProcess] = {}
    for process in listed:
        known = found.get(process.pid)
        if known is None:
            found[process.pid] = process
            continue
        sizes = [size for size in (known.memory, process.memory) if size is not None]
        found[process.pid] = known._replace(
            memory=sum(sizes) if sizes else None,
            computes=known.computes or process.computes,
            draws=known.draws or process.draws,
        )
    return found.values()


def _process(before: ProcessCounters, now: GpuProcess) -> ProcessCounters:
    busy, memory_busy = (now.utilization, now.memory_utilization) if now.account is None else now.account
    process = before._replace(
        computes=now.computes,
        draws=now.draws,
        busy=busy,
        memory_busy=memory_busy,
        memory=_kib(now.memory),
        has_left=False,
    )
    tells_busy = before.samples > 0 and None not in {before.busy_total, before.memory_busy_total}
    if tells_busy and None in {now.utilization, now.memory_utilization}:
        return process  # a reading that does not report what others have told takes no part in the sums
    return process._replace(
        samples=before.samples + 1,
        busy_total=total(before.busy_total, now.utilization),
        memory_busy_total=total(before.memory_busy_total, now.memory_utilization),
        memory_total=before.memory_total + process.memory,
    )


def _settled(process: ProcessCounters, account: Account | None) -> ProcessCounters:
    """Return a process that has ended with what the driver has kept of it."""
    if account is None:
        return process
    return process._replace(
        busy=account.utilization, memory_busy=account.memory_utilization, milliseconds=account.milliseconds
    )


def _kib(size: int | None) -> int:
    return (size or 0) // _KIB
