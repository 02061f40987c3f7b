"""The documented result made from the totals of a run: units are converted here, once."""

from __future__ import annotations

from gpu_tracker import units, usage
from gpu_tracker.resources import RESOURCES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Totals = dict[str, Any]
    """``seconds`` from the first sample to the last, ``samples``, the totals of each resource by its name, the
    ``record`` of how they were sampled, and ``messages``."""


class Units:
    """The units that a result is wanted in, and the number of cores that were expected to be used."""

    __slots__ = ('expected_cores', 'gpu_ram', 'ram', 'time')

    def __init__(self, ram: str, gpu_ram: str, time: str, expected_cores: int | None) -> None:
        self.ram = ram
        self.gpu_ram = gpu_ram
        self.time = time
        self.expected_cores = expected_cores


def build(totals: Totals, wanted: Units) -> usage.ResourceUsage:
    """Return what the totals of a run say."""
    tracked = totals['record']['tracked_seconds']
    time = totals['seconds'] if tracked is None else tracked
    sections: dict[str, Any] = {}
    for entry in RESOURCES:
        if entry.name in totals:
            sections |= entry.load().usage_of(totals, wanted)
    return usage.ResourceUsage(
        compute_time=usage.ComputeTime(unit=wanted.time, time=units.from_seconds(time, wanted.time)), **sections
    )
