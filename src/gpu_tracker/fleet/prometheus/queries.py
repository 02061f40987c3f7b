"""What Prometheus answers to queries, read without trust in it or in what it has scraped.

The format: https://prometheus.io/docs/prometheus/latest/querying/api/. An entry that is not as it should be is left
out; a value that is no finite number is unknown, which is None.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import GpuTrackerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_LONGEST_REASON = 300


class PrometheusError(GpuTrackerError):
    """Prometheus could not be asked, or its answer cannot be used."""


class Sample(NamedTuple):
    """One value now."""

    labels: Mapping[str, str]
    value: float | None
    time: float
    """Seconds since 1970 by Prometheus's clock, for which the query was evaluated."""

    def label(self, name: str) -> str:
        """Return a label; one that is missing is the same as an empty one."""
        return self.labels.get(name, '')


class Track(NamedTuple):
    """Values over time."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float | None]]
    """Seconds since 1970, and the value then."""


MOST_SERIES = 40_000
"""Of one answer: five for each of 8,000 GPUs. Those of a round, of some 15 queries, are in memory together."""


def parse_samples(body: bytes) -> list[Sample]:
    """Return the values of an instant query.

    :raises PrometheusError: The query has failed, or the body is something else.
    """
    samples = []
    for labels, entry in _entries(body, 'vector'):
        point = _point(entry.get('value'))
        if point is not None:
            samples.append(Sample(labels, point[1], point[0]))
    return samples


def parse_tracks(body: bytes) -> list[Track]:
    """Return the values of a query over a range of time.

    :raises PrometheusError: The query has failed, or the body is something else.
    """
    tracks = []
    for labels, entry in _entries(body, 'matrix'):
        values = entry.get('values')
        if isinstance(values, list):
            tracks.append(Track(labels, [point for value in values if (point := _point(value)) is not None]))
    return tracks


def reason_of(body: bytes) -> str | None:
    """Return what the answer to a query that failed says about it; None where it says nothing."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):  # not JSON or not UTF-8, numbers of thousands of digits, absurd nesting
        return None
    reason = answer.get('error') if isinstance(answer, dict) else None
    if not isinstance(reason, str):
        return None
    return reason if len(reason) <= _LONGEST_REASON else f'{reason[: _LONGEST_REASON - 1]}…'


def _entries(body: bytes, kind: str) -> Iterator[tuple[Mapping[str, str], Mapping[str, object]]]:
    """Yield each series with its labels."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):  # as above
        raise PrometheusError('the answer is not JSON') from None
    data = answer.get('data') if isinstance(answer, dict) else None
    if not isinstance(data, dict) or answer.get('status') != 'success':
        raise PrometheusError('the answer is not the result of a query')
    entries = data.get('result')
    if data.get('resultType') != kind or not isinstance(entries, list):
        raise PrometheusError(f'the answer does not have the result type {kind}')
    if len(entries) > MOST_SERIES:
        raise PrometheusError(f'the answer has more than {MOST_SERIES} series')
    for entry in entries:
        labels = entry.get('metric') if isinstance(entry, dict) else None
        if isinstance(labels, dict) and all(isinstance(value, str) for value in labels.values()):
            yield labels, entry


def _point(value: object) -> tuple[float, float | None] | None:
    """Return a moment and the value then, which Prometheus writes as a text: ``[1700000000.1, "NaN"]``."""
    if not (isinstance(value, list) and len(value) == 2):  # noqa: PLR2004 - a pair
        return None
    try:
        moment, number = float(value[0]), float(value[1])
    except (TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(moment):
        return None
    return moment, number if math.isfinite(number) else None


JOB = 'gpu-tracker'
"""The job of agents in the scrape configuration of the documentation; others are found by what they export."""
DRIVER_UP = 'gpu_tracker_driver_up'
INFO = 'gpu_tracker_agent_info'
FIGURES = (
    'gpu_tracker_gpu_utilization_ratio',
    'gpu_tracker_gpu_memory_size_bytes',
    'gpu_tracker_gpu_memory_used_bytes',
    'gpu_tracker_gpu_memory_free_bytes',
    'gpu_tracker_gpu_temperature_celsius',
    'gpu_tracker_gpu_sm_clock_hertz',
    'gpu_tracker_gpu_power_watts',
    'gpu_tracker_gpu_power_limit_watts',
    'gpu_tracker_gpu_processes',
)
UTILIZATION, SIZE, USED, FREE, TEMPERATURE, CLOCK, POWER, POWER_LIMIT, PROCESSES = FIGURES

_FIRST_LOOK_BACK = '1d'
_LOOK_BACK = '1h'
_MEAN_FROM = 120.0
"""Seconds: from a step as long on, each of the usual scrape intervals has a sample in it whose mean can be taken."""


class Queries(NamedTuple):
    """What to ask for the GPUs of a fleet."""

    gpus: str
    statuses: str
    figures: tuple[str, ...]
    """In the order of FIGURES."""


def targets(jobs: Iterable[str]) -> str:
    """Return what to ask for whether Prometheus reaches the targets of jobs, which is 1 or 0."""
    return f'max by (job, instance, group, name) (up{{job=~{_any_of(jobs)}}})'


def scraped(jobs: Iterable[str]) -> str:
    """Return what to ask for when targets were scraped last, in seconds since 1970 by Prometheus's clock."""
    return f'max by (job, instance) (timestamp(up{{job=~{_any_of(jobs)}}}))'


def spacing(jobs: Iterable[str]) -> str:
    """Return what to ask for the mean of the seconds between two scrapes; NaN where there was only one of late.

    The interval of a job is part of Prometheus's configuration, and in no query. But the samples are: here those of the
    last five minutes are counted, and the first of them is found on a grid of 5 s.
    """
    up = f'up{{job=~{_any_of(jobs)}}}'
    first = f'clamp_min(min by (job, instance) (min_over_time(timestamp({up})[5m:5s])), time() - 300)'
    return f'({scraped(jobs)} - {first}) / (max by (job, instance) (count_over_time({up}[5m])) - 1)'


AGENTS = f'max by (__name__, job, instance, version) ({{__name__=~"{INFO}|{DRIVER_UP}"}})'
"""What agents report of themselves."""

_LAST_SCRAPES = f'timestamp({DRIVER_UP})'
AGENTS_BEFORE = ' or '.join(
    f'max by (job, instance) ({scrapes})'
    for scrapes in (
        _LAST_SCRAPES,
        # Where there is none any more its moment is found on a grid: a fine one for those that have just gone.
        f'max_over_time({_LAST_SCRAPES}[5m:1s])',
        f'max_over_time({_LAST_SCRAPES}[{_FIRST_LOOK_BACK}:1m])',
    )
)
"""When each agent was scraped last, by Prometheus's clock; those of hosts that have been down for a while included."""


def _of(selection: str) -> Queries:
    def series(name: str) -> str:
        return name if not selection else f'last_over_time({name}{{{selection}}}[{_LOOK_BACK}])'

    by_gpu = 'job, instance, index'
    return Queries(
        gpus=f'max by ({by_gpu}, host, uuid, model, pci_bus_id, vendor) ({series("gpu_tracker_gpu_info")})',
        statuses=f'max by ({by_gpu}, status) ({series("gpu_tracker_gpu_status")} == 1)',
        figures=tuple(f'max by ({by_gpu}) ({series(name)})' for name in FIGURES),
    )


NOW = _of('')
"""The GPUs of all hosts that are up."""

PROCESSES_BY_PID = 'max by (job, instance, index, pid, program, user) (gpu_tracker_gpu_process_memory_bytes)'
"""Empty, but for agents with ``--export-processes``."""
PROCESSES_BY_USER = 'max by (job, instance, index, user) (gpu_tracker_gpu_user_processes)'
"""Empty, but for agents with ``--export-users``."""


def before(instances: Iterable[str]) -> Queries:
    """Return what to ask for the GPUs of targets as they were when last seen, an hour ago at most."""
    return _of(f'instance=~{_any_of(instances)}')


def utilization_over(job: str, instance: str, step: float) -> str:
    """Return what to ask for the percent of utilization of a target's GPUs: the mean over a ``step`` that is long."""
    return f'100 * {_over(UTILIZATION, job, instance, step)}'


def memory_over(job: str, instance: str, step: float) -> str:
    """Return what to ask for the percent of the memory in use of a target's GPUs, as above."""
    return f'100 * {_over(USED, job, instance, step)} / {_over(SIZE, job, instance, step)}'


def _of_fleet(name: str) -> str:
    return f'max by (uuid) ({name}{{mig_instance=""}})'


FLEET_UTILIZATION = f'100 * avg({_of_fleet(UTILIZATION)})'
"""The percent of utilization of all GPUs together, each of which counts once."""
FLEET_MEMORY = f'100 * sum({_of_fleet(USED)} and {_of_fleet(SIZE)}) / sum({_of_fleet(SIZE)} and {_of_fleet(USED)})'
"""The percent of the memory in use of all GPUs together."""


def _over(name: str, job: str, instance: str, step: float) -> str:
    series = f'{name}{{job={_quoted(job)},instance={_quoted(instance)}}}'
    if step >= _MEAN_FROM:
        series = f'avg_over_time({series}[{step:.0f}s])'
    return f'max by (index, uuid) ({series})'


def _any_of(texts: Iterable[str]) -> str:
    return _quoted('|'.join(re.escape(text) for text in texts))


def _quoted(text: str) -> str:
    """Return a string of PromQL, which has Go's escapes: those of JSON are among them."""
    return json.dumps(text, ensure_ascii=False)
