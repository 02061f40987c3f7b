"""Sums over a set of GPUs: their number, their memory and how busy they were.

A sum is known if it is known of each GPU of the set. No sum leaves out a GPU that could not be read.
"""

from __future__ import annotations

from gpu_tracker.resources.gpu.folding import Maximum, UtilizationSum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tracker.gpus.model import Gpu, GpuReading
    from gpu_tracker.resources.gpu.device import DeviceFigures


class CountedGpus:
    """The GPUs that count, and what is summed over them.

    :param gpus: All of them; those without a UUID could not be opened.
    :param uuids: The GPUs whose utilization is summed; None for all.
    :param is_complete: False: there may be other GPUs, of a driver that does not work.
    """

    def __init__(self, gpus: Sequence[Gpu], uuids: Sequence[str] | None, *, is_complete: bool = True) -> None:
        self.gpus = tuple(gpus)
        self.opened = [gpu.uuid for gpu in gpus if gpu.uuid is not None]
        self.expected = list(dict.fromkeys(uuids)) if uuids is not None else self.opened
        self.utilization = UtilizationSum(self.expected)
        self.system = Maximum()
        self.memory_used: int | None = None
        """Bytes in use at the last reading."""
        self._is_complete = is_complete
        if uuids is not None:
            self._expected_count: int | None = len(self.expected)
        else:
            self._expected_count = len(self.gpus) if is_complete else None

    def note_memory(self, readings: Mapping[str, GpuReading]) -> None:
        """Add how much memory is in use."""
        used = [readings[uuid].memory_used for uuid in self.opened]
        known = [size for size in used if size is not None]
        is_complete = self._is_complete and len(known) == len(self.gpus)
        self.system.note(sum(known), complete=is_complete)
        self.memory_used = sum(known) if is_complete else None

    def totals(self, devices: Mapping[str, DeviceFigures]) -> dict[str, object]:
        """Return the figures so far; sizes are bytes, utilization is percent."""
        capacities = [gpu.memory_total for gpu in self.gpus]
        is_known = self._is_complete and None not in capacities
        largest, mean = self._utilization_sums(devices)
        return {
            'count': len(self.gpus) if self._is_complete else None,
            'expected': self._expected_count,
            'capacity': sum(size for size in capacities if size is not None) if is_known else None,
            'system': self.system.value,
            'max_sum': largest,
            'mean_sum': mean,
        }

    def latest_sum(self, devices: Mapping[str, DeviceFigures]) -> float | None:
        """Return the sum of the latest utilization of each expected GPU."""
        return self._sum([devices[uuid].latest if uuid in devices else None for uuid in self.expected])

    def _sum(self, percents: Sequence[float | None]) -> float | None:
        if self._expected_count != len(percents) or None in percents:
            return None
        return sum(percent for percent in percents if percent is not None)

    def _utilization_sums(self, devices: Mapping[str, DeviceFigures]) -> tuple[float | None, float | None]:
        """Return the largest and the mean sum; of a run too short for a sample, the utilization of the last moment."""
        if self._expected_count == 0:
            return 0.0, 0.0
        if self._expected_count != len(self.expected):
            return None, None
        if self.utilization.mean is not None:
            return self.utilization.largest, self.utilization.mean
        total = self._sum([devices[uuid].present if uuid in devices else None for uuid in self.expected])
        return total, total
