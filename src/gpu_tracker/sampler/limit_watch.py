"""Compares what was sampled with the limits of a run, once a sample, where there are any."""

from __future__ import annotations

from gpu_tracker.limits import CPU, GPU_MEMORY, MEMORY, exceeded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from gpu_tracker.resources import Resource


class LimitWatch:
    """Reports the first limit that was exceeded, once.

    :param limits: Values in base units, by their reasons.
    :param resources: What is sampled, by name.
    :param report: Called with the reason, and with what was used.
    """

    def __init__(
        self, limits: Mapping[str, float], resources: Mapping[str, Resource], report: Callable[[str, float], None]
    ) -> None:
        used: dict[str, Callable[[], float | None]] = {
            CPU: lambda: _cpu_seconds(resources['cpu']),
            MEMORY: lambda: _memory(resources['ram']),
            GPU_MEMORY: lambda: _gpu_memory(resources['gpu']),
        }
        self._limits = limits
        self._used = {reason: used[reason] for reason in limits}
        self._report = report
        self._is_over = False

    def check(self) -> None:
        """Compare what the resources have folded so far; a sample has just been made."""
        if self._is_over:
            return
        found = exceeded(self._limits, {reason: used() for reason, used in self._used.items()})
        if found is not None:
            self._is_over = True
            self._report(*found)


def _cpu_seconds(resource: Resource) -> float | None:
    found: Any = resource.totals()
    seconds: float | None = found['combined'][0]
    return seconds


def _memory(resource: Resource) -> float | None:
    """Return the most that all had together for certain: no run is ended for what was only estimated."""
    found: Any = resource.totals()
    size: int | None = found['lower']['combined'][0]
    return size


def _gpu_memory(resource: Resource) -> float | None:
    found: Any = resource.totals()
    size: int | None = found['combined']
    return size
