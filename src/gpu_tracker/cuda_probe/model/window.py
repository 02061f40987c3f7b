"""The figures of a window of time, in plain data, and their sums over all windows of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
    """All that was seen between two times of the monotonic clock, in nanoseconds."""

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


_ENDED = 1_024


@dataclass(slots=True)
class CoresUse:
    """Used cores over the windows in which they were known."""

    maximum: float | None = None
    """The most of any window; None: not known in any."""
    core_nanoseconds: float = 0.0
    """The sum of each window's used cores times its length."""
    nanoseconds: int = 0
    """The length of these windows together."""

    @property
    def mean(self) -> float | None:
        """The average over these windows; None: there were none."""
        return self.core_nanoseconds / self.nanoseconds if self.nanoseconds else None

    def add(self, used: float | None, nanoseconds: int) -> None:
        """Add those of a window; None: not known."""
        if used is None:
            return
        self.maximum = used if self.maximum is None else max(self.maximum, used)
        self.core_nanoseconds += used * nanoseconds
        self.nanoseconds += nanoseconds


@dataclass(slots=True)
class DeviceRun:
    """What one process has done with one GPU so far; see :class:`.window.DeviceUse`."""

    gpu: str | None = None
    seen: int = 0
    """Nanoseconds of the windows that contain it."""
    busy: int = 0
    used_cores: CoresUse = field(default_factory=CoresUse)
    used_cores_normalised: CoresUse = field(default_factory=CoresUse)
    launches: int = 0
    threads: int = 0
    spans: int = 0
    forced_spans: int = 0
    memory_current: int = 0
    memory_max: int = 0
    memory_leaked: int | None = None

    @property
    def active(self) -> float | None:
        """The part of these windows that was busy, 0 to 1; None: they have no length."""
        return self.busy / self.seen if self.seen else None

    @property
    def mean_threads(self) -> float | None:
        """The threads of a launch, on average; None: there was none."""
        return self.threads / self.launches if self.launches else None

    def add(self, use: DeviceUse, nanoseconds: int) -> None:
        """Add a window of so many nanoseconds."""
        self.gpu = use.gpu
        self.seen += nanoseconds
        self.busy += use.busy
        self.used_cores.add(use.used_cores, nanoseconds)
        self.used_cores_normalised.add(use.used_cores_normalised, nanoseconds)
        self.launches += use.launches
        self.threads += use.threads
        self.spans += use.spans
        self.forced_spans += use.forced_spans
        self.memory_current = use.memory_current
        self.memory_max = max(self.memory_max, use.memory_max)
        self.memory_leaked = use.memory_leaked


@dataclass(slots=True)
class ProcessRun:
    """What one process has done so far; see :class:`.window.ProcessUse`."""

    seen: int = 0
    """Nanoseconds of the windows that contain it."""
    busy: int = 0
    has_ended: bool = False
    devices: dict[int, DeviceRun] = field(default_factory=dict)
    """By the process' own number of the GPU."""
    kernels: dict[int, int] = field(default_factory=dict)
    """The kernels' parts of the spans' time in nanoseconds, by address."""

    @property
    def active(self) -> float | None:
        """The part of these windows that was busy, 0 to 1; None: they have no length."""
        return self.busy / self.seen if self.seen else None

    def add(self, use: ProcessUse, nanoseconds: int) -> None:
        """Add a window of so many nanoseconds."""
        self.seen += nanoseconds
        self.busy += use.busy
        self.has_ended = use.has_ended


class WindowSums:
    """Figures from the first window on.

    :param ended: So many processes that have ended are remembered; more, and the one that ended first is forgotten.
    """

    def __init__(self, ended: int = _ENDED) -> None:
        self._most_ended = ended
        self._ended: dict[int, None] = {}
        self._processes: dict[int, ProcessRun] = {}
        self.forgotten = 0
        """Processes of which nothing is known any more."""
        self.nanoseconds = 0
        """All windows together."""
        self.dropped = Dropped()
        """What found no room in any window."""

    @property
    def processes(self) -> Mapping[int, ProcessRun]:
        """By number, in the order in which they came; for reading."""
        return self._processes

    def add(self, window: Window) -> None:
        """Add a window; each is added once, in order."""
        length = window.length
        self.nanoseconds += length
        self.dropped = Dropped(*map(sum, zip(self.dropped, window.dropped, strict=True)))
        for process in window.processes:
            self._processes.setdefault(process.process, ProcessRun()).add(process, length)
        for device in window.devices:
            run = self._processes[device.process]
            run.devices.setdefault(device.device, DeviceRun()).add(device, length)
        for (number, address), time in window.kernels.items():
            kernels = self._processes[number].kernels
            kernels[address] = kernels.get(address, 0) + time
        self._forget(process.process for process in window.processes if process.has_ended)

    def _forget(self, ended: Iterable[int]) -> None:
        self._ended.update(dict.fromkeys(ended))
        while len(self._ended) > self._most_ended:
            oldest = next(iter(self._ended))
            del self._ended[oldest], self._processes[oldest]
            self.forgotten += 1
