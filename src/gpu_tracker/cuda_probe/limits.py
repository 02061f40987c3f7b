"""The bounds of a probe: its memory never grows past them, and what finds no room is counted and reported."""

from __future__ import annotations

from dataclasses import dataclass, fields

from gpu_tracker.errors import ParameterError

_MOST = 2**30
_SMALLEST_RING = 2**16


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a probe.

    :ivar ring_bytes: Size of the event buffer in bytes: a power of two, at least 65,536.
    :ivar followed: Most processes that the probe observes at the same time, with or without CUDA.
    :ivar processes: Most programs with CUDA that the probe observes at the same time.
    :ivar allocations: Most CUDA allocations that the probe can track at the same time, with 88 bytes of Linux kernel
        memory for each.
    :ivar kernels: Most CUDA kernels that the probe records. The same kernel in another process or on another GPU
        is another kernel.
    :ivar streams: Most CUDA streams that the probe records, in all processes.
    :ivar threads: Most threads that the probe observes at the same time.
    :ivar failures: Most different failures (combinations of process, function and error) that the probe records.
    :ivar graphs: Most CUDA graphs that the probe records. In all graphs together, the probe records at most 16 times as
        many kernels.
    :ivar ended: Most ended programs in the report.
    :ivar kernels_told: For each program, the report lists this number of kernels with the most launches, and this
        number with the most time.
    :ivar open_seconds: A span (see *launch to sync*) without a synchronisation ends this many seconds after the last
        launch in the span.
    :ivar launches_a_span: Most launches in a span.
    """

    ring_bytes: int = 8 * 2**20
    followed: int = 16_384
    processes: int = 1_024
    allocations: int = 131_072
    kernels: int = 16_384
    streams: int = 8_192
    threads: int = 16_384
    failures: int = 4_096
    graphs: int = 4_096
    ended: int = 1_024
    kernels_told: int = 200
    open_seconds: float = 30.0
    launches_a_span: int = 100_000

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 < value <= _MOST:
                raise ParameterError(field.name, value, f'from 1 to {_MOST:,}')
        if self.ring_bytes < _SMALLEST_RING or self.ring_bytes & (self.ring_bytes - 1):
            raise ParameterError('ring_bytes', self.ring_bytes, f'a power of two of at least {_SMALLEST_RING:,}')


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """How long a launch counts that nothing waits for, and how much is held at most.

    Each is more than 0, else :class:`gpu_tracker.errors.ParameterError` is raised.

    :ivar open_seconds: As in :class:`Limits`.
    :ivar launches_a_span: As in :class:`Limits`.
    :ivar spans_held: Closed spans of a process on one GPU that are held one by one: more are added up at once, which
        loses nothing.
    :ivar streams: Streams of a process on one GPU that have had work since the window before: the launches to more are
        counted, without times.
    :ivar records: Positions on a stream at which events were recorded and that nothing has reached yet: past it the
        oldest is forgotten, so that its launches wait for the next.
    :ivar events: Recorded events of a process that are remembered: past it the oldest is forgotten, and its
        synchronisation closes nothing.
    :ivar kernels: Kernels of a process that are distinguished: the times of more are reported together, as address 0.
    :ivar processes: Processes in a window: the events of more are left out.
    :ivar ended: Processes that have ended and whose late events are still recognised.
    """

    open_seconds: float = 30.0
    launches_a_span: int = 100_000
    spans_held: int = 16_384
    streams: int = 8_192
    records: int = 64
    events: int = 8_192
    kernels: int = 16_384
    processes: int = 1_024
    ended: int = 4_096

    def __post_init__(self) -> None:
        """Refuse what is not more than 0."""
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ParameterError(field.name, value, 'more than 0')

    @property
    def open_nanoseconds(self) -> int:
        """:attr:`open_seconds` in nanoseconds."""
        return round(self.open_seconds * 1_000_000_000)
