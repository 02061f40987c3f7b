"""How ranks of a real Slurm job end: by a signal, by that of gpu-tracker, by ``scancel`` and by a requeue."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import gpu_tracker
from support.engines.job_folder import GPU_TRACKER, by_rank, merged, states, tracked
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from support.engines.slurm_cluster import SlurmCluster


def test_a_rank_that_was_killed_is_named(slurm: SlurmCluster, tmp_path: Path):
    program = "burn(0.1)\nif rank == '2':\n    os.kill(os.getpid(), signal.SIGKILL)"
    finished = slurm.run('srun', '-N2', '-n4', *tracked(program, '--job=job'), folder=tmp_path)
    assert finished.returncode == 137
    report = merged(slurm, tmp_path / 'job')
    assert states(report) == {'ended': 3, 'killed': 1}
    assert by_rank(report, 'state') == {0: 'ended', 1: 'ended', 2: 'killed', 3: 'ended'}
    assert by_rank(report, 'signal')[2] == 'SIGKILL'
    assert by_rank(report, 'cpu_seconds')[2] >= 0.1


def test_a_rank_that_failed_is_named(slurm: SlurmCluster, tmp_path: Path):
    finished = slurm.run('srun', '-n2', *tracked("sys.exit(rank == '1' and 3)", '--job=job'), folder=tmp_path)
    assert finished.returncode == 3
    report = merged(slurm, tmp_path / 'job')
    assert by_rank(report, 'state') == {0: 'ended', 1: 'failed'}
    assert by_rank(report, 'exit_code') == {0: 0, 1: 3}


def test_figures_of_a_rank_whose_gpu_tracker_was_killed_are_there(slurm: SlurmCluster, tmp_path: Path):
    program = "burn(0.3)\nif rank == '1':\n    os.kill(os.getppid(), signal.SIGKILL)"
    slurm.run('srun', '-n2', *tracked(program, '--job=job', '--st=0.1'), folder=tmp_path)
    report = eventually(lambda: _settled(slurm, tmp_path / 'job'))
    assert by_rank(report, 'state') == {0: 'ended', 1: 'lost'}
    assert states(report) == {'ended': 1, 'lost': 1}
    assert by_rank(report, 'cpu_seconds')[1] > 0.2
    assert report['problems'] == ['Nobody has seen the end of rank 1: figures are up to the last report.']
    assert report['is_lower_bound']


def test_a_cancelled_job_has_all_its_reports(slurm: SlurmCluster, tmp_path: Path):
    program = 'burn(0.1)\nthere(rank)\nsignal.pause()'
    job = slurm.submit(tmp_path, shlex.join(['srun', *tracked(program, '--job=job')]), '--nodes=2', '--ntasks=4')
    eventually(lambda: all((tmp_path / str(rank)).exists() for rank in range(4)))
    running = merged(slurm, tmp_path / 'job')
    assert (running['is_running'], states(running)) == (True, {'running': 4})
    from_outside = gpu_tracker.load_job(tmp_path / 'job')  # where none of the processes is to be seen
    assert (from_outside.is_running, from_outside.states['running']) == (True, 4)
    slurm.asked('scancel', job)
    slurm.wait(job)
    report = merged(slurm, tmp_path / 'job')
    assert states(report) == {'killed': 4}
    assert by_rank(report, 'signal') == dict.fromkeys(range(4), 'SIGTERM')
    assert min(by_rank(report, 'cpu_seconds').values()) >= 0.1


# Slurm sends SIGTERM to each process of a cancelled job, once for its step and once for the job.
_UNDER_FIRE = """
(trap '' TERM; while kill -TERM $PPID 2>/dev/null; do :; done) &
kill -KILL $$
"""


def test_signals_after_the_end_of_the_command_leave_the_report(slurm: SlurmCluster, tmp_path: Path):
    words = [*GPU_TRACKER, '--job=job', '--', 'sh', '-c', _UNDER_FIRE]
    slurm.run('srun', '-n2', *words, folder=tmp_path)
    assert states(merged(slurm, tmp_path / 'job')) == {'killed': 2}


def test_a_requeued_job_has_an_attempt_for_each_run(slurm: SlurmCluster, tmp_path: Path):
    program = "if 'SLURM_RESTART_COUNT' not in os.environ:\n    there(rank)\n    signal.pause()"
    script = shlex.join(['srun', *tracked(program, '--job=job')])
    job = slurm.submit(tmp_path, script, '--requeue', '--ntasks=2')
    eventually(lambda: (tmp_path / '0').exists() and (tmp_path / '1').exists())
    slurm.requeue(job)
    slurm.wait(job)
    report = merged(slurm, tmp_path / 'job')
    assert sorted((rank['attempt'], rank['rank'], rank['state']) for rank in report['ranks']) == [
        (0, 0, 'killed'),
        (0, 1, 'killed'),
        (1, 0, 'ended'),
        (1, 1, 'ended'),
    ]
    assert report['jobs'] == [job]
    assert (report['ranks_expected'], report['ranks_started'], report['never_started']) == (2, 2, [])
    assert report['restarted'] == ['0', '1']


def _settled(slurm: SlurmCluster, folder: Path) -> dict | None:
    report = merged(slurm, folder)
    return None if report['is_running'] else report
