"""The data that the kernel reports: totals by process, which lose nothing at any rate of calls, and events."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

UNKNOWN_DEVICE = -2
"""Stands for the GPU of calls of which it is not known to which they went."""
HOST_MEMORY = -3
"""Stands for page-locked memory of the host, whichever GPU it was allocated for."""


class ProcessTotals(NamedTuple):
    """One program run that has called CUDA."""

    process: int
    """Its number: each fork and each exec of a followed process gets a new one."""
    pid: int
    """Its process ID, in the namespace of the probe."""
    parent: int
    """The number of the program run that it was started from; 0: the probe was asked to follow it."""
    name: str
    """The name that the kernel has of the thread that called CUDA first: 15 bytes at most."""
    began: int
    """When it first called CUDA, in nanoseconds of the monotonic clock."""
    ended: int | None
    """When it ended; None: it runs."""
    streams: int
    """The streams to which it has launched, each once."""
    graph_launches: int
    """CUDA graphs that it has launched; their kernels count as launches where it is known which these are."""
    unknown_graph_launches: int
    """Those of which it is not."""


class DeviceTotals(NamedTuple):
    """The calls of one program run on one GPU."""

    process: int
    device: int | None
    """The process' own number of the GPU, or :data:`UNKNOWN_DEVICE`. None: all of its GPUs together, for which only
    memory is known, as for :data:`HOST_MEMORY`."""
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
    """A number in :data:`gpu_tracker.cuda_probe.cuda_api.FUNCTIONS`."""
    error: int
    """The CUDA error that it returned."""
    times: int
    """How often."""


class Totals(NamedTuple):
    """All that the kernel has added up, at one time."""

    processes: tuple[ProcessTotals, ...]
    devices: tuple[DeviceTotals, ...]
    kernels: tuple[KernelTotals, ...]
    failures: tuple[FailureTotals, ...]
    overflows: tuple[int, ...]
    """How often something found no room, in the order of ``kernel_layout.Overflow``."""


class EventKind(IntEnum):
    """What has happened; which fields of :class:`Event` mean something beside time, process and thread."""

    LAUNCH = 1
    """A kernel was launched, at the entry of the call: stream, address of the kernel, value: its threads."""
    STREAM_SYNC = 2
    """All work of the stream is done, known at the return of the call: stream."""
    DEVICE_SYNC = 3
    """All work of the device is done: device."""
    EVENT_RECORD = 4
    """An event was recorded on a stream: address: the event's handle; stream."""
    EVENT_DONE = 5
    """What was on the stream before the event was last recorded is done: address: the event's handle."""
    EVENT_DESTROY = 6
    """The handle of an event is gone: address."""
    MEMCPY = 7
    """A blocking copy has returned, before which all work of its stream was done: stream."""
    ALLOCATION = 8
    """Memory was allocated: value: bytes; in_use: those of the process on the device from then on; address."""
    FREE = 9
    """Memory was freed: the same."""
    STREAM_DESTROY = 10
    """The handle of a stream is gone: stream."""
    DEVICE_RESET = 11
    """All that the process had on the device is gone."""
    PROCESS_END = 12
    """The program has ended, or has made another program of its process. The device is -1."""


class Event(NamedTuple):
    """One record, as the kernel writes it: ``struct event`` in ``bpf/layout.h``."""

    time: int
    """Nanoseconds of the monotonic clock."""
    stream: int
    """The handle of a stream; 0 is the default stream, and those of threads have the highest bit set."""
    address: int
    value: int
    in_use: int
    process: int
    """The number of the program run, see :class:`gpu_tracker.cuda_probe.kernel_data.ProcessTotals`."""
    device: int
    """The process' own number of the GPU, as cudaSetDevice counts; -1: none."""
    kind: int
    flags: int
    """Not used."""
    thread: int
    """The thread's ID in the kernel's first namespace."""
