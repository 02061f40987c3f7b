"""The sums over all windows of a run, in constant memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.model.window import Dropped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_tracker.cuda_probe.model.window import DeviceUse, ProcessUse, Window

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


class Accumulated:
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
