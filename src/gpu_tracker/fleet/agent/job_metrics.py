"""The ranks of running jobs in Prometheus' words: base units, and nothing where a value is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from gpu_tracker.system.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.metrics_core import Metric

    from gpu_tracker.fleet.agent.job_ranks import JobRank, JobsSeen

LABELS = ('host', 'node', 'folder', 'job', 'step', 'rank', 'pid')
"""Of each series. ``pid`` is given only where the rank is not known: a rank has one process at a time."""

_PREFIX = 'gpu_tracker_job_rank'


class _Figure(NamedTuple):
    """A figure that each rank has, as far as it reports it."""

    name: str
    unit: str
    text: str
    value: Callable[[JobRank], float | None]
    family: type[CounterMetricFamily | GaugeMetricFamily] = GaugeMetricFamily


_FIGURES = (
    _Figure(
        'cpu',
        'seconds',
        'CPU time of the rank and all that it has started.',
        lambda rank: rank.cpu_seconds,
        CounterMetricFamily,
    ),
    _Figure('memory_max', 'bytes', 'The most RAM of the rank so far.', lambda rank: rank.memory_max),
    _Figure('gpu_memory_max', 'bytes', 'The most GPU memory of the rank so far.', lambda rank: rank.gpu_memory_max),
    _Figure(
        'gpu_utilization_mean',
        'ratio',
        'How busy the GPUs of the rank were on average so far, from 0 to 1 for each, summed over them.',
        lambda rank: rank.gpu_utilization,
    ),
    _Figure('read', 'bytes', 'Bytes that the rank has read from storage.', lambda rank: rank.read, CounterMetricFamily),
    _Figure(
        'written',
        'bytes',
        'Bytes that the rank has written to storage.',
        lambda rank: rank.written,
        CounterMetricFamily,
    ),
    _Figure(
        'running',
        'seconds',
        'For how long the rank had run when its figures were written.',
        lambda rank: rank.updated - rank.started,
    ),
    _Figure(
        'reading_timestamp',
        'seconds',
        'When the figures of the rank were written, since 1970.',
        lambda rank: rank.updated,
    ),
)


class JobCollector(Collector):
    """The newest figures of the ranks that run on this machine.

    :param seen: Returns what is known of them, at once.
    :param host: The name of this machine.
    """

    def __init__(self, seen: Callable[[], JobsSeen], host: str) -> None:
        self._seen = seen
        self._host = printable(host)

    def collect(self) -> Iterator[Metric]:
        """Yield the families of metrics as they are now."""
        seen = self._seen()
        yield GaugeMetricFamily(
            'gpu_tracker_jobs_up',
            '0: the folder of the jobs cannot be read, or has not answered lately.',
            int(seen.problem is None),
        )
        labelled = [(rank, self._labels(rank)) for rank in seen.ranks]
        for figure in _FIGURES:
            family = figure.family(f'{_PREFIX}_{figure.name}', figure.text, labels=LABELS, unit=figure.unit)
            for rank, labels in labelled:
                value = figure.value(rank)
                if value is not None:
                    family.add_metric(labels, value)
            yield family

    def _labels(self, rank: JobRank) -> tuple[str, ...]:
        pid = rank.pid if rank.rank is None else None
        own = (rank.node, rank.folder, rank.job, rank.step, rank.rank, pid)
        return self._host, *('' if value is None else str(value) for value in own)
