"""The documented result made from the totals of a run: units are converted here, once."""

from __future__ import annotations

from gpu_tracker import units, usage
from gpu_tracker.resources import RESOURCES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpu_tracker.totals import Totals
    from gpu_tracker.units import Units


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
