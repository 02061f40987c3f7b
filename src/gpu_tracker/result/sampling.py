"""The record of a run's sampling: how many samples there were, what they cost, and which figures are lower bounds."""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_tracker.totals import Totals


@dataclass(frozen=True, slots=True)
class Sampling:
    """Statistics about the samples. ``str()`` returns text.

    :ivar samples: Number of samples.
    :ivar late: Number of samples that began later than planned.
    :ivar skipped: Number of samples skipped because the previous sample took too long, or because of
        ``max_overhead_percent``.
    :ivar mean_interval: Mean seconds between regular samples. Extra samples after process starts and ends do not count.
    :ivar cpu_seconds: CPU time for taking samples.
    :ivar lower_bounds: Figures that may be too low, as a dictionary from name to reason.
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
