"""The record of a run's sampling: how much was looked, what that cost, and between which bounds the RAM peaks lie."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_tracker import units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.result import Totals


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between what a peak lies; where both are equal it is exact.

    :ivar lower: The largest size that was seen.
    :ivar upper: The largest sum of the kernel's own high-water marks of the processes.
    """

    lower: float | None
    upper: float | None


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a run was sampled.

    :ivar samples: The samples that were taken.
    :ivar skipped: The points of the sampling grid that were skipped, because the sample before took too long.
    :ivar cpu_seconds: The CPU time of the sampler.
    :ivar unit: The unit of the bounds.
    :ivar main_ram: The peak of the tracked process.
    :ivar descendants_ram: The peak of its descendants.
    :ivar combined_ram: The peak of all of them together.
    """

    samples: int
    skipped: int
    cpu_seconds: float
    unit: str
    main_ram: Bounds
    descendants_ram: Bounds
    combined_ram: Bounds


def record_of(totals: Totals, unit: str) -> Sampling:
    """Return the record that stands in the totals of a run, RAM in ``unit``."""
    ram = totals['ram']

    def bounds(group: str, position: int) -> Bounds:
        lower, upper = ram[group][0], ram['upper'][position]
        if lower is not None and upper is not None:
            upper = max(lower, upper)  # kernels keep the marks a few pages inexact
        return Bounds(units.from_bytes(lower, unit), units.from_bytes(upper, unit))

    return Sampling(
        samples=totals['samples'],
        skipped=totals['record']['skipped'],
        cpu_seconds=totals['record']['cpu_seconds'],
        unit=unit,
        main_ram=bounds('main', 0),
        descendants_ram=bounds('descendants', 1),
        combined_ram=bounds('combined', 2),
    )
