"""The record of a run's sampling: how many samples there were, what they cost, and between which bounds RAM lies."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_tracker import units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.totals import Group, Totals


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between what a figure lies; where both are equal it is exact.

    :ivar lower: What is certain to have been there; None where nothing is.
    :ivar upper: The most that it can have been; None where that is unknown.
    """

    lower: float | None
    upper: float | None


@dataclass(frozen=True, slots=True)
class RAMBounds:
    """Between what the peak RAM of a process or of a group of processes lies.

    :ivar lower: The largest size that is certain; None where no process was seen with its memory.
    :ivar upper: The most that it can have been, from the kernel's own high-water marks and page faults; None where some
        process may have had more after these were last read.
    :ivar private: The same for private RSS.
    :ivar shared: The same for shared RSS.
    """

    lower: float | None
    upper: float | None
    private: Bounds
    shared: Bounds


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a run was sampled.

    :ivar samples: The samples that were taken, those at the start and at the end included; the first moments of a run
        get some more.
    :ivar late: Samples that began more than a tenth of the sampling interval, and more than 2 ms, after their point of
        the grid, because the machine was busy.
    :ivar skipped: Points of the grid without a sample, because the one before took too long, or because
        ``max_overhead_percent`` did not suffice.
    :ivar early: Samples of the memory of young processes between two points of the grid (Linux).
    :ivar postponed: Readings of young processes that came later than planned, because the budget did not suffice.
    :ivar mean_interval: Seconds between the samples on the grid, on average; None where no point has passed. Where
        points were skipped at the end, the time from there to the last sample counts as well.
    :ivar cpu_seconds: The CPU time of the sampler, its start included.
    :ivar unit: The unit of the bounds.
    :ivar main_ram: The peak of the tracked process.
    :ivar descendants_ram: The peak of its descendants, also of those that no sample has seen.
    :ivar combined_ram: The peak of all of them together.
    :ivar cpu_is_lower_bound: The CPU utilization may have been more than is reported: a process has ended of which
        nobody could tell all that it had used.
    :ivar exit_records: How many descendants have ended of which the kernel has reported what they had used, however
        short they lived; None where it reports none: that takes CAP_NET_ADMIN and the machine's own process IDs.
    :ivar exit_records_are_lost: More processes have ended than could be reported, so that what those have used is at
        least what the figures say.
    """

    samples: int
    late: int
    skipped: int
    early: int
    postponed: int
    mean_interval: float | None
    cpu_seconds: float
    unit: str
    main_ram: RAMBounds
    descendants_ram: RAMBounds
    combined_ram: RAMBounds
    cpu_is_lower_bound: bool
    exit_records: int | None = None
    exit_records_are_lost: bool = False

    def __str__(self) -> str:
        """Return it in lines: the samples, then for each group the peak RAM and what of it is private and shared."""
        interval = 'unknown' if self.mean_interval is None else f'{self.mean_interval:.4f} s'
        samples = f'{self.samples} samples, {self.late} late, {self.skipped} skipped'
        early = f'{self.early} early, {self.postponed} postponed'
        lines = [f'Sampling: {samples}, {early}, mean interval {interval}, {self.cpu_seconds:.4f} CPU seconds']
        groups = (('main', self.main_ram), ('descendants', self.descendants_ram), ('combined', self.combined_ram))
        for name, ram in groups:
            parts = '; '.join(f'{kind} {self._between(part)}' for kind, part in _parts(ram))
            lines.append(f'Peak RAM of {name}: {self._between(ram)}' + (f' ({parts})' if parts else ''))
        if self.cpu_is_lower_bound:
            lines.append('CPU utilization: at least what is reported')
        if self.exit_records is not None:
            lost = ', others were lost' if self.exit_records_are_lost else ''
            lines.append(f'Processes reported by the kernel at their end: {self.exit_records}{lost}')
        return '\n'.join(lines)

    def _between(self, bounds: Bounds | RAMBounds) -> str:
        if bounds.lower is None or bounds.upper is None:
            least = 'unknown' if bounds.lower is None else f'at least {bounds.lower:.6g} {self.unit}'
            return least if bounds.upper is None else f'at most {bounds.upper:.6g} {self.unit}'
        if bounds.lower == bounds.upper:
            return f'exactly {bounds.lower:.6g} {self.unit}'
        return f'between {bounds.lower:.6g} and {bounds.upper:.6g} {self.unit}'


def _parts(ram: RAMBounds) -> list[tuple[str, Bounds]]:
    """Return the parts of which anything is known, where there was anything."""
    parts = [('private', ram.private), ('shared', ram.shared)]
    return [(name, part) for name, part in parts if part.lower is not None and ram.upper != 0]


def record_of(totals: Totals, unit: str) -> Sampling:
    """Return the record that stands in the totals of a run, RAM in ``unit``."""
    ram = totals['ram']

    def bounds(group: Group) -> RAMBounds:
        total, private, shared = (units.from_bytes(size, unit) for size in ram['lower'][group])
        upper = units.from_bytes(ram['upper'][group], unit)
        return RAMBounds(total, upper, Bounds(private, upper), Bounds(shared, upper))

    record = totals['record']
    return Sampling(
        samples=totals['samples'],
        late=record['late'],
        skipped=record['skipped'],
        early=record['early'],
        postponed=record['postponed'],
        mean_interval=record['mean_interval'],
        cpu_seconds=record['cpu_seconds'],
        unit=unit,
        main_ram=bounds('main'),
        descendants_ram=bounds('descendants'),
        combined_ram=bounds('combined'),
        cpu_is_lower_bound=record['cpu_is_lower_bound'],
        exit_records=record.get('exit_records'),
        exit_records_are_lost=record.get('exit_records_lost', False),
    )
