"""What Prometheus reads of the ranks of running jobs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from gpu_tracker.fleet.agent.job_metrics import JobCollector
from gpu_tracker.fleet.agent.job_ranks import JobRank, JobsSeen
from support.fleet.job_records import BEGUN, RANK, UNKNOWN

OF_RANK = 'folder="resnet",host="n1.example.org",job="4711_3",node="n1",pid="",rank="3",step="0"'


def registry(*ranks: JobRank, problem: str | None = None) -> CollectorRegistry:
    made = CollectorRegistry(auto_describe=False)
    made.register(JobCollector(lambda: JobsSeen(ranks, problem), 'n1.example.org'))
    return made


def series(*ranks: JobRank, problem: str | None = None) -> dict[str, float]:
    lines = generate_latest(registry(*ranks, problem=problem)).decode().splitlines()
    pairs = (line.rpartition(' ') for line in lines if not line.startswith('#'))
    return {name: float(value) for name, _, value in pairs}


def test_a_rank() -> None:
    assert series(RANK) == {
        'gpu_tracker_jobs_up': 1,
        f'gpu_tracker_job_rank_cpu_seconds_total{{{OF_RANK}}}': 350.5,
        f'gpu_tracker_job_rank_memory_max_bytes{{{OF_RANK}}}': 8_000_000_000,
        f'gpu_tracker_job_rank_gpu_memory_max_bytes{{{OF_RANK}}}': 30_000_000_000,
        f'gpu_tracker_job_rank_gpu_utilization_mean_ratio{{{OF_RANK}}}': 0.875,
        f'gpu_tracker_job_rank_read_bytes_total{{{OF_RANK}}}': 5_000_000,
        f'gpu_tracker_job_rank_written_bytes_total{{{OF_RANK}}}': 6_000_000,
        f'gpu_tracker_job_rank_running_seconds{{{OF_RANK}}}': 100,
        f'gpu_tracker_job_rank_reading_timestamp_seconds{{{OF_RANK}}}': 1_800_000_000,
    }


def test_what_is_unknown_is_absent() -> None:
    of_begun = OF_RANK.replace('rank="3"', 'rank="2"')
    assert series(BEGUN) == {
        'gpu_tracker_jobs_up': 1,
        f'gpu_tracker_job_rank_running_seconds{{{of_begun}}}': 0,
        f'gpu_tracker_job_rank_reading_timestamp_seconds{{{of_begun}}}': 1_799_999_900,
    }


def test_a_process_without_a_rank_is_told_from_others_by_its_id() -> None:
    of_unknown = 'folder="",host="n1.example.org",job="",node="",pid="4242",rank="",step=""'
    assert f'gpu_tracker_job_rank_running_seconds{{{of_unknown}}}' in series(UNKNOWN)


def test_jobs_that_cannot_be_read() -> None:
    assert series(problem='the folder of the jobs has not answered for 40 s') == {'gpu_tracker_jobs_up': 0}
    assert series() == {'gpu_tracker_jobs_up': 1}


@pytest.mark.parametrize('generate', [generate_latest, generate_openmetrics])
def test_both_forms_have_the_same_samples(generate) -> None:
    text = generate(registry(RANK, BEGUN, UNKNOWN)).decode()
    samples = [line for line in text.splitlines() if not line.startswith('#')]
    expected = series(RANK, BEGUN, UNKNOWN)
    assert {line.rpartition(' ')[0]: float(line.rpartition(' ')[2]) for line in samples} == expected
    assert len(samples) == len(expected)


def test_each_metric_is_documented() -> None:
    page = (Path(__file__).parents[3] / 'docs' / 'metrics.rst').read_text()
    told = {name.partition('{')[0] for name in series(RANK)}
    assert told <= set(re.findall(r'``(gpu_tracker_\w+)``', page))
