"""GPUs, readings of them and processes on them, written briefly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_tracker.gpus.model import Gpu, GpuProcess, GpuReading

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_tracker.gpus.claim import Claim


def known(
    number: int,
    uuid: str | None = None,
    pci_bus_id: str | None = None,
    name: str | None = None,
    lists_compute: bool = False,
    **fields: Any,
) -> Gpu:
    """Return a GPU as a monitor knows it."""
    return Gpu(number, uuid, name, pci_bus_id, lists_compute=lists_compute, **fields)


def capable(number: int, uuid: str | None, name: str | None, memory_total: int | None) -> Gpu:
    """Return a GPU as the sampler knows it."""
    return Gpu(number, uuid, name, memory_total=memory_total)


def reading(
    number: int,
    uuid: str | None = None,
    name: str | None = None,
    pci_bus_id: str | None = None,
    minor: int | None = None,
    *,
    memory_total: int | None = None,
    vendor: str = 'nvidia',
    processes: Iterable[GpuProcess] | None = None,
    **fields: Any,
) -> GpuReading:
    """Return a reading of a GPU that is described along with it."""
    gpu = Gpu(number, uuid, name, pci_bus_id, minor, memory_total, vendor)
    return GpuReading(gpu, processes=None if processes is None else tuple(processes), **fields)


def sampled(
    used: int | None, processes: list[GpuProcess] | None, samples: list[tuple[int, float]] | None
) -> GpuReading:
    """Return what a sampler reads of a GPU."""
    listed = None if processes is None else tuple(processes)
    return GpuReading(Gpu(0), memory_used=used, samples=samples, processes=listed)


def monitored(
    problem: str | None = None,
    utilization: int | None = None,
    memory_utilization: int | None = None,
    memory_total: int | None = None,
    memory_used: int | None = None,
    processes: tuple[GpuProcess, ...] | None = None,
    **fields: Any,
) -> GpuReading:
    """Return what a monitor reads of a GPU, whatever it knows of it besides."""
    return GpuReading(
        Gpu(0, memory_total=memory_total),
        problem,
        memory_used=memory_used,
        utilization=utilization,
        memory_utilization=memory_utilization,
        processes=processes,
        **fields,
    )


def changed(before: GpuReading, **fields: Any) -> GpuReading:
    """Return a reading with other values, also of what its GPU is."""
    of_gpu = {name: fields.pop(name) for name in tuple(fields) if name in Gpu._fields and name != 'mig_devices'}
    return before._replace(gpu=before.gpu._replace(**of_gpu), **fields)


def used_by(
    before: GpuReading,
    processes: tuple[GpuProcess, ...] | None = None,
    claim: Claim | None = None,
    mig_devices: tuple[GpuReading, ...] | None = None,
    parent: GpuReading | None = None,
) -> GpuReading:
    """Return a reading with these processes and this claim, as the inventory completes it."""
    return before._replace(processes=processes, claim=claim, mig_devices=mig_devices, parent=parent)
