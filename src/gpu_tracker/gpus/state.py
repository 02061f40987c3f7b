"""One look at all GPUs of a machine, in plain data: what an inventory needs, and a sample of a run does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gpu_tracker.gpus.reading import ProcessMemory


class DeviceState(NamedTuple):
    """A GPU, or a MIG device of one, at one moment; None is what the driver does not tell."""

    number: int
    """A GPU's index, which is its place in PCI bus order, from 0; a MIG device's number on its GPU."""
    uuid: str | None = None
    """None where the driver knows of the GPU and cannot open it."""
    name: str | None = None
    pci_bus_id: str | None = None
    minor: int | None = None
    """The N of its device node ``/dev/nvidiaN``, which need not be its number; None as well for a MIG device."""
    problem: str | None = None
    """Why the GPU cannot be read (lost, not permitted), in words; None where it can."""
    memory_total: int | None = None
    """Bytes; None as well where the GPU has no memory of its own."""
    memory_used: int | None = None
    """Bytes, without those that the driver keeps for itself where it tells them apart."""
    memory_free: int | None = None
    """Bytes that a program can have."""
    utilization: float | None = None
    """Percent; unknown in MIG mode."""
    temperature: float | None = None
    """Degrees Celsius."""
    sm_clock: int | None = None
    """Hertz."""
    power: float | None = None
    """Watts."""
    power_limit: float | None = None
    """Watts."""
    processes: list[ProcessMemory] | None = None
    """Those on it; on a GPU in MIG mode those of its MIG devices too."""
    mig_devices: tuple[DeviceState, ...] | None = None
    """None: not in MIG mode. A GPU in MIG mode cannot be used whole."""
