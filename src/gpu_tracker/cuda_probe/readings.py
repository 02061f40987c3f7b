"""What the kernel has added up of each process: nothing of it is lost at any rate of calls."""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN_DEVICE = -2
"""Stands for the GPU of calls of which it is not known to which they went."""


class ProcessTotals(NamedTuple):
    """One program run that has called CUDA."""

    process: int
    """Its number: each fork and each exec of a followed process gets a new one."""
    pid: int
    """Its process ID, in the namespace of the probe."""
    parent: int
    """The number of the program run that it was started from; 0: the probe was told to follow it."""
    name: str
    """The name that the kernel has of the thread that called CUDA first: 15 bytes at most."""
    began: int
    """When it first called CUDA, in nanoseconds of the monotonic clock."""
    ended: int | None
    """When it ended; None: it runs."""
    streams: int
    """The streams to which it has launched, each once."""
    graph_launches: int
    """Launches of CUDA graphs: what these ran is in no other figure."""


class DeviceTotals(NamedTuple):
    """The calls of one program run on one GPU."""

    process: int
    device: int | None
    """The process' own number of the GPU, or :data:`UNKNOWN_DEVICE`; None: all of its GPUs together, for which only
    memory is told."""
    launches: int
    threads: int
    """The threads of all launches together: grid times block."""
    allocations: int
    frees: int
    allocated: int
    """Bytes, all allocations together."""
    freed: int
    """Bytes."""
    in_use: int
    """Bytes that were allocated and not freed; of a program that has ended: those that it leaked."""
    peak: int
    """The most bytes in use at once."""
    synchronisations: int
    """Calls that waited for a stream, a device or an event."""
    synchronising: int
    """Nanoseconds inside these calls, over all threads together."""
    copies: int
    """Blocking copies."""


class KernelTotals(NamedTuple):
    """The launches of one kernel by one program run."""

    process: int
    address: int
    """Where the program has the kernel's host function; a handle where it was launched through the driver."""
    launches: int
    threads: int


class FailureTotals(NamedTuple):
    """The failed calls of one function with one error, by one program run."""

    process: int
    function: int
    """A number in :data:`gpu_tracker.cuda_probe.calls.FUNCTIONS`."""
    error: int
    """The CUDA error that it returned."""
    times: int
    """How often."""


class Totals(NamedTuple):
    """All that the kernel has added up, at one moment."""

    processes: tuple[ProcessTotals, ...]
    devices: tuple[DeviceTotals, ...]
    kernels: tuple[KernelTotals, ...]
    failures: tuple[FailureTotals, ...]
    overflows: tuple[int, ...]
    """How often something found no room, in the order of :class:`gpu_tracker.cuda_probe.engine.layout.Overflow`."""
