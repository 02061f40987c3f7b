"""Advice of a job, from what its ranks have written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpu_tracker.advice.jobs import advised
from gpu_tracker.cli import main
from gpu_tracker.jobs.loading import load_job
from gpu_tracker.views.job_page import job_page
from support.job_folders import GIB, record, write

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

MIB = 2**20
BATCH = {'system': 'slurm', 'ram': 8 * GIB, 'cores': 4, 'time_limit': 7800, 'job_seconds': 5000.0, 'is_whole': False}
MEMORY = (
    'The job used 252 MB of 8.59 GB memory on its fullest node and at most 1.0 of 4 cores in any rank. '
    'Next time: --mem=300M --cpus-per-task=1'
)


def a_rank(rank: int, *, swapped_out: int = 0, **changes: Any) -> dict[str, Any]:
    """Return the record of a rank alone on its node."""
    found = record(rank, size=4, node=f'n{rank}', ram=240 * MIB, **changes)
    found['totals'] |= {'batch': BATCH, 'control_group': {'swapped_out': swapped_out}}
    return found


def folder_of(folder: Path, *records: dict[str, Any]) -> str:
    for content in records:
        write(folder, f'rank-{content["job"]["rank"]}', content)
    return str(folder)


def texts(folder: str) -> list[str]:
    return [one.text for one in advised(load_job(folder)).advice if one.rule != 'time_limit_hardly_used']


def test_a_job_gets_one_request_of_memory_and_cores(tmp_path: Path) -> None:
    assert texts(folder_of(tmp_path, *map(a_rank, range(4)))) == [MEMORY]


def test_a_slow_rank(tmp_path: Path) -> None:
    ranks = [a_rank(rank, seconds=7500.0 if rank == 2 else 4500.0, swapped_out=4096) for rank in range(4)]
    assert texts(folder_of(tmp_path, *ranks)) == [
        'The job took 2 h 05 min of its limit of 2 h 10 min. Next time: --time=03:00:00',
        'Rank 2 on n2 took 2 h 05 min, the median rank 1 h 15 min.',
        'The job used at most 1.0 of 4 cores in any rank. Next time: --cpus-per-task=1',
    ]


def test_no_request_from_an_unknown_peak(tmp_path: Path) -> None:
    ranks = [a_rank(rank, is_lower_bound=rank == 1) for rank in range(4)]
    assert texts(folder_of(tmp_path / 'bound', *ranks)) == [
        'The job used at most 1.0 of 4 cores in any rank. Next time: --cpus-per-task=1'
    ]
    swapped = [a_rank(rank, swapped_out=4096 * rank) for rank in range(4)]
    assert len(texts(folder_of(tmp_path / 'swap', *swapped))) == 1


def test_a_failed_or_incomplete_job_gets_no_request(tmp_path: Path) -> None:
    assert texts(folder_of(tmp_path / 'failed', *(a_rank(rank, exit_code=rank) for rank in range(4)))) == []
    assert texts(folder_of(tmp_path / 'three', *map(a_rank, range(3)))) == []


def test_tasks_of_an_array_get_no_request(tmp_path: Path) -> None:
    ranks = [a_rank(rank, job={'array_task': rank, 'size': 1, 'rank': 0}) for rank in range(2)]
    for number, content in enumerate(ranks):
        write(tmp_path, f'task-{number}', content)
    assert texts(str(tmp_path)) == []


def test_where_it_is_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(tmp_path, *map(a_rank, range(4)))
    assert main(['merge', folder, '-f', 'summary']) == 0
    assert f'\nAdvice      {MEMORY}\n            The job took 100 s' in capfd.readouterr().out
    assert main(['merge', folder, '--json']) == 0
    found, _ = json.loads(capfd.readouterr().out)['advice']
    assert (found['rule'], found['text']) == ('request_memory', MEMORY)
    for command in (['show'], ['merge', '-f', 'summary'], ['merge', '--json']):
        assert main([*command, folder, '--no-advice']) == 0
        assert 'dvice' not in capfd.readouterr().out
    assert f'<li>{MEMORY}</li>' in job_page(advised(load_job(folder)))
