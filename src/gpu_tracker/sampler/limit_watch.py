"""Compares what was sampled with the limits of a run, once a sample, where there are any."""

from __future__ import annotations

from gpu_tracker.limits import CPU, GPU_MEMORY, MEMORY, exceeded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    class Used(Protocol):
        """What is limited, such as a :class:`gpu_tracker.resources.Resource`."""

        def used_so_far(self) -> float | None:
            """Return what was used up to the last sample, in the unit of the limit; None: unknown."""


LIMITED = {CPU: 'cpu', MEMORY: 'ram', GPU_MEMORY: 'gpu'}
"""The name of the resource that each limit is of."""


class LimitWatch:
    """Reports the first limit that was exceeded, once.

    :param limits: Values in base units, by their reasons.
    :param resources: What is sampled, by name.
    :param report: Called with the reason, and with what was used.
    """

    def __init__(
        self, limits: Mapping[str, float], resources: Mapping[str, Used], report: Callable[[str, float], None]
    ) -> None:
        self._limits = limits
        self._used = {reason: resources[LIMITED[reason]].used_so_far for reason in limits}
        self._report = report
        self._is_over = False

    def check(self) -> None:
        """Compare what the resources have folded so far; a sample has just been made."""
        if self._is_over:
            return
        found = next(exceeded(self._limits, {reason: used() for reason, used in self._used.items()}), None)
        if found is not None:
            self._is_over = True
            self._report(*found)
