"""The library's way into a job: trackers that are told which rank they are, in processes that end in every way."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

import gpu_tracker as gput
from support.tracked_program import Samplers, answer, run, run_words, start
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

MEGABYTE = 10**6
RANKS = """
import os, signal, sys, time
import gpu_tracker as gput
folder = sys.argv[1]

def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

def be_rank(rank):
    place = gput.JobIdentity(launcher='by hand', job='j', rank=rank, size=5, node=f'n{rank % 2}')
    with gput.Tracker(job_folder=folder, job=place, sleep_time=0.05, disable_logs=True) as tracker:
        block = bytearray(b'x') * (rank * 20 * 10**6)
        for step in range(2):
            with gput.region('step'):
                work(0.05 if step == rank % 2 else 0.15)
        if rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == 3:
            os._exit(5)
        if rank == 1:
            raise KeyError('rank 1')

pids = []
for rank in range(4):
    pids.append(os.fork())
    if pids[-1] == 0:
        sys.stderr = open(os.devnull, 'w')
        try:
            be_rank(rank)
        except KeyError:
            os._exit(1)
        os._exit(0)
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids])
"""


_LOST = ('rank 2', 'rank 3', 'rank 2, rank 3')


def reports(folder: Path) -> list[dict[str, Any]]:
    """Return the reports in a folder, without start records, in the order of their names."""
    names = sorted(path for path in folder.glob('*.json') if not path.name.endswith('.start.json'))
    return [json.loads(path.read_text()) for path in names]


@pytest.mark.figures
def test_forked_processes_are_ranks_however_they_end(tmp_path: Path) -> None:
    folder = tmp_path / 'job'
    assert run(RANKS, folder).stdout == '[0, 1, -9, 5]\n'
    eventually(lambda: sum(one['ended'] == 'abandoned' for one in reports(folder)) == 2)
    job = gput.load_job(folder)
    assert {state: count for state, count in job.states.items() if count} == {'ended': 2, 'lost': 2}
    assert [(rank.rank, rank.state, rank.exit_code, rank.node) for rank in job.ranks] == [
        (0, 'ended', None, 'n0'), (1, 'ended', None, 'n1'), (2, 'lost', None, 'n0'), (3, 'lost', None, 'n1'),
    ]  # fmt: skip
    assert (job.never_started, job.ranks_expected, job.is_running) == (('4',), 5, False)
    lost, *others = job.problems
    assert lost == 'Nobody has seen the end of rank 2, rank 3: figures are up to the last report.'
    # Their parent waits for those that are killed, so their last moments may be unseen, of either or both.
    bounds = [f'CPU time of {ranks} is a lower bound.' for ranks in _LOST]
    assert set(others) <= set(bounds)
    base, *larger = (rank.max_ram.value for rank in job.ranks)
    assert [one - base for one in larger] == [pytest.approx(20 * n * MEGABYTE, abs=2 * MEGABYTE) for n in (1, 2, 3)]
    assert all(0.19 < (rank.cpu_seconds or 0) < 1.5 for rank in job.ranks[:2])
    assert all(0.1 < (rank.cpu_seconds or 0) < 1.5 for rank in job.ranks[2:])
    (step,) = job.regions
    assert (step.path, step.ranks, step.calls, step.is_by_call) == (('step',), 4, 8, True)
    assert step.waiting_share is not None
    assert step.waiting_share > 0.1, 'each call is long in two of the ranks'


def test_what_a_tracker_says_of_its_place_is_in_all_that_it_writes(tmp_path: Path) -> None:
    place = gput.JobIdentity(launcher='dask', job='a/b', rank=12, node='worker-1', attempt=3)
    with gput.Tracker(job_folder=tmp_path / '{job}', job=place) as tracker:
        pass
    assert tracker.resource_usage.job == place
    assert tracker.to_json()['job']['rank'] == 12
    (folder,) = tmp_path.iterdir()
    assert folder.name == 'a_b'
    (report,) = reports(folder)
    assert (report['job']['job'], report['job']['node'], report['pid']) == ('a/b', 'worker-1', os.getpid())
    assert (report['ended'], report['exit_code']) == ('stopped', None)
    (file,) = folder.glob('*.db')
    assert file.name.startswith('rank-0012-worker-1-')
    assert report['recording'] == file.name
    with gput.load(file) as recording:
        assert recording.meta.job == place
    job = gput.load_job(folder)
    assert (job.jobs, job.launchers, job.ranks[0].attempt) == (('a/b',), ('dask',), 3)
    assert pickle.loads(pickle.dumps(job)) == job
    assert str(job).startswith('Job         a/b (dask)\nRanks       1 on 1 node: 1 ended\n')
    assert job._repr_html_().startswith('<')


def test_the_environment_says_it_where_nothing_else_does(tmp_path: Path) -> None:
    program = (
        'import os, sys, gpu_tracker as gput\n'
        'for job in (None, gput.JobIdentity(launcher="mine")):\n'
        '    with gput.Tracker(job_folder=sys.argv[1], job=job) as tracker: pass\n'
        '    print(tracker.resource_usage.job.launcher, tracker.resource_usage.job.rank)\n'
    )
    variables = {'OMPI_COMM_WORLD_RANK': '2', 'OMPI_COMM_WORLD_SIZE': '4', 'PMIX_HOSTNAME': 'n1'}
    found = run_words([sys.executable, '-c', program, str(tmp_path / 'job')], env=os.environ | variables)
    assert found.stdout == 'openmpi 2\nmine None\n'
    job = gput.load_job(tmp_path / 'job')
    assert [rank.rank for rank in job.ranks] == [None, 2]
    assert (job.ranks_expected, job.never_started) == (4, ()), 'the one without a rank may be any of them'


def test_without_a_launcher_it_is_a_process_and_twice_the_same(tmp_path: Path) -> None:
    for _ in range(2):
        with gput.Tracker(job_folder=tmp_path / 'job'):
            pass
    job = gput.load_job(tmp_path / 'job')
    name = f'process {os.getpid()} on {os.uname().nodename}'
    assert [rank.label for rank in job.ranks] == [name, name]
    assert (job.ranks_started, job.ranks_expected, job.jobs, job.launchers) == (1, None, (), ())
    assert all(path.name.startswith('process-') for path in (tmp_path / 'job').iterdir())


def test_while_it_runs_it_is_running_and_then_it_is_not(tmp_path: Path) -> None:
    place = gput.JobIdentity(launcher='x', rank=0, size=2)
    tracker = gput.Tracker(job_folder=tmp_path / 'job', job=place, sleep_time=1000)  # without a report meanwhile
    assert not (tmp_path / 'job').exists(), 'nothing is written before the start'
    tracker.start()
    job = gput.load_job(tmp_path / 'job')
    assert (job.is_running, job.states['running'], job.cpu_seconds, job.regions) == (True, 1, None, ())
    tracker.stop()
    job = gput.load_job(str(tmp_path / 'job'))
    assert (job.is_running, job.states['ended']) == (False, 1)
    assert job.cpu_seconds is not None


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'job_folder': ''}, "job_folder must be the path of a folder that exists or can be made, not ''"),
        ({'job_folder': 3}, 'job_folder must be the path of a folder that exists or can be made, not 3'),
        ({'job_folder': 'file'}, "job_folder must be the path of a folder (FOLDER/file is not a folder), not 'file'"),
        (
            {'job_folder': 'file/x'},
            "job_folder must be the path of a folder (FOLDER/file is not a folder), not 'file/x'",
        ),
        (
            {'job_folder': 'x', 'tracking_file': 'run.db'},
            "job_folder must be left out if tracking_file is given, not 'x'",
        ),
        (
            {'job_folder': '{rank}'},
            (
                'job_folder must be a path without {rank}, since no job launcher started this '
                'process: use {node} or {pid}, '
                "not '{rank}'"
            ),
        ),
        ({'per_process': True}, 'per_process must be False if no recording is written, not True'),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'file').touch()
    with pytest.raises(ValueError, match='must be') as refused:
        gput.Tracker(**options)
    assert str(refused.value).replace(str(tmp_path), 'FOLDER') == message
    assert [path.name for path in tmp_path.iterdir()] == ['file']


def test_a_folder_with_all_processes_has_them_in_its_recordings(tmp_path: Path) -> None:
    with gput.Tracker(job_folder=tmp_path, per_process=True, sections=['io']) as tracker:
        run('print(sum(range(10**6)))')
    assert tracker.resource_usage.io is not None
    (file,) = tmp_path.glob('*.db')
    with gput.load(file) as recording:
        assert os.getpid() in [process.pid for process in recording.processes]
    assert gput.load_job(tmp_path).read is not None


def test_a_folder_that_was_removed_meanwhile_costs_no_result(tmp_path: Path) -> None:
    program = (
        'import json, shutil, sys, warnings, gpu_tracker as gput\n'
        'with gput.Tracker(job_folder=sys.argv[1]) as tracker:\n'
        '    shutil.rmtree(sys.argv[1])\n'
        'print(json.dumps(tracker.resource_usage.max_ram.main.total_rss > 0))\n'
    )
    finished = run(program, tmp_path / 'job')
    assert json.loads(finished.stdout) is True
    assert 'The record of this rank could not be written to ' in finished.stderr
    assert finished.stderr.count('No such file or directory') >= 1
    assert 'Traceback' not in finished.stderr


def test_a_relative_folder_is_where_the_tracker_was_made(tmp_path: Path) -> None:
    program = (
        'import json, os, gpu_tracker as gput\n'
        'tracker = gput.Tracker(job_folder="job")\n'
        'os.chdir("elsewhere")\n'
        'tracker.start(); tracker.stop()\n'
        'print(json.dumps([os.listdir("."), sorted(os.listdir(".."))]))\n'
    )
    (tmp_path / 'elsewhere').mkdir()
    assert answer(program, cwd=tmp_path) == [[], ['elsewhere', 'job']]
    assert gput.load_job(tmp_path / 'job').states['ended'] == 1


def test_a_tracker_whose_sampler_is_killed_leaves_what_it_had(tmp_path: Path) -> None:
    samplers = Samplers()
    program = (
        'import sys, time, gpu_tracker as gput\n'
        'place = gput.JobIdentity(launcher="x", rank=0)\n'
        'block = bytearray(b"x") * (30 * 10**6)\n'
        'with gput.Tracker(job_folder=sys.argv[1], job=place, sleep_time=0.05, disable_logs=True):\n'
        '    print("ready", flush=True)\n'
        '    sys.stdin.read()\n'
    )
    with start(program, tmp_path / 'job', env=samplers.environment, stdin=-1) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        eventually(lambda: any(one['totals'] for one in reports(tmp_path / 'job')))
        os.kill(samplers.only(), signal.SIGKILL)
        samplers.none_left()
        process.stdin.close()
        assert process.wait() == 0
    job = gput.load_job(tmp_path / 'job')
    assert (job.states['ended'], job.problems) == (1, ('CPU time of rank 0 is a lower bound.',))
    assert (job.ranks[0].max_ram.value or 0) > 30 * MEGABYTE
    assert job.ranks[0].recording is not None
    assert job.ranks[0].recording.endswith('.partial.db')
