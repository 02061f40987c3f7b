"""The figures of a window of time, in plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Capacity(NamedTuple):
    """What a physical GPU has; None is what is not known."""

    cores: int | None = None
    """CUDA cores."""
    memory: int | None = None
    """Bytes."""


class DeviceUse(NamedTuple):
    """What one process did with one GPU in a window."""

    process: int
    device: int
    """The process' own number of the GPU."""
    gpu: str | None
    """The physical GPU; None where it is not known."""
    busy: int
    """Nanoseconds in which some launched work was not synchronised, each moment once."""
    active: float | None
    """The part of the window that was busy, 0 to 1; None in a window without length."""
    used_cores: float | None
    """CUDA cores that the launched work could fill at most, averaged over the window: the sum of each span's duration
    times its mean threads, but no more than the GPU has cores, by the window's length. None where the cores of the GPU
    are not known, and in a window without length."""
    used_cores_normalised: float | None
    """The same, scaled down with all processes of the GPU where they together have more than it has."""
    launches: int
    """Whose events came since the window before."""
    threads: int
    """Of these launches together."""
    spans: int
    """That were closed since the window before."""
    forced_spans: int
    """Those of them that a bound closed, and no synchronisation."""
    memory_current: int
    """Bytes at the window's end; 0 where the process has ended."""
    memory_max: int
    """The most bytes in the window."""
    memory_leaked: int | None
    """Bytes that it had not freed when it ended; None while it runs."""
    memory_current_normalised: int | None
    """As far as it fits: scaled down with all processes of the GPU where they together have more than its memory. None
    where that is not known."""
    memory_max_normalised: int | None
    """Scaled by the same."""

    @property
    def mean_threads(self) -> float | None:
        """The threads of a launch, on average; None: there was none."""
        return self.threads / self.launches if self.launches else None


class ProcessUse(NamedTuple):
    """What one process did in a window, on all GPUs together."""

    process: int
    busy: int
    """Nanoseconds in which launched work was not synchronised on any GPU, each moment once."""
    active: float | None
    """The part of the window that was busy, 0 to 1; None in a window without length."""
    has_ended: bool
    """Whether it is in no later window."""


class Dropped(NamedTuple):
    """What found no room within the limits, or came too late: since the window before, or altogether."""

    stream_launches: int = 0
    """Launches to more streams than have room: counted, without times."""
    kernel_launches: int = 0
    """Launches of more kernels than have room: their times are reported together, as address 0."""
    records: int = 0
    """Recorded events that were forgotten before anything waited for them."""
    process_events: int = 0
    """Events of more processes than have room."""
    late_events: int = 0
    """Events of processes that had ended."""


class Window(NamedTuple):
    """All that was seen between two moments of the monotonic clock, in nanoseconds."""

    start: int
    end: int
    devices: tuple[DeviceUse, ...]
    """By process and GPU."""
    processes: tuple[ProcessUse, ...]
    """By process."""
    kernels: Mapping[tuple[int, int], int]
    """By process and address: the kernel's part of the spans' time, in nanoseconds. That of each span is shared among
    its kernels by their launches, so that of kernels on streams side by side adds up to more than the window."""
    dropped: Dropped
    """Since the window before."""

    @property
    def length(self) -> int:
        """Its nanoseconds."""
        return self.end - self.start


@dataclass(slots=True)
class Losses:
    """One for a probe; each part of the model adds to its own field, which is one of :class:`Dropped`."""

    stream_launches: int = 0
    kernel_launches: int = 0
    records: int = 0
    process_events: int = 0
    late_events: int = 0

    def take(self) -> Dropped:
        """Return what was counted since this was last asked."""
        dropped = Dropped(**{name: getattr(self, name) for name in Dropped._fields})
        for name in Dropped._fields:
            setattr(self, name, 0)
        return dropped
