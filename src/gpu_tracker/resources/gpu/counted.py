"""Sums over a set of GPUs: their number, their memory and how busy they were.

A sum is known where it is known of each GPU of the set. No sum leaves out a GPU that could not be read.
"""

from __future__ import annotations

from gpu_tracker.resources.gpu.folding import Maximum, UtilizationSum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tracker.gpus.model import Gpu, GpuReading


class CountedGpus:
    """The GPUs that count, and what is summed over them.

    :param gpus: All of them; those without a UUID could not be opened.
    :param uuids: The GPUs whose utilization is summed; None for all.
    :param is_complete: Whether no others may count that are not known, as those of a driver that does not work.
    """

    def __init__(self, gpus: Sequence[Gpu], uuids: Sequence[str] | None, *, is_complete: bool = True) -> None:
        self.gpus = tuple(gpus)
        self.opened = [gpu.uuid for gpu in gpus if gpu.uuid is not None]
        self.expected = list(dict.fromkeys(uuids)) if uuids is not None else self.opened
        self.utilization = UtilizationSum(self.expected)
        self.memory_used: int | None = None
        """Bytes in use at the last reading."""
        self._is_complete = is_complete
        self._largest_used = Maximum()
        if uuids is not None:
            self._expected_count: int | None = len(self.expected)
        else:
            self._expected_count = len(self.gpus) if is_complete else None

    def note_memory(self, readings: Mapping[str, GpuReading]) -> None:
        """Take in how much memory is in use."""
        used = [readings[uuid].memory_used for uuid in self.opened]
        known = [size for size in used if size is not None]
        is_complete = self._is_complete and len(known) == len(self.gpus)
        self._largest_used.note(sum(known), complete=is_complete)
        self.memory_used = sum(known) if is_complete else None

    def totals(self, present: Mapping[str, float | None]) -> dict[str, object]:
        """Return the figures so far; sizes are bytes, utilization is percent.

        :param present: What the driver has last reported of each GPU's utilization, for a run too short for a sample.
        """
        capacities = [gpu.memory_total for gpu in self.gpus]
        is_known = self._is_complete and None not in capacities
        largest, mean = self._utilization_sums(present)
        return {
            'count': len(self.gpus) if self._is_complete else None,
            'expected': self._expected_count,
            'capacity': sum(size for size in capacities if size is not None) if is_known else None,
            'system': self._largest_used.value,
            'max_sum': largest,
            'mean_sum': mean,
        }

    def latest_sum(self, latest: Mapping[str, float | None]) -> float | None:
        """Return the sum of the latest utilization of each expected GPU."""
        found = [latest.get(uuid) for uuid in self.expected]
        is_known = self._is_known_which and None not in found
        return sum(percent for percent in found if percent is not None) if is_known else None

    @property
    def _is_known_which(self) -> bool:
        """Whether the utilization of all expected GPUs can be asked for."""
        return self._expected_count is not None and len(self.expected) == self._expected_count

    def _utilization_sums(self, present: Mapping[str, float | None]) -> tuple[float | None, float | None]:
        """Return the largest and the mean sum; of a run too short for a sample, what the driver last said of now."""
        if self._expected_count == 0:
            return 0.0, 0.0
        if not self._is_known_which:
            return None, None
        if self.utilization.is_known:
            return self.utilization.largest, self.utilization.mean
        found = [present.get(uuid) for uuid in self.expected]
        if None in found:
            return None, None
        total = sum(percent for percent in found if percent is not None)
        return total, total
