"""The stream of events that the kernel tells: one record a successful call that matters for time or memory."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


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
    """The number of the program run, see :class:`gpu_tracker.cuda_probe.readings.ProcessTotals`."""
    device: int
    """The process' own number of the GPU, as cudaSetDevice counts; -1: none."""
    kind: int
    flags: int
    """Not used."""
    thread: int
    """The thread's ID in the kernel's first namespace."""
