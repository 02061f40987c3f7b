"""The mapping from the device numbers of a process to physical GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.devices.enumeration import Reach, numbered
from gpu_tracker.cuda_probe.devices.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpu_tracker.cuda_probe.devices.environment import EnvironmentChange
    from gpu_tracker.cuda_probe.devices.host_gpus import HostGpus, PhysicalGpu

_MOST_READS = 20
"""A read takes about a millisecond, and of some processes it never becomes known."""


class Visibility:
    """Which GPUs one program run sees, and as which of its devices.

    CUDA reads the variables once, at the first call; so they count as they were then.

    :param host: The GPUs of this machine.
    :param initial: The variables that the program was started with; None: not known.
    :param reach: Returns what the process can open now; see :class:`~gpu_tracker.cuda_probe.devices.reach.ReachReader`.
    """

    def __init__(self, host: HostGpus, initial: Mapping[str, str] | None, reach: Callable[[], Reach]) -> None:
        self._host = host
        self._environment = Environment(initial)
        self._ask_reach = reach
        self._reach = Reach()
        self._reads = 0
        self._first_call: int | None = None

    def set_gpus(self, host: HostGpus) -> None:
        """Set the GPUs of this machine, where the driver has reported them late."""
        self._host = host

    def changed(self, change: EnvironmentChange) -> None:
        """Record a change of its variables, in any order; what is later than a CUDA call does not count."""
        if self._first_call is None or change.time <= self._first_call:
            self._environment.change(change)

    def called(self, time: int) -> None:
        """Record a CUDA call; the first is the one with the earliest time.

        What the process can open is read now, so this is best called while the process lives.

        :param time: Nanoseconds of the monotonic clock.
        """
        self._first_call = time if self._first_call is None else min(time, self._first_call)
        self._read_reach()

    def any_gpu(self) -> PhysicalGpu | None:
        """Return the GPU that all calls go to; None where there may be more than one, or it is not known."""
        physical = self._host.physical
        return physical[0] if len(physical) == 1 else None

    def gpu_of(self, ordinal: int) -> PhysicalGpu | None:
        """Return the GPU that cudaSetDevice calls so; None where it is not known for sure."""
        if self._first_call is None:
            return None
        variables = self._environment.at(self._first_call)
        if variables is None:
            return None
        self._read_reach()
        devices = numbered(self._host.gpus, self._reach, variables)
        return devices[ordinal] if 0 <= ordinal < len(devices) else None

    def _read_reach(self) -> None:
        """Read what the process can open until that is known: it may be seen only by the files that its calls open."""
        if self._reach.gpus is None and self._reads < _MOST_READS:
            self._reads += 1
            self._reach = self._ask_reach()
