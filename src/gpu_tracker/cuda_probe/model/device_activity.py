"""The activity of one process on one GPU: its streams, their closed spans, and its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.model.span import Interval, length, union
from gpu_tracker.cuda_probe.model.streams import Stream
from gpu_tracker.cuda_probe.model.window import DeviceUse

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.cuda_probe.limits import ModelLimits
    from gpu_tracker.cuda_probe.model.span import KernelTimes, Span
    from gpu_tracker.cuda_probe.model.window import Losses


class DeviceActivity:
    """Adds up the figures of one window, and goes on with the next.

    :param admitted: Returns the address by which a kernel is reported.
    """

    __slots__ = (
        '_admitted',
        '_busy',
        '_closed',
        '_core_time',
        '_forced',
        '_is_core_time_known',
        '_leaked',
        '_limits',
        '_losses',
        '_memory',
        '_memory_at',
        '_memory_max',
        'launches',
        'spans',
        'streams',
        'threads',
        'working',
    )

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
