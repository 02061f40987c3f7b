"""The PromQL of a fleet: as many queries for one GPU as for thousands.

All sums go by the labels that are needed. So answers stay short, and what several Prometheus servers have scraped of
the same target, as Thanos may show it, is one series.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

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
"""What agents tell of themselves."""

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
        gpus=f'max by ({by_gpu}, host, uuid, model, pci_bus_id) ({series("gpu_tracker_gpu_info")})',
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
