"""Which GPU, or MIG device of one, has which number and which device file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.idle.gpu_id import GpuId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from gpu_tracker.gpus.model import GpuProcess, GpuReading


class Place(NamedTuple):
    """A GPU that programs can have, or a MIG device: a GPU in MIG mode cannot be used whole."""

    gpu: GpuId
    node: int | None = None
    """The N of its device file ``nvidiaN``, which MIG devices share; None: there is none."""
    state: GpuReading | None = None
    """What the driver tells of it; None: nothing."""
    whole: GpuReading | None = None
    """What the driver tells of the GPU that a MIG device is a part of."""

    @property
    def listed(self) -> tuple[GpuProcess, ...] | None:
        """The processes that the driver lists on it; None: it does not tell."""
        return None if self.state is None else self.state.processes

    def pids(self, holders: Collection[int]) -> frozenset[int]:
        """Return the processes that are on it.

        Tenants of MIG devices share a device file: a process that the driver lists only on another MIG device of the
        same GPU is not on this one; one that it lists on none may be on each.

        :param holders: The processes that hold the device file open.
        """
        here = _pids(self.listed)
        if self.whole is None:
            return here | frozenset(holders)
        parts = self.whole.mig_devices or ()
        elsewhere = frozenset(pid for part in parts for pid in _pids(part.processes))
        return here | ((frozenset(holders) | _pids(self.whole.processes)) - elsewhere)


def lay_out(nodes: Collection[int], gpus: Sequence[GpuReading] | None) -> list[Place]:
    """Return all GPUs and MIG devices in order.

    Without a driver a GPU's number is that of its device file. Where the driver does not tell which file is a GPU's, as
    of one that is lost, it is the first in order that is no other's. A file of a GPU that the driver does not know is
    left out: no program could use it.

    :param nodes: The numbers of the device files.
    :param gpus: What the driver tells, in PCI bus order; None: there is none.
    """
    if gpus is None:
        return [Place(GpuId(node), node) for node in sorted(nodes)]
    places = []
    for gpu, node in zip(gpus, _nodes_of(gpus, nodes), strict=True):
        if gpu.mig_devices is None:
            places.append(Place(GpuId(gpu.number), node, gpu))
        else:
            places += [Place(GpuId(gpu.number, part.number), node, part, gpu) for part in gpu.mig_devices]
    return places


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
