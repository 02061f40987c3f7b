"""The running jobs in the JSON of an agent, and what others read of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.fleet.agent.job_ranks import JobRank, JobsSeen, running_jobs
from gpu_tracker.fleet.agent.local_host import LocalHost
from gpu_tracker.fleet.hosts.host import STALE, UP, HostState, host_as_json
from gpu_tracker.fleet.hosts.report import HostReport, parse_report
from gpu_tracker.fleet.hosts.running_jobs import RunningJob, parse_jobs
from gpu_tracker.gpus.latest_reading import Watch
from support.fleet.job_records import NOW
from support.gpus.brief_gpus import gpu
from support.gpus.polled_machine import PolledMachine

GB = 1_000_000_000


def rank(number: int | None, **differences: object) -> JobRank:
    usual = {
        'folder': 'resnet',
        'node': 'n1',
        'launcher': 'slurm',
        'job': '4711',
        'step': '0',
        'rank': number,
        'size': 16,
        'pid': 4242,
        'started': NOW - 100 + (number or 0),
        'updated': NOW - (number or 0),
        'expires': NOW + 90,
        'has_figures': True,
        'seconds': 100.0,
        'cpu_seconds': 350.0,
        'cpu_cores': 3.5,
        'memory_max': 8 * GB,
        'gpu_memory_max': 30 * GB,
        'read': 5_000_000,
        'written': 6_000_000,
    }
    return JobRank(**(usual | differences))


JOB = RunningJob(
    job='4711',
    folder='resnet',
    step='0',
    launcher='slurm',
    ranks=2,
    ranks_expected=16,
    started=NOW - 100,
    updated=NOW,
    cpu_seconds=700.0,
    cpu_cores=7.0,
    memory_max_bytes=16 * GB,
    gpu_memory_max_bytes=60 * GB,
    read_bytes=10_000_000,
    written_bytes=12_000_000,
)
BEGUN = {'has_figures': False, 'cpu_seconds': None, 'cpu_cores': None, 'memory_max': None, 'gpu_memory_max': None}


def test_the_ranks_of_a_step_add_up() -> None:
    assert running_jobs([rank(0), rank(1)]) == (JOB,)


def test_a_sum_of_which_a_part_is_unknown_is_unknown_but_for_ranks_that_have_just_begun() -> None:
    (job,) = running_jobs([rank(0), rank(1, gpu_memory_max=None), rank(2, **BEGUN, read=None, written=None)])
    assert (job.ranks, job.memory_max_bytes, job.gpu_memory_max_bytes) == (3, 16 * GB, None)
    (job,) = running_jobs([rank(2, **BEGUN)])
    assert (job.ranks, job.cpu_cores, job.memory_max_bytes) == (1, None, None)


def test_steps_and_jobs_are_apart_and_the_newest_is_first() -> None:
    jobs = running_jobs(
        [rank(0), rank(0, step='batch', size=1, started=NOW - 200), rank(None, job=None, folder='x', started=NOW)]
    )
    assert [(job.job, job.folder, job.step, job.ranks_expected) for job in jobs] == [
        (None, 'x', '0', 16),
        ('4711', 'resnet', '0', 16),
        ('4711', 'resnet', 'batch', 1),
    ]


def test_what_an_agent_tells_is_read_as_it_was() -> None:
    told = json.loads(json.dumps(JobsSeen((rank(0), rank(1)), 'it hangs').as_json()))
    assert list(told['jobs'][0]) == [
        'job',
        'folder',
        'step',
        'launcher',
        'ranks',
        'ranks_expected',
        'started',
        'updated',
        'cpu_seconds',
        'cpu_cores',
        'memory_max_bytes',
        'gpu_memory_max_bytes',
        'read_bytes',
        'written_bytes',
    ]
    report = parse_report(json.dumps({'hostname': 'n1', 'gpus': [], **told}).encode())
    assert (report.jobs, report.jobs_problem) == ((JOB,), 'it hangs')


def test_an_agent_that_reads_no_jobs_tells_none() -> None:
    report = parse_report(b'{"hostname": "n1", "gpus": []}')
    assert (report.jobs, report.jobs_problem) == (None, None)
    assert 'jobs' not in host_as_json(HostState('0', 'n1').reported(report, NOW))


def test_what_is_no_job_is_left_out_and_the_gpus_stay() -> None:
    entries = [JOB._asdict(), 'x', {}, {'ranks': 0}, {'ranks': True}, {'ranks': 1, 'job': 'x' * 500, 'cpu_cores': -1}]
    report = parse_report(json.dumps({'hostname': 'n1', 'gpus': [{'index': 0}], 'jobs': entries}).encode())
    assert [gpu.number for gpu in report.gpus] == [0]
    assert report.jobs == (
        JOB,
        RunningJob('x' * 99 + '…', None, None, None, ranks=1, ranks_expected=None),
    )
    assert parse_jobs([JOB._asdict()] * 600) == (JOB,) * 500
    assert parse_jobs({'0': JOB._asdict()}) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda part: st.lists(part, max_size=4) | st.dictionaries(st.sampled_from(RunningJob._fields), part),
        max_leaves=20,
    )
)
def test_whatever_is_told_can_be_sent_on(listed: object) -> None:
    told = {'hostname': 'n1', 'gpus': [], 'jobs': listed}
    state = HostState('0', 'n1').reported(parse_report(json.dumps(told).encode()), NOW)
    json.dumps(host_as_json(state), allow_nan=False).encode()


def test_moments_are_by_the_clock_of_who_shows_them() -> None:
    report = HostReport('n1', 'gpu-tracker', (), age=1.0, time=NOW - 3601, jobs=(JOB,))
    (job,) = HostState('0', 'n1').reported(report, NOW).report.jobs
    assert (job.started, job.updated) == (JOB.started + 3600, JOB.updated + 3600)


def test_jobs_are_those_of_now_where_the_driver_hangs() -> None:
    first = HostState('0', 'n1').reported(HostReport('n1', 'gpu-tracker', (), jobs=(JOB,)), NOW)
    stale = first.reported(HostReport('n1', 'gpu-tracker', None, 'it hangs', jobs=(), jobs_problem='so do they'), NOW)
    assert (first.state, stale.state) == (UP, STALE)
    assert (stale.report.gpus, stale.report.jobs, stale.report.jobs_problem) == ((), (), 'so do they')
    told = host_as_json(stale)
    assert (told['jobs'], told['jobs_problem']) == ([], 'so do they')


@pytest.mark.parametrize('answers', [True, False])
def test_the_agent_has_the_jobs_whether_its_driver_answers_or_not(answers: bool) -> None:
    machine = PolledMachine([gpu(0)], answers=answers)
    watch = Watch(machine, 0.001)
    seen = [JobsSeen((rank(0), rank(1)), None)]
    host = LocalHost(watch, '6.0.0', jobs=lambda: seen[0])
    if answers:
        watch.start()
        assert watch.wait_for_first(30)
        watch.stop()
    assert (host.body()['jobs'], host.body()['jobs_problem']) == ([JOB._asdict()], None)
    assert (host.state().report.jobs, host_as_json(host.state())['jobs']) == ((JOB,), [JOB._asdict()])
    seen[0] = JobsSeen((), 'it hangs')
    assert (host.state().report.jobs, host.state().report.jobs_problem) == ((), 'it hangs')
