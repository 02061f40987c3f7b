"""That the benchmark of jobs measures what it says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks import jobs
from benchmarks.environments import Environment
from benchmarks.peers import OURS
from benchmarks.session import FailedError

import gpu_tracker

OURSELVES = Environment(OURS.name, Path(sys.executable).parent.parent, '6')


@pytest.fixture(scope='module')
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a job of one rank."""
    return jobs.recorded_rank(OURSELVES, tmp_path_factory.mktemp('job') / 'seed', 0.5)


def test_copies_are_the_ranks_of_one_job(seed: Path, tmp_path: Path):
    folder = jobs.copies(seed, tmp_path / 'job', 20, with_recordings=True)
    report = gpu_tracker.load_job(folder)
    assert (report.ranks_expected, report.ranks_started, report.never_started) == (20, 20, ())
    assert [(node.node, node.ranks) for node in report.nodes] == [('n0', 8), ('n1', 8), ('n2', 4)]
    assert [(region.path, region.calls) for region in report.regions] == [(('epoch',), 20), (('epoch', 'step'), 100)]


@pytest.mark.parametrize('how', ['merge', 'merge-recordings', 'json', 'json-sqlite'])
def test_each_way_reads_all_ranks(seed: Path, tmp_path: Path, how: str):
    folder = jobs.copies(seed, tmp_path / 'job', 12, with_recordings=True)
    figures = jobs.read(OURSELVES, folder, 12, how)
    assert figures['seconds'] > 0 < figures['cpu']
    assert 5e6 < figures['peak'] < 1e9
    with pytest.raises(FailedError, match='found 12 of 13 ranks'):
        jobs.read(OURSELVES, folder, 13, how)


@pytest.mark.parametrize('options', [['--job=D'], ['-f', 'json', '-o', 'F']])
def test_the_cpu_time_of_a_rank_is_that_of_all_its_processes(options: list[str]):
    figures = jobs.cost_of_a_rank(OURSELVES, options)
    assert figures['seconds'] > 0
    assert 0.02 < figures['cpu'] < 10
