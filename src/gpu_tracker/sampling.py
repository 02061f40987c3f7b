"""The record of a run's sampling: how much was looked, what that cost, and between which bounds the RAM peaks lie."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_tracker import units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.result import Totals


_SLACK = 1 << 22
"""Bytes by which marks may be inexact: the kernel counts pages for each core."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between what a peak lies; where both are equal it is exact.

    :ivar lower: The largest size that was seen.
    :ivar upper: The most that it can have been: the largest sum of the kernel's own high-water marks of the processes;
        None where some process may have had more than its mark when that was last read, or was never seen.
    """

    lower: float | None
    upper: float | None


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a run was sampled.

    :ivar samples: The samples that were taken, those at the start and at the end included; a command gets some more in
        its first moments.
    :ivar late: Samples that began more than a tenth of the sampling interval, and more than 2 ms, after their point of
        the grid, because the machine was busy.
    :ivar skipped: Points of the grid without a sample, because the one before took too long, or because
        ``max_overhead_percent`` did not suffice.
    :ivar mean_interval: Seconds between the samples on the grid, on average; None where none was reached.
    :ivar cpu_seconds: The CPU time of the sampler, its start included.
    :ivar unit: The unit of the bounds.
    :ivar main_ram: The peak of the tracked process.
    :ivar descendants_ram: The peak of its descendants.
    :ivar combined_ram: The peak of all of them together.
    :ivar cpu_is_lower_bound: The CPU utilization may have been more than is reported: a process has ended of which
        nobody could tell all that it had used.
    """

    samples: int
    late: int
    skipped: int
    mean_interval: float | None
    cpu_seconds: float
    unit: str
    main_ram: Bounds
    descendants_ram: Bounds
    combined_ram: Bounds
    cpu_is_lower_bound: bool = False

    def __str__(self) -> str:
        """Return it in four lines, and a fifth one where the CPU utilization is a lower bound."""
        interval = 'unknown' if self.mean_interval is None else f'{self.mean_interval:.4f} s'
        return (
            f'Sampling: {self.samples} samples, {self.late} late, {self.skipped} skipped, '
            f'mean interval {interval}, {self.cpu_seconds:.4f} CPU seconds\n'
            f'Peak RAM of main: {self._between(self.main_ram)}\n'
            f'Peak RAM of descendants: {self._between(self.descendants_ram)}\n'
            f'Peak RAM of combined: {self._between(self.combined_ram)}'
            + ('\nCPU utilization: at least what is reported' if self.cpu_is_lower_bound else '')
        )

    def _between(self, bounds: Bounds) -> str:
        if bounds.lower is None or bounds.upper is None:
            least = 'unknown' if bounds.lower is None else f'at least {bounds.lower:.6g} {self.unit}'
            return least if bounds.upper is None else f'at most {bounds.upper:.6g} {self.unit}'
        if bounds.lower == bounds.upper:
            return f'exactly {bounds.lower:.6g} {self.unit}'
        return f'between {bounds.lower:.6g} and {bounds.upper:.6g} {self.unit}'


def record_of(totals: Totals, unit: str) -> Sampling:
    """Return the record that stands in the totals of a run, RAM in ``unit``."""
    ram = totals['ram']

    def bounds(group: str, position: int) -> Bounds:
        lower, upper = ram[group][0], ram['upper'][position]
        if lower is not None and upper is not None and upper < lower:
            upper = lower if lower - upper <= _SLACK else None
        return Bounds(units.from_bytes(lower, unit), units.from_bytes(upper, unit))

    return Sampling(
        samples=totals['samples'],
        late=totals['record']['late'],
        skipped=totals['record']['skipped'],
        mean_interval=totals['record']['mean_interval'],
        cpu_seconds=totals['record']['cpu_seconds'],
        unit=unit,
        main_ram=bounds('main', 0),
        descendants_ram=bounds('descendants', 1),
        combined_ram=bounds('combined', 2),
        cpu_is_lower_bound=totals['record'].get('cpu_is_lower_bound', False),
    )
