"""The activity of one process: on each GPU its streams, their closed spans and its memory, and on all GPUs together."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.model.span import Interval, KernelTimes, length, union
from gpu_tracker.cuda_probe.model.streams import Stream
from gpu_tracker.cuda_probe.model.window import DeviceUse, ProcessUse

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.cuda_probe.limits import ModelLimits
    from gpu_tracker.cuda_probe.model.physical_gpus import Placement
    from gpu_tracker.cuda_probe.model.span import Span
    from gpu_tracker.cuda_probe.model.window import Losses


class DeviceActivity:
    """Adds up the figures of one window, and goes on with the next.

    :param admitted: Returns the address by which a kernel is reported.
    """

    def __init__(self, limits: ModelLimits, admitted: Callable[[int], int], losses: Losses) -> None:
        self._limits = limits
        self._admitted = admitted
        self._losses = losses
        self.streams: dict[int, Stream] = {}
        """By handle."""
        self.working: dict[Stream, None] = {}
        """Those with launches that nothing has synchronised yet."""
        self.spans: list[Span] = []
        """Closed, and not added up yet."""
        self._memory = self._memory_max = 0
        self._memory_at = 0
        self._leaked: int | None = None
        self._begin_window()

    def stream(self, handle: int) -> Stream | None:
        """Return a new stream; None: there is no room for it."""
        if len(self.streams) >= self._limits.streams:
            self._losses.stream_launches += 1
            return None
        stream = self.streams[handle] = Stream(self._limits, self.working, self._admitted)
        return stream

    def hold(self, span: Span) -> None:
        """Take a span that was closed."""
        self._closed += 1
        self._forced += span.is_forced
        self.spans.append(span)

    def use_memory(self, in_use: int, time: int) -> None:
        """Take how many bytes are in use from ``time`` on."""
        self._memory_max = max(self._memory_max, in_use)
        if time >= self._memory_at:  # else a newer figure has come before it
            self._memory_at = time
            self._memory = in_use

    def finish(self, time: int) -> None:
        """Close all its streams: what they stood for is gone."""
        for stream in [*self.working]:
            if span := stream.finish(time):
                self.hold(span)
        self.streams.clear()

    def end(self, time: int) -> None:
        """Record that the process has ended: what it has not freed was leaked."""
        self.finish(time)
        self._leaked, self._memory = self._memory, 0

    def settle(self, begin: int, end: int, cores: int | None, kernels: KernelTimes) -> list[Interval]:
        """Add up what there was from ``begin`` to ``end``, and return when it was busy."""
        for stream in [*self.working]:
            if span := stream.expire(end):
                self.hold(span)
        spans = [*self.spans, *(span for stream in self.working if (span := stream.so_far(end)))]
        parts = [part for span in spans if (part := span.clipped(begin, end))]
        # what ends later goes on in the next window
        self.spans[:] = [span for span in self.spans if span.end > end]
        for part in parts:
            kernels.share(part)
        self._add_core_time(parts, cores)
        busy = union((part.begin, part.end) for part in parts)
        self._busy += length(busy)
        return busy

    def take(self, process: int, device: int, gpu: str | None, start: int, end: int) -> DeviceUse:
        """Return what there was in a window from ``start`` to ``end``, and begin the next."""
        span = end - start
        used_cores = self._core_time / span if span and self._is_core_time_known else None
        use = DeviceUse(
            process=process,
            device=device,
            gpu=gpu,
            busy=self._busy,
            active=self._busy / span if span else None,
            used_cores=used_cores,
            used_cores_normalised=used_cores,
            launches=self.launches,
            threads=self.threads,
            spans=self._closed,
            forced_spans=self._forced,
            memory_current=self._memory,
            memory_max=self._memory_max,
            memory_leaked=self._leaked,
            memory_current_normalised=None,
            memory_max_normalised=None,
        )
        self._begin_window()
        self._forget_idle_streams()
        return use

    def _begin_window(self) -> None:
        self.launches = 0
        self.threads = 0
        self._busy = 0
        self._core_time = 0.0
        self._is_core_time_known = True
        self._closed = 0
        self._forced = 0
        self._memory_max = self._memory

    def _add_core_time(self, parts: list[Span], cores: int | None) -> None:
        if cores is None:
            self._is_core_time_known = False
            return
        for part in parts:
            self._core_time += (part.end - part.begin) * min(part.threads / part.launches, cores)

    def _forget_idle_streams(self) -> None:
        """Forget streams without work, which come back with their next launch: those of threads go without a word."""
        for handle in [handle for handle, stream in self.streams.items() if stream not in self.working]:
            del self.streams[handle]


_STREAMS_OF_THREADS = 1 << 63
"""From here on handles are default streams of threads: like 0, the default stream, each GPU has one of its own."""


class ProcessActivity:
    """Finds the stream or device of an event, and adds up the figures of one window.

    :param number: The number of the program run.
    :param start: When the present window has begun.
    """

    def __init__(self, number: int, start: int, limits: ModelLimits, placement: Placement, losses: Losses) -> None:
        self.number = number
        self._limits = limits
        self._placement = placement
        self._losses = losses
        self._kernels = KernelTimes(limits.kernels, losses)
        self._records: OrderedDict[int, tuple[DeviceActivity, Stream, int]] = OrderedDict()
        """By the handle of an event, oldest record first: where its last record stands."""
        self._busy = 0
        self.devices: dict[int, DeviceActivity] = {}
        self.settled = start
        """All up to here is added up."""
        self.has_ended = False

    def device(self, device: int) -> DeviceActivity:
        """Return its activity on one of its GPUs."""
        activity = self.devices.get(device)
        if activity is None:
            activity = self.devices[device] = DeviceActivity(self._limits, self._kernels.admitted, self._losses)
        return activity

    def hold(self, activity: DeviceActivity, span: Span | None) -> None:
        """Take a span, if one was closed."""
        if span is None:
            return
        activity.hold(span)
        if len(activity.spans) >= self._limits.spans_held:
            # windows cut anywhere add up to the same, so nothing is lost by adding up now
            self.settle(max(span.end for span in activity.spans))

    def synchronise(self, time: int, handle: int, device: int) -> None:
        """Record that all work of a stream is done."""
        if found := self._find(handle, device):
            activity, stream = found
            self.hold(activity, stream.synchronise(time))

    def synchronise_device(self, time: int, device: int) -> None:
        """Record that all work of a GPU is done."""
        activity = self.devices.get(device)
        if activity is not None:
            for stream in [*activity.working]:
                self.hold(activity, stream.synchronise(time))

    def record(self, event: int, handle: int, device: int) -> None:
        """Record that an event was recorded on a stream: an earlier record of it counts no more."""
        self._records.pop(event, None)
        found = self._find(handle, device)
        if found is None or (position := found[1].record()) is None:
            return
        if len(self._records) >= self._limits.events:
            self._records.popitem(last=False)
            self._losses.records += 1
        self._records[event] = (*found, position)

    def complete(self, time: int, event: int) -> None:
        """Record that all before the last record of an event is done."""
        if recorded := self._records.pop(event, None):
            activity, stream, position = recorded
            self.hold(activity, stream.complete(position, time))

    def destroy_event(self, event: int) -> None:
        """Record that the handle of an event is gone; what it was recorded behind is not done by that."""
        self._records.pop(event, None)

    def destroy_stream(self, time: int, handle: int, device: int) -> None:
        """Record that the handle of a stream is gone: it can come back for another stream."""
        if found := self._find(handle, device):
            activity, stream = found
            del activity.streams[handle]
            self.hold(activity, stream.finish(time))

    def reset_device(self, time: int, device: int) -> None:
        """Record that all that it had on a GPU is gone."""
        activity = self.devices.get(device)
        if activity is not None:
            activity.finish(time)
            activity.use_memory(0, time)

    def use_memory(self, time: int, device: int, in_use: int) -> None:
        """Take how many bytes it has on a GPU from ``time`` on."""
        self.device(device).use_memory(in_use, time)

    def end(self, time: int) -> None:
        """Record that it has ended."""
        self.has_ended = True
        for activity in self.devices.values():
            activity.end(time)

    def settle(self, end: int) -> None:
        """Add up all until ``end``, in nanoseconds; what comes later of before that is left out."""
        end = max(end, self.settled)
        busy: list[Interval] = []
        for device, activity in self.devices.items():
            cores = self._placement.cores(self.number, device)
            busy += activity.settle(self.settled, end, cores, self._kernels)
        self._busy += length(union(busy))
        self.settled = end

    def take_devices(self, start: int, end: int) -> list[DeviceUse]:
        """Return what there was by GPU in a window that is settled, and begin the next."""
        return [
            activity.take(self.number, device, self._placement.gpu(self.number, device), start, end)
            for device, activity in sorted(self.devices.items())
        ]

    def take(self, start: int, end: int) -> ProcessUse:
        """Return what there was in a window that is settled, and begin the next."""
        span = end - start
        busy, self._busy = self._busy, 0
        return ProcessUse(self.number, busy, busy / span if span else None, self.has_ended)

    def take_kernels(self) -> dict[tuple[int, int], int]:
        """Return the nanoseconds of its kernels since this was last asked, by process and address."""
        return {(self.number, address): time for address, time in self._kernels.take().items()}

    def forget(self) -> None:
        """Forget where its GPUs are: it was reported for the last time."""
        for device in self.devices:
            self._placement.forget(self.number, device)

    def _find(self, handle: int, device: int) -> tuple[DeviceActivity, Stream] | None:
        """Return a stream and the activity on its GPU; a handle may be used while another GPU is the current one."""
        activity = self.devices.get(device)
        if activity is not None and (stream := activity.streams.get(handle)):
            return activity, stream
        if 0 < handle < _STREAMS_OF_THREADS:
            for activity in self.devices.values():
                if stream := activity.streams.get(handle):
                    return activity, stream
        return None
