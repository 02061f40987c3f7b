"""The record of a run's sampling: how many samples there were, what they cost, and which figures are lower bounds."""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_tracker.totals import Totals


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a run was sampled.

    :ivar samples: The samples that were taken, with the first and the last one. The first moments of a run get some
        more.
    :ivar late: Samples that began more than a tenth of the sampling interval, and more than 2 ms, after their point of
        the grid, because the machine was busy.
    :ivar skipped: Points of the grid without a sample, because the one before took too long, or because
        ``max_overhead_percent`` did not suffice.
    :ivar mean_interval: Seconds between the samples on the grid, on average; None if no point has passed. If points
        were skipped at the end, the time from there to the last sample counts as well.
    :ivar cpu_seconds: The CPU time of the sampler, its start included.
    :ivar lower_bounds: The figures that may be too low, with the reasons: the keys are the paths of the figures in the
        result, such as ``max_ram.combined.total_rss``.
    """

    samples: int
    late: int
    skipped: int
    mean_interval: float | None
    cpu_seconds: float
    lower_bounds: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return it in lines: the samples, then one line for each reason why figures may be too low."""
        interval = 'unknown' if self.mean_interval is None else f'{self.mean_interval:.4f} s'
        samples = f'{self.samples} samples, {self.late} late, {self.skipped} skipped'
        lines = [f'Sampling: {samples}, mean interval {interval}, {self.cpu_seconds:.4f} CPU seconds']
        reasons: dict[str, list[str]] = {}
        for path, reason in self.lower_bounds.items():
            reasons.setdefault(reason, []).append(path)
        lines += [f'At least, because {reason}: {", ".join(paths)}' for reason, paths in reasons.items()]
        return '\n'.join(lines)


def record_of(totals: Totals) -> Sampling:
    """Return the record that stands in the totals of a run."""
    record = totals['record']
    return Sampling(
        samples=totals['samples'],
        late=record['late'],
        skipped=record['skipped'],
        mean_interval=record['mean_interval'],
        cpu_seconds=record['cpu_seconds'],
        lower_bounds=dict(totals.get('lower_bounds', {})),
    )
