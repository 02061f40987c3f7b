"""Which records are runs of one rank, what ranks are called, and what jobs, steps and attempts make of figures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpu_tracker.jobs import job_text
from gpu_tracker.jobs.merging import merge
from gpu_tracker.jobs.records import read_record
from support.job_folders import GIB, NOW, record

if TYPE_CHECKING:
    from gpu_tracker.jobs.job_report import JobReport

GPU = {'uuid': 'GPU-a', 'name': 'A100', 'capacity': 40 * GIB, 'combined': GIB, 'utilization': 50.0}


def merged(*records: dict[str, Any]) -> JobReport:
    read = [read_record(json.dumps(one), f'rank-{place}') for place, one in enumerate(records)]
    return merge(read, now=NOW)


def labels(*jobs: dict[str, Any]) -> list[str]:
    return [rank.label for rank in merged(*(record(job.get('rank'), job=job) for job in jobs)).ranks]


@pytest.mark.parametrize(
    ('jobs', 'expected'),
    [
        ([{'rank': 10}, {'rank': 9}], ['9', '10']),
        ([{'rank': 0, 'step': 'batch'}, {'rank': 0, 'step': '0'}], ['step 0 rank 0', 'step batch rank 0']),
        ([{'rank': 0, 'job': 'a'}, {'rank': 0, 'job': 'b'}], ['job a rank 0', 'job b rank 0']),
        (
            [{'rank': 0, 'job': job, 'step': step} for job, step in (('a', '1'), ('b', '0'), ('b', '1'))],
            ['job a step 1 rank 0', 'job b step 0 rank 0', 'job b step 1 rank 0'],
        ),
        ([{'rank': 0, 'array_task': 12, 'size': 1}, {'rank': 0, 'array_task': 3, 'size': 1}], ['task 3', 'task 12']),
        (
            [{'rank': 1, 'array_task': 3, 'size': 2}, {'rank': 0, 'array_task': 3, 'size': 2}],
            ['task 3 rank 0', 'task 3 rank 1'],
        ),
        ([{'rank': 0}, {'rank': None}], ['process 100 on n1', '0']),
        ([{'rank': 0, 'job': None}, {'rank': 0, 'job': 'a'}], ['0', 'job a rank 0']),
    ],
)  # fmt: skip
def test_labels_are_as_short_as_they_can_be(jobs: list[dict[str, Any]], expected: list[str]) -> None:
    assert labels(*jobs) == expected


def test_a_process_that_was_tracked_twice_is_one_and_one_of_another_container_is_not() -> None:
    twice = merged(record(None, pid_namespace=1), record(None, started=200, pid_namespace=1))
    assert ([rank.label for rank in twice.ranks], twice.ranks_started) == (['process 100 on n1'] * 2, 1)
    other = merged(record(None, pid_namespace=1), record(None, pid_namespace=2, exit_code=1))
    assert [rank.label for rank in other.ranks] == ['process 100 on n1', 'process 100 on n1 (2)']
    assert (other.ranks_started, other.states['ended'], other.states['failed']) == (2, 1, 1)


def test_labels_of_strangers_do_not_make_two_ranks_one() -> None:
    report = merged(
        record(1, size=4, job={'step': '0'}),
        record(0, size=4, job={'step': '0'}),
        record(1, size=4, job={'step': '0 rank 1', 'array_task': None, 'rank': None}, pid=1),
        record(3, job={'step': '0 rank 1'}),
        record(0, job={'step': None}),
    )
    assert len({rank.label for rank in report.ranks}) == report.ranks_started == 5


def test_after_a_requeue_the_second_attempt_counts_and_both_have_used_time() -> None:
    first = [record(rank, size=3, attempt=0, cpu=10.0, exit_code=-15, node=f'n{rank}') for rank in range(3)]
    again = [
        record(0, size=3, attempt=1, started=500, cpu=20.0, node='n1'),
        record(1, size=3, attempt=1, started=500, cpu=20.0, node='n2', exit_code=3),
        record(2, size=3, attempt=1, started=500, cpu=20.0, node='n3', ended=None, exit_code=None)
        | {'updated_unix': NOW - 1},
    ]
    report = merged(*again, *first)
    assert (report.ranks_expected, report.ranks_started, report.never_started) == (3, 3, ())
    assert report.restarted == ('0', '1', '2')
    assert {state: count for state, count in report.states.items() if count} == {'ended': 1, 'failed': 1, 'running': 1}
    assert (report.is_running, report.is_lower_bound) == (True, True)
    summary = job_text.as_summary(report).splitlines()
    assert summary[1:4] == [
        'Ranks       3 of 3 on 4 nodes: 1 ended, 1 failed, 1 still running',
        '            started again: 0-2',
        '            failed: 1 (exit code 3)',
    ], 'first attempts are in the table of ranks'
    assert report.cpu_seconds == 90.0
    assert [(rank.label, rank.attempt, rank.node, rank.state) for rank in report.ranks] == [
        ('0', 0, 'n0', 'killed'), ('0', 1, 'n1', 'ended'),
        ('1', 0, 'n1', 'killed'), ('1', 1, 'n2', 'failed'),
        ('2', 0, 'n2', 'killed'), ('2', 1, 'n3', 'running'),
    ]  # fmt: skip
    assert [(node.node, node.ranks, node.cpu_seconds_allotted) for node in report.nodes] == [
        ('n0', 1, 400.0), ('n1', 2, 800.0), ('n2', 2, 800.0), ('n3', 1, 1996.0),
    ]  # fmt: skip


def test_two_runs_of_one_rank_and_attempt_are_as_good_as_the_worse() -> None:
    report = merged(record(0, size=1, exit_code=2), record(0, size=1, started=200))
    assert (report.ranks_started, report.restarted, report.states['failed'], report.states['ended']) == (1, (), 1, 0)
    assert report.cpu_seconds == 100.0
    cpu = [one for one in report.imbalance if one.figure == 'cpu_seconds']
    assert cpu == [], 'there is nobody to compare it with'


def test_attempts_at_the_same_time_are_allotted_once() -> None:
    report = merged(record(0, attempt=0, seconds=10), record(0, attempt=1, started=5, seconds=95), record(1, attempt=0))
    assert report.cpu_seconds_allotted == 400.0
    tasks = merged(*(record(0, job={'array_task': task}) for task in (1, 2)))
    assert tasks.cpu_seconds_allotted == 800.0, 'each task of an array has cores of its own'


def test_jobs_in_one_folder_are_added_up_and_said_to_be_several() -> None:
    report = merged(record(0, size=2, job={'job': 'a'}), record(1, size=2, job={'job': 'b'}))
    assert report.jobs == ('a', 'b')
    assert report.never_started == ('job a rank 1', 'job b rank 0')
    assert report.problems == ('2 different jobs have written here; their figures are added up.',)


def test_ranks_that_do_not_say_how_many_they_are_miss_nobody() -> None:
    report = merged(record(5), record(7))
    assert (report.ranks_expected, report.never_started, report.ranks_started) == (None, (), 2)
    mixed = merged(record(0, size=2, job={'step': '0'}), record(5, job={'step': '1'}))
    assert (mixed.ranks_expected, mixed.never_started) == (None, ('step 0 rank 1',))


@pytest.mark.parametrize(
    ('exit_code', 'state', 'signal'),
    [
        (0, 'ended', None), (None, 'ended', None), (1, 'failed', None), (255, 'failed', None),
        (-9, 'killed', 'SIGKILL'), (-15, 'killed', 'SIGTERM'), (-34, 'killed', 'SIGRTMIN'),
        (-35, 'killed', 'signal 35'), (-1000, 'killed', 'signal 1000'),
    ],
)  # fmt: skip
def test_ends(exit_code: int | None, state: str, signal: str | None) -> None:
    (rank,) = merged(record(0, exit_code=exit_code)).ranks
    assert (rank.state, rank.signal, rank.exit_code) == (state, signal, exit_code)


def test_no_rank_is_silent_for_ever() -> None:
    silent = record(0, ended=None, exit_code=None, write_interval=1e11)
    heard = silent['updated_unix']
    read = read_record(json.dumps(silent), 'rank-0')
    assert merge([read], now=heard + 3 * 3600 + 60).states['running'] == 1
    assert merge([read], now=heard + 3 * 3600 + 61).states['lost'] == 1


def test_of_gpus_that_a_lost_rank_used_as_well_there_is_at_least_what_the_others_saw() -> None:
    lost = record(1, cpu=None, ended=None, exit_code=None, seconds=0)
    report = merged(record(0, gpus=[GPU]), lost)
    assert (report.gpu_seconds, report.is_lower_bound) == (50.0, True)
    assert 'GPU         at least 50 GPU-seconds' in job_text.as_summary(report)
    exact = merged(record(0, gpus=[GPU], asked={'gpus_of_node': 2}))
    assert 'GPU         50 GPU-seconds of 200 allotted, 25 %' in job_text.as_summary(exact)
    assert merged(lost).gpu_seconds is None


def test_energy_that_one_rank_does_not_know_is_not_known() -> None:
    known = record(0, energy={'gpus': [['GPU-a', 700.0, False]], 'packages': 5.0})
    not_asked = record(1)
    assert merged(known, not_asked).gpu_joules == 700.0
    unknown = record(1, node='n2', energy={'gpus': None, 'packages': None})
    report = merged(known, unknown)
    assert (report.gpu_joules, report.cpu_package_joules) == (None, None)
    without_gpus = record(1, node='n2', energy={'gpus': [], 'packages': 7.0})
    report = merged(known, without_gpus)
    assert (report.gpu_joules, report.cpu_package_joules) == (700.0, 12.0)
    divided = record(1, node='n2', energy={'gpus': [['GPU-b', None, False]], 'packages': 7.0})
    assert merged(known, divided).gpu_joules is None


def test_unknown_figures_of_a_node_or_a_rank_are_not_blank() -> None:
    silent = record(1, node='n2', gpus=[GPU | {'utilization': None}], cpu=None, asked={}, cpus=4)
    _, nodes, ranks = job_text.as_text(merged(record(0, gpus=[GPU]), silent)).split('\n\n')
    assert nodes.splitlines()[-1].split() == ['n2', '1', 'N/A', 'N/A', 'N/A', 'N/A', 'N/A']
    assert ranks.splitlines()[-1].split() == ['1', 'n2', '100', 's', 'N/A', 'N/A', 'N/A', 'N/A', 'well']


def test_nodes_are_those_of_the_launcher_even_on_one_machine() -> None:
    same = {'host': 'vm', 'machine': 'boot'}
    energy = {'gpus': [['GPU-a', 700.0, False]], 'packages': 5.0}
    report = merged(*(record(rank, node=f'n{rank}', gpus=[GPU], energy=energy) | same for rank in (0, 1)))
    assert [(node.node, node.ranks, node.gpu_seconds) for node in report.nodes] == [('n0', 1, 50.0), ('n1', 1, 50.0)]
    found = (report.gpu_seconds, report.cpu_package_joules, report.gpu_joules)
    assert found == (50.0, 5.0, 700.0), 'once a machine, once a UUID'
