"""GPUs of one poll: their numbers and device files, who else uses them, what makes them busy, and what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.idle.config.idle_settings import GpuId
from gpu_tracker.idle.state import WatchedGpu

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from gpu_tracker.gpus.model import GpuProcess, GpuReading
    from gpu_tracker.idle.config.idle_settings import GpuSection
    from gpu_tracker.idle.observing.gpu_processes import Programs


class UsableGpu(NamedTuple):
    """A GPU that programs can have, or a MIG device: a GPU in MIG mode cannot be used whole."""

    gpu: GpuId
    node: int | None = None
    """The N of its device file ``nvidiaN``, which MIG devices share; None: there is none."""
    state: GpuReading | None = None
    """What the driver reports of it; None: nothing."""
    whole: GpuReading | None = None
    """What the driver reports of the GPU that a MIG device is a part of."""

    @property
    def listed(self) -> tuple[GpuProcess, ...] | None:
        """The processes that the driver lists on it; None: it does not report them."""
        return None if self.state is None else self.state.processes

    def pids(self, openers: Collection[int]) -> frozenset[int]:
        """Return the processes that are on it.

        Tenants of MIG devices share a device file: a process that the driver lists only on another MIG device of the
        same GPU is not on this one; one that it lists on none may be on each.

        :param openers: The processes that hold the device file open.
        """
        here = _pids(self.listed)
        if self.whole is None:
            return here | frozenset(openers)
        parts = self.whole.mig_devices or ()
        elsewhere = frozenset(pid for part in parts for pid in _pids(part.processes))
        return here | ((frozenset(openers) | _pids(self.whole.processes)) - elsewhere)


def usable_gpus(nodes: Collection[int], gpus: Sequence[GpuReading] | None) -> list[UsableGpu]:
    """Return all GPUs and MIG devices in order.

    Without a driver a GPU's number is that of its device file. Where the driver does not report a GPU's file, as of
    one that is lost, it is the first in order that is no other's. A file of a GPU that the driver does not know is
    left out: no program could use it.

    :param nodes: The numbers of the device files.
    :param gpus: What the driver reports, in PCI bus order; None: there is none.
    """
    if gpus is None:
        return [UsableGpu(GpuId(node), node) for node in sorted(nodes)]
    usable = []
    for gpu, node in zip(gpus, _nodes_of(gpus, nodes), strict=True):
        if gpu.mig_devices is None:
            usable.append(UsableGpu(GpuId(gpu.number), node, gpu))
        else:
            usable += [UsableGpu(GpuId(gpu.number, part.number), node, part, gpu) for part in gpu.mig_devices]
    return usable


def without_figures(gpu: GpuReading) -> GpuReading:
    """Return what of a GPU stays true for a while: where it is, what it is called, and how it is divided."""
    parts = None if gpu.mig_devices is None else tuple(without_figures(part) for part in gpu.mig_devices)
    return gpu._replace(memory_used=None, memory_free=None, utilization=None, processes=None, mig_devices=parts)


def only_with(is_meant: Callable[[int], bool], gpu: GpuReading) -> GpuReading:
    """Return a GPU without those of its processes that ``is_meant`` does not accept."""
    kept = None if gpu.processes is None else tuple(entry for entry in gpu.processes if is_meant(entry.pid))
    parts = None if gpu.mig_devices is None else tuple(only_with(is_meant, part) for part in gpu.mig_devices)
    return gpu._replace(processes=kept, mig_devices=parts)


def _nodes_of(gpus: Sequence[GpuReading], nodes: Collection[int]) -> list[int | None]:
    known = {gpu.gpu.minor for gpu in gpus}
    others = iter(sorted(set(nodes) - known))
    return [next(others, None) if gpu.gpu.minor is None else gpu.gpu.minor for gpu in gpus]


def _pids(entries: Iterable[GpuProcess] | None) -> frozenset[int]:
    return frozenset(entry.pid for entry in entries or ())


_MEGABYTE = 1e6
_GIGABYTE = 1e9


def load_of(
    state: GpuReading, section: GpuSection, ours: Collection[int], *, ended: Collection[int] = (), is_certain: bool
) -> str | None:
    """Return in words what reaches its threshold, None where nothing does or it is unknown.

    :param ours: The processes of ours that are on the GPU.
    :param ended: Processes that were listed on it and are no more: what they had is nobody's.
    :param is_certain: Whether the driver's list tells all of ours: not in a container, where it may leave them out, or
        tell of no memory.
    """
    found = []
    if section.busy_memory is not None:
        memory = _memory_of_others(state, ours, ended, is_certain=is_certain)
        if memory is not None and memory >= section.busy_memory:
            found.append(f'{_size(memory)} of memory in use by others')
    threshold, utilization = section.busy_utilization, state.utilization
    if threshold is not None and utilization is not None and utilization >= threshold and not ours and not ended:
        found.append(f'utilization {utilization:.0f} %')
    return ' and '.join(found) or None


def _memory_of_others(
    state: GpuReading, ours: Collection[int], ended: Collection[int], *, is_certain: bool
) -> int | None:
    """Return the bytes in use without those of our processes; None where either is unknown."""
    if state.memory_used is None or not (ours or ended):
        return state.memory_used
    if state.processes is None:
        return None
    known = 0
    listed = set()
    for entry in state.processes:
        if entry.pid in ours or entry.pid in ended:
            if entry.memory is None or not (entry.memory or is_certain):
                return None
            known += entry.memory
            listed.add(entry.pid)
    if not (is_certain or listed.issuperset(ours)):
        return None
    return max(0, state.memory_used - known)


def _size(memory: int) -> str:
    return f'{memory / _GIGABYTE:.1f} GB' if memory >= _GIGABYTE else f'{memory / _MEGABYTE:.0f} MB'


class GpuPoll(NamedTuple):
    """What is needed to judge the GPUs of one poll."""

    programs: Programs
    is_ours: Callable[[int], bool]
    """Returns whether a process belongs to our programs."""
    exists: Callable[[int], bool]
    """Returns whether there is a process of an ID, be it hidden."""
    is_certain: bool
    """Whether the driver reports of every process on a GPU by an ID that is valid here; not in some containers."""

    def observe(self, gpu: UsableGpu, section: GpuSection, openers: Collection[int], problem: str | None) -> WatchedGpu:
        """Return what a watched GPU shows.

        A GPU that the driver cannot read counts as one that cannot be used, also where this user merely may not read
        it: nobody could see who else uses it.

        :param openers: The processes that hold its device file open.
        :param problem: Why it cannot be used, though the driver reports nothing of that.
        """
        pids = gpu.pids(openers)
        ours = {pid for pid in pids if self.is_ours(pid)}
        # The driver's list may be older than the end of a process, which may have been ours.
        ended = {pid for pid in pids - ours if not self.exists(pid)}
        users = tuple(self.programs.describe(pid) for pid in sorted(pids - ours - ended) if self._counts(pid, section))
        state = gpu.state
        if state is None:
            return WatchedGpu(gpu.gpu, None, users, None, problem)
        load = load_of(state, section, ours, ended=ended, is_certain=self.is_certain)
        if state.problem is not None:
            problem = f'cannot be used: {state.problem}'
        return WatchedGpu(gpu.gpu, state.uuid, users, load, problem)

    def _counts(self, pid: int, section: GpuSection) -> bool:
        return not (self.programs.never_counts(pid) or self.programs.is_ignored(pid, section.ignore_programs))
