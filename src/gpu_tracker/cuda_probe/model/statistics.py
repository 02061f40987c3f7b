"""The statistics generator: consumes events, and returns a window of figures on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.kernel_data import EventKind
from gpu_tracker.cuda_probe.model.activity import DeviceActivity, ProcessActivity
from gpu_tracker.cuda_probe.model.physical_gpus import Placement, normalised
from gpu_tracker.cuda_probe.model.window import DeviceUse, Losses, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gpu_tracker.cuda_probe.kernel_data import Event
    from gpu_tracker.cuda_probe.limits import ModelLimits
    from gpu_tracker.cuda_probe.model.window import Capacity

_LAUNCH = int(EventKind.LAUNCH)
_END = int(EventKind.PROCESS_END)
_MEMORY = frozenset({int(EventKind.ALLOCATION), int(EventKind.FREE)})

# Events come as plain tuples, too: building a class costs more than all else that is done with one.
_TIME, _STREAM, _ADDRESS, _VALUE, _IN_USE, _PROCESS, _DEVICE, _KIND = range(8)

_TAKE: Mapping[int, Callable[[ProcessActivity, Event], None]] = {
    EventKind.STREAM_SYNC: lambda process, event: process.synchronise(event[_TIME], event[_STREAM], event[_DEVICE]),
    EventKind.MEMCPY: lambda process, event: process.synchronise(event[_TIME], event[_STREAM], event[_DEVICE]),
    EventKind.DEVICE_SYNC: lambda process, event: process.synchronise_device(event[_TIME], event[_DEVICE]),
    EventKind.EVENT_RECORD: lambda process, event: process.record(event[_ADDRESS], event[_STREAM], event[_DEVICE]),
    EventKind.EVENT_DONE: lambda process, event: process.complete(event[_TIME], event[_ADDRESS]),
    EventKind.EVENT_DESTROY: lambda process, event: process.destroy_event(event[_ADDRESS]),
    EventKind.ALLOCATION: lambda process, event: process.use_memory(event[_TIME], event[_DEVICE], event[_IN_USE]),
    EventKind.FREE: lambda process, event: process.use_memory(event[_TIME], event[_DEVICE], event[_IN_USE]),
    EventKind.STREAM_DESTROY: lambda process, event: process.destroy_stream(
        event[_TIME], event[_STREAM], event[_DEVICE]
    ),
    EventKind.DEVICE_RESET: lambda process, event: process.reset_device(event[_TIME], event[_DEVICE]),
}


class Statistics:
    """Everything that the model knows; one for a probe, touched by one thread at a time.

    :param placed: Returns the key of the physical GPU of a process and its own number of a GPU; None: not known. It is
        asked when a window ends, as long as it does not know, and not again.
    :param capacities: What the physical GPUs have, by key.
    :param start: When the first window begins, in nanoseconds of the monotonic clock.
    """

    def __init__(
        self,
        limits: ModelLimits,
        placed: Callable[[int, int], str | None],
        capacities: Mapping[str, Capacity],
        start: int,
    ) -> None:
        self._limits = limits
        self._capacities = capacities
        self._placement = Placement(placed, capacities)
        self._losses = Losses()
        self._start = start
        self._processes: dict[int, ProcessActivity] = {}
        self._finished: list[ProcessActivity] = []
        """Ended since the last window."""
        self._ended: dict[int, None] = {}
        """Numbers of processes that have ended, oldest first."""

    def consume(self, events: Iterable[Event]) -> None:
        """Take events, in the order in which they came; those of a kind that is not known are skipped.

        Plain tuples with the fields of :class:`gpu_tracker.cuda_probe.kernel_data.Event` will do.
        """
        at_process = at_device = None
        activity = DeviceActivity(self._limits, int, self._losses)  # of nothing yet
        streams = activity.streams
        launches = all_threads = 0
        for event in events:
            time, handle, address, threads, _, process, device, kind, _, _ = event
            if kind != _LAUNCH:
                self._take(event)
                if kind == _END:
                    at_process = None
                continue
            if device != at_device or process != at_process:
                found = self._activity(process, device)
                if found is None:
                    continue
                activity.launches += launches
                activity.threads += all_threads
                launches = all_threads = 0
                at_process, at_device, activity, streams = process, device, found, found.streams
            launches += 1
            all_threads += threads
            stream = streams.get(handle)
            if stream is None and (stream := activity.stream(handle)) is None:
                continue
            span = stream.launch(time, address, threads)
            if span is not None:
                self._processes[process].hold(activity, span)
        activity.launches += launches
        activity.threads += all_threads

    def end(self, process: int, time: int) -> None:
        """Record that a process ended at ``time``, where the event that reports it may have been lost.

        :param process: The number of the program run; one that is not known, or known to have ended, is left alone.
        """
        activity = self._processes.pop(process, None)
        if activity is not None:
            activity.end(time)
            self._finished.append(activity)
        self._ended[process] = None
        if len(self._ended) > self._limits.ended:
            del self._ended[next(iter(self._ended))]

    def get_and_flush(self, now: int) -> Window:
        """Return what there was since the last window, and begin the next.

        :param now: Where the window ends: all events until then should have been consumed. One that comes later counts
            in the next window with its launches, and with the part of its time that is in that window.
        :returns: The window; it is without length where ``now`` is not after the last, and reaches a little past
            ``now`` where the events did and were too many to be held.
        """
        processes = [*self._processes.values(), *self._finished]
        start, end = self._start, max(now, self._start, *(process.settled for process in processes))
        for process in processes:
            process.settle(end)
        processes.sort(key=lambda process: process.number)
        devices: list[DeviceUse] = []
        kernels: dict[tuple[int, int], int] = {}
        for process in processes:
            devices += process.take_devices(start, end)
            kernels |= process.take_kernels()
        window = Window(
            start,
            end,
            normalised(devices, self._capacities),
            tuple(process.take(start, end) for process in processes),
            kernels,
            self._losses.take(),
        )
        for process in self._finished:
            process.forget()
        self._finished.clear()
        self._start = end
        return window

    def _take(self, event: Event) -> None:
        """Take any event but a launch."""
        number, kind = event[_PROCESS], event[_KIND]
        if kind == _END:
            self.end(number, event[_TIME])
            return
        take = _TAKE.get(kind)
        process = self._processes.get(number)
        if process is None and kind in _MEMORY:
            process = self._new(number)
        if process is not None and take is not None:
            take(process, event)

    def _activity(self, number: int, device: int) -> DeviceActivity | None:
        """Return what a process does with a GPU; None: it has ended, or finds no room."""
        process = self._processes.get(number) or self._new(number)
        return None if process is None else process.device(device)

    def _new(self, number: int) -> ProcessActivity | None:
        if number in self._ended:
            self._losses.late_events += 1
            return None
        if len(self._processes) + len(self._finished) >= self._limits.processes:
            self._losses.process_events += 1
            return None
        process = self._processes[number] = ProcessActivity(
            number, self._start, self._limits, self._placement, self._losses
        )
        return process
