"""The activity of one process on all its GPUs."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.model.device_activity import DeviceActivity
from gpu_tracker.cuda_probe.model.span import Interval, KernelTimes, length, union
from gpu_tracker.cuda_probe.model.window import DeviceUse, ProcessUse

if TYPE_CHECKING:
    from gpu_tracker.cuda_probe.limits import ModelLimits
    from gpu_tracker.cuda_probe.model.physical_gpus import Placement
    from gpu_tracker.cuda_probe.model.span import Span
    from gpu_tracker.cuda_probe.model.streams import Stream
    from gpu_tracker.cuda_probe.model.window import Losses

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
        if found is None or (place := found[1].record()) is None:
            return
        if len(self._records) >= self._limits.events:
            self._records.popitem(last=False)
            self._losses.records += 1
        self._records[event] = (*found, place)

    def reach(self, time: int, event: int) -> None:
        """Record that all before the last record of an event is done."""
        if recorded := self._records.pop(event, None):
            activity, stream, place = recorded
            self.hold(activity, stream.reach(place, time))

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
