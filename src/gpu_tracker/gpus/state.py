"""What is asked of a machine's GPUs beside the samples of a run, in plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Protocol

    from gpu_tracker.gpus.reading import ProcessMemory

    class GpuMonitor(Protocol):
        """One GPU under observation. Any call may hang as long as the driver does; one thread at a time may call."""

        @property
        def identity(self) -> GpuIdentity:
            """What the GPU is; may become known only when it can be read."""

        def look(self) -> GpuActivity:
            """Look at the GPU; never raises because of it, see ``GpuActivity.problem``."""

        def keep_accounts(self) -> str | None:
            """Switch accounting mode on, for longer than this process lives; return why it is not on, else None."""


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


class DeviceDetails(NamedTuple):
    """A GPU, or a MIG device of one; None is what the driver does not tell."""

    number: int
    """A GPU's place in PCI bus order, from 0; a MIG device's number on its GPU."""
    uuid: str | None = None
    """None where the driver knows of the GPU and cannot open it."""
    name: str | None = None
    driver: str | None = None
    """The driver's version."""
    minor: int | None = None
    """The N of its device node ``/dev/nvidiaN``; None as well for a MIG device."""
    memory: int | None = None
    """Bytes; None as well where the GPU has no memory of its own."""
    cores: int | None = None
    """CUDA cores: how many threads execute at the same time."""
    gpu_instance: int | None = None
    """The ID of the GPU instance of a MIG device."""
    compute_instance: int | None = None
    """The ID of the compute instance of a MIG device."""
    mig_devices: tuple[DeviceDetails, ...] | None = None
    """None: not in MIG mode. A GPU in MIG mode cannot be used whole."""


class GpuIdentity(NamedTuple):
    """What a GPU is and which of its processes its driver tells of."""

    number: int
    """Its place in PCI bus order, from 0."""
    uuid: str | None = None
    """None where the driver knows of the GPU and cannot open it."""
    pci_bus_id: str | None = None
    name: str | None = None
    lists_compute: bool = False
    """Whether the driver lists the processes that compute on it."""
    lists_graphics: bool = False
    """Whether the driver lists the processes that draw on it."""
    keeps_accounts: bool = False
    """Whether accounting mode is on."""


class ProcessActivity(NamedTuple):
    """A process on a GPU, all its MIG instances together."""

    pid: int
    """The process ID, as the driver sees it."""
    memory: int | None = None
    """Bytes."""
    computes: bool = True
    draws: bool = False
    utilization: int | None = None
    """Percent of the time that the GPU worked for it: over its life so far where accounts are kept, else since the last
    look."""
    memory_utilization: int | None = None
    """Percent of the time that memory was read or written for it, over the same time."""


class Account(NamedTuple):
    """What accounting mode has kept of a process that has ended."""

    pid: int
    utilization: int | None
    """Percent over its life."""
    memory_utilization: int | None
    """Percent over its life."""
    milliseconds: int
    """How long it used the GPU."""


class GpuActivity(NamedTuple):
    """A GPU at one moment."""

    problem: str | None = None
    """Why the GPU cannot be read, in words that follow its name; then nothing else is known."""
    utilization: int | None = None
    """Percent; None as well in MIG mode."""
    memory_utilization: int | None = None
    """Percent of the time in which memory was read or written; None as well in MIG mode."""
    memory_total: int | None = None
    """Bytes; None as well where the GPU has no memory of its own, and in MIG mode where this user may not know."""
    memory_used: int | None = None
    """Bytes, without those that the driver keeps for itself where it tells them apart."""
    processes: tuple[ProcessActivity, ...] | None = None
    """Each process once."""
    ended: tuple[Account, ...] = ()
    """Accounts of processes that were listed at the last look and are no more."""
    gap: str | None = None
    """What is not known for a failure, in words that follow its name; what a GPU does not support is none."""
