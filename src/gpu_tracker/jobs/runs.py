"""The runs of the ranks of a job: what each is called, and how it has ended. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_tracker.jobs.records import RUNNING
from gpu_tracker.recording.reading.model import Bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpu_tracker.jobs.records import RankRecord

_MOST_NAMED = 12
_UNKNOWN_NODE = 'unknown'


class Run(NamedTuple):
    """One run of a rank.

    :ivar record: What it has written.
    :ivar label: What it is called.
    :ivar state: Its state.
    :ivar is_last: Whether it belongs to the rank's last attempt.
    """

    record: RankRecord
    label: str
    state: str
    is_last: bool

    @property
    def end(self) -> float:
        """When it was heard of last: what it has used is known up to here."""
        return self.record.updated

    @property
    def seconds(self) -> float:
        """How long it ran, or was seen to run."""
        sampled = self.record.figure('record', 'tracked_seconds') or self.record.figure('seconds')
        return float(sampled) if sampled is not None else self.end - self.record.started

    @property
    def ram(self) -> Bounded:
        """The most RAM that it had; of one that runs there is no upper bound yet."""
        found = _ram(self.record)
        return found if self.state != RUNNING else Bounded(found.value, found.lower, None)

    @property
    def node(self) -> str:
        """The name of its node."""
        return self.record.job.node or self.record.host or _UNKNOWN_NODE


def runs_of(records: Sequence[RankRecord], now: float, is_alive: Callable[[RankRecord], bool | None]) -> list[Run]:
    """Return the runs in the order of their labels, each with its state.

    :param records: In the order in which they began.
    :param now: Seconds since 1970.
    :param is_alive: Returns whether the process that writes a rank's end is there; None where that cannot be seen.
    """
    jobs = {record.job.job for record in records}
    steps = {(record.job.job, record.job.step) for record in records}
    groups = grouped(records, _unit)
    runs = []
    labels: Counter[str] = Counter()
    for unit in sorted(groups, key=_order):
        of_rank = groups[unit]
        attempts = [record.job.attempt for record in of_rank]
        latest = max((attempt for attempt in attempts if attempt is not None), default=None)
        label = _label(of_rank[0], with_job=len(jobs) > 1, with_step=len(steps) > len(jobs))
        labels[label] += 1
        if labels[label] > 1:  # containers of one host have the same process IDs
            label = f'{label} ({labels[label]})'
        runs += [Run(record, label, record.state(now, is_alive), record.job.attempt == latest) for record in of_rank]
    return runs


def _unit(record: RankRecord) -> tuple[str | None, int | None, str | None, int | None, str]:
    """Return what all runs of one rank have in common: its place, or of one without a rank its process."""
    place = record.job
    process = '' if place.rank is not None else f'{place.node} {record.machine} {record.pid_namespace} {record.pid}'
    return place.job, place.array_task, place.step, place.rank, process


def _order(unit: tuple[str | None, int | None, str | None, int | None, str]) -> tuple[Any, ...]:
    job, task, step, rank, process = unit
    is_number = step is not None and step.isdecimal()
    numbered = (0, int(step), '') if is_number and step is not None else (1, 0, step or '')
    return (job or '', -1 if task is None else task, numbered, -1 if rank is None else rank, process)


def _label(record: RankRecord, *, with_job: bool, with_step: bool) -> str:
    """Return a name for a rank, as short as it can be among the others."""
    place = record.job
    parts = []
    if with_job and place.job is not None:
        parts.append(f'job {place.job}')
    if place.array_task is not None:
        parts.append(f'task {place.array_task}')
    if with_step and place.step is not None:
        parts.append(f'step {place.step}')
    is_alone = place.array_task is not None and (place.size or 1) == 1
    if place.rank is not None and not (is_alone and parts):
        parts.append(f'rank {place.rank}' if parts else str(place.rank))
    elif place.rank is None:
        parts.append(f'process {record.pid} on {place.node or record.host}')
    return ' '.join(parts)


def _ram(record: RankRecord) -> Bounded:
    value = record.figure('ram', 'combined', 0)
    lower_bounds = (record.totals or {}).get('lower_bounds')  # earlier revisions wrote none
    is_exact = isinstance(lower_bounds, dict) and 'max_ram.combined.total_rss' not in lower_bounds
    return Bounded(value, value, value if is_exact else None)


def named(labels: Sequence[str]) -> str:
    """Return labels as people read them, the first ones of many."""
    names = [label if ' ' in label else f'rank {label}' for label in dict.fromkeys(labels)]
    more = len(names) - _MOST_NAMED
    return ', '.join(names[:_MOST_NAMED]) + (f' and {more} more' if more > 0 else '')


def grouped(items: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    """Return the items by their keys, in the order in which these were met first."""
    found: dict[Any, list[Any]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found
