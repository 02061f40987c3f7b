"""Events of CUDA calls as the kernel tells them: plain tuples, times in nanoseconds; and statistics made of them."""

from __future__ import annotations

from gpu_tracker.cuda_probe.kernel_data import Event, EventKind
from gpu_tracker.cuda_probe.limits import ModelLimits
from gpu_tracker.cuda_probe.model.statistics import Statistics
from gpu_tracker.cuda_probe.model.window import Capacity

GPU = 'GPU-1'
CORES = 1000
MEMORY = 1 << 30
KERNEL = 0x5600_0000
STREAM = 0x55D0_0000
"""The handle of a stream that was made."""
OWN_STREAM = 1 << 63
"""The default stream of a thread: to this comes its number."""


def event(kind, time, *, stream=0, address=0, value=0, in_use=0, process=1, device=0):
    made = Event(time, stream, address, value, in_use, process, device, int(kind), flags=0, thread=17)
    return tuple(made)


def launch(time, stream=0, kernel=KERNEL, threads=100, **of):
    return event(EventKind.LAUNCH, time, stream=stream, address=kernel, value=threads, **of)


def sync(time, stream=0, **of):
    return event(EventKind.STREAM_SYNC, time, stream=stream, **of)


def device_sync(time, **of):
    return event(EventKind.DEVICE_SYNC, time, **of)


def copy(time, stream=0, **of):
    return event(EventKind.MEMCPY, time, stream=stream, **of)


def record(time, handle, stream=0, **of):
    return event(EventKind.EVENT_RECORD, time, address=handle, stream=stream, **of)


def done(time, handle, **of):
    return event(EventKind.EVENT_DONE, time, address=handle, **of)


def destroy_event(time, handle, **of):
    return event(EventKind.EVENT_DESTROY, time, address=handle, **of)


def allocation(time, in_use, value=1, **of):
    return event(EventKind.ALLOCATION, time, value=value, in_use=in_use, address=0x7F00_0000, **of)


def free(time, in_use, value=1, **of):
    return event(EventKind.FREE, time, value=value, in_use=in_use, address=0x7F00_0000, **of)


def destroy_stream(time, stream, **of):
    return event(EventKind.STREAM_DESTROY, time, stream=stream, **of)


def reset(time, **of):
    return event(EventKind.DEVICE_RESET, time, **of)


def end(time, process=1):
    return event(EventKind.PROCESS_END, time, process=process, device=-1)


def limits(open_for=1000, **others):
    """Return limits with ``open_for`` in nanoseconds."""
    return ModelLimits(open_seconds=open_for * 1e-9, **others)


def statistics(*events, bounds=None, placed=lambda process, device: GPU, capacities=None, start=0):
    """Return statistics that have consumed events; all GPUs are one physical one, unless it is said otherwise."""
    capacities = {GPU: Capacity(CORES, MEMORY)} if capacities is None else capacities
    made = Statistics(bounds or limits(), placed, capacities, start)
    made.consume(events)
    return made


def window(*events, now=1000, **others):
    """Return one window from 0 to ``now``."""
    return statistics(*events, **others).get_and_flush(now)


def use(*events, **others):
    """Return what the one process of a window did with its one GPU."""
    (only,) = window(*events, **others).devices
    return only
