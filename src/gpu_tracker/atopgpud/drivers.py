"""The GPUs of all drivers of this machine, opened. Every call may take as long as a driver does."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import GpuError
from gpu_tracker.gpus import BACKENDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpu_tracker.gpus import GpuBackend
    from gpu_tracker.gpus.model import Gpu, GpuMonitor


class MonitoredGpu(NamedTuple):
    """A GPU, and what looks at it."""

    key: str
    """What tells it from others for as long as the daemon runs."""
    monitor: GpuMonitor


class Drivers:
    """The drivers, opened.

    :param openers: The vendors' openers.
    :param interval: Seconds between two looks at a GPU.
    """

    def __init__(self, interval: float, openers: Mapping[str, Callable[[], GpuBackend | None]] = BACKENDS) -> None:
        self._interval = interval
        self._openers = openers
        self._opened: list[GpuBackend] = []
        self.problems: list[str] = []
        """Why drivers that are there do not work."""

    def open(self) -> list[MonitoredGpu]:
        """Open the drivers and return their GPUs."""
        gpus: list[MonitoredGpu] = []
        self.problems = []
        for brand, opener in self._openers.items():
            try:
                gpus += self._open(brand, opener)
            except GpuError as error:
                self.problems.append(str(error))
        return gpus

    def close(self) -> None:
        """Let go of the drivers."""
        while self._opened:
            self._opened.pop().close()

    def _open(self, brand: str, opener: Callable[[], GpuBackend | None]) -> list[MonitoredGpu]:
        backend = opener()
        if backend is None:
            return []
        self._opened.append(backend)
        monitors = backend.monitors(self._interval)
        return [MonitoredGpu(_key(brand, monitor.gpu), monitor) for monitor in monitors]


def _key(brand: str, identity: Gpu) -> str:
    return identity.uuid or f'{brand} {identity.number}'
