"""The task prolog and epilogs in ``deploy/slurm``, by which a Slurm tracks every job without its user's doing."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.engines.job_folder import GPU_TRACKER, RANK_PROGRAM, merged, states
from support.engines.slurm_cluster import SlurmCluster
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

_SCRIPTS = Path(__file__).parents[2] / 'deploy' / 'slurm'
_HOOKS = {'TaskProlog': 'task-prolog.sh', 'TaskEpilog': 'task-epilog.sh', 'Epilog': 'epilog.sh'}
_MEMORY = "memory = os.urandom(1024) * 50_000\nthere('of-' + rank)\nwait_for('end')"
"""A rank with 51 MB, whose tracker has the time to begin."""


class TrackingCluster:
    """A cluster whose administrator has set up the recipe.

    :ivar slurm: The cluster.
    :ivar jobs: The folder with the folders of all jobs.
    """

    def __init__(self, folder: Path) -> None:
        program = folder / 'gpu-tracker'
        program.write_text(f'#!/bin/sh\nexec {shlex.join(GPU_TRACKER)} "$@"\n')
        program.chmod(0o755)
        self.jobs = folder / 'jobs'
        self.jobs.mkdir()
        self.jobs.chmod(0o1777)
        settings = {name: self._adapted(folder, script, program) for name, script in _HOOKS.items()}
        (folder / 'slurm').mkdir()
        self.slurm = SlurmCluster(folder / 'slurm', settings)

    def _adapted(self, folder: Path, script: str, program: Path) -> Path:
        """Return the path of a copy of a script in which the two lines for the administrator are set."""
        copy = folder / script
        shutil.copy(_SCRIPTS / script, copy)
        text = copy.read_text(encoding='ascii')
        for line, value in (
            ('GPU_TRACKER=/usr/local/bin/gpu-tracker', program),
            ('FOLDER=/scratch/gpu-tracker', self.jobs),
        ):
            assert text.count(f'\n{line}\n') == 1
            text = text.replace(line, f'{line.partition("=")[0]}={shlex.quote(str(value))}')
        copy.write_text(text)
        return copy

    def tracked_ranks(self, job: str) -> int:
        """Return how many of a job's ranks have a report with figures by now."""
        reports = [path for path in (self.jobs / job).glob('*.json') if not path.name.endswith('.start.json')]
        return sum(json.loads(path.read_text())['totals'] is not None for path in reports)

    def summary(self, job: str) -> str:
        """Return the summary of a job as soon as it is there."""
        path = self.jobs / job / 'summary.txt'
        return eventually(lambda: path.exists() and path.read_text())

    def comment(self, job: str) -> str:
        """Return the comment of a job."""
        lines = self.slurm.asked('scontrol', 'show', 'job', job).splitlines()
        return next((line.strip().removeprefix('Comment=') for line in lines if 'Comment=' in line), '')


@pytest.fixture(scope='module')
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrackingCluster]:
    """Give a cluster that tracks all jobs."""
    made = TrackingCluster(tmp_path_factory.mktemp('recipe'))
    with made.slurm:
        yield made


def test_a_batch_job_is_tracked_and_says_so_in_its_comment(cluster: TrackingCluster, tmp_path: Path):
    script = shlex.join(['srun', sys.executable, '-c', RANK_PROGRAM + _MEMORY])
    job = cluster.slurm.submit(tmp_path, script, '--nodes=2', '--ntasks=4', '--mem=300')
    eventually(lambda: cluster.tracked_ranks(job) == 5)
    (tmp_path / 'end').touch()
    cluster.slurm.wait(job)
    report = merged(cluster.slurm, cluster.jobs / job)
    assert sorted((rank['step'], rank['rank']) for rank in report['ranks']) == [
        ('0', 0),
        ('0', 1),
        ('0', 2),
        ('0', 3),
        ('batch', 0),
    ]
    assert (report['ranks_expected'], states(report)) == (5, {'ended': 5})
    assert min(rank['max_ram']['value'] for rank in report['ranks'] if rank['step'] == '0') > 51_000_000
    comment = cluster.comment(job)
    assert comment.startswith('gpu-tracker: 5 of 5 on 2 nodes: 5 ended; CPU ')
    assert ' MB on the largest node; asked for 315 MB a node; the largest used ' in comment
    assert cluster.summary(job).startswith(f'Job         {job} (slurm)\nRanks       5 of 5 on 2 nodes: 5 ended\n')
    assert not [path.name for path in (cluster.jobs / job).iterdir() if path.suffix in {'.err', '.pid'}]
    assert not (cluster.jobs / job / 'errors.txt').exists()
    assert (cluster.jobs / job).stat().st_mode & 0o777 == 0o700


def test_a_job_without_a_script_has_a_summary_of_its_epilog(cluster: TrackingCluster, tmp_path: Path):
    program = f"there('job-' + os.environ['SLURM_JOB_ID'])\n{_MEMORY}"
    words = ('srun', '-N2', '-n2', sys.executable, '-c', RANK_PROGRAM + program)
    with cluster.slurm.start(*words, folder=tmp_path) as srun:
        path = eventually(lambda: next(tmp_path.glob('job-*'), None))
        job = path.name.removeprefix('job-')
        eventually(lambda: cluster.tracked_ranks(job) == 2)
        (tmp_path / 'end').touch()
        assert srun.wait() == 0
    assert cluster.summary(job).startswith(f'Job         {job} (slurm)\nRanks       2 of 2 on 2 nodes: 2 ended\n')


def test_a_cancelled_job_has_a_summary(cluster: TrackingCluster, tmp_path: Path):
    script = shlex.join(['srun', sys.executable, '-c', RANK_PROGRAM + _MEMORY])
    job = cluster.slurm.submit(tmp_path, script, '--ntasks=2')
    eventually(lambda: cluster.tracked_ranks(job) == 3)
    cluster.slurm.asked('scancel', job)
    cluster.slurm.wait(job)
    assert cluster.summary(job).startswith(f'Job         {job} (slurm)\nRanks       3 of 3 on 1 node: ')
    assert states(merged(cluster.slurm, cluster.jobs / job)) == {'ended': 3}  # whose exit codes are not gpu-tracker's


def test_a_script_that_was_submitted_inside_a_step_has_a_comment(cluster: TrackingCluster, tmp_path: Path):
    (tmp_path / 'inner.sh').write_text('#!/bin/sh\nsrun sh -c "until [ -e end ]; do sleep 0.05; done"\n')
    submitted = cluster.slurm.run('srun', 'sbatch', '--parsable', 'inner.sh', folder=tmp_path)
    job = submitted.stdout.strip()
    eventually(lambda: cluster.tracked_ranks(job) == 2)
    (tmp_path / 'end').touch()
    cluster.slurm.wait(job)
    assert cluster.comment(job).startswith('gpu-tracker: ')


def test_a_comment_of_the_user_stays(cluster: TrackingCluster, tmp_path: Path):
    job = cluster.slurm.submit(tmp_path, 'until [ -e end ]; do sleep 0.05; done', '--comment=mine')
    eventually(lambda: cluster.tracked_ranks(job) == 1)
    (tmp_path / 'end').touch()
    cluster.slurm.wait(job)
    assert cluster.comment(job) == 'mine'
    assert cluster.summary(job)


def test_a_job_runs_where_nothing_can_be_tracked(cluster: TrackingCluster, tmp_path: Path):
    hidden = cluster.jobs.rename(cluster.jobs.with_name('hidden'))
    try:
        job = cluster.slurm.submit(tmp_path, 'srun true && touch ran', '--ntasks=2')
        cluster.slurm.wait(job)
    finally:
        hidden.rename(cluster.jobs)
    assert (tmp_path / 'ran').exists()
    assert cluster.slurm.asked('sinfo', '--noheader', '--format=%T %D') == 'idle 2\n'  # no node was taken away


def test_nothing_is_written_into_a_folder_of_somebody_else(cluster: TrackingCluster, tmp_path: Path):
    last = cluster.slurm.submit(tmp_path, 'true')
    cluster.slurm.wait(last)
    job = str(int(last) + 1)
    folder = cluster.jobs / job
    folder.mkdir(mode=0o777)
    shutil.chown(folder, 65534, 65534)
    assert cluster.slurm.submit(tmp_path, 'srun true && touch ran', '--ntasks=2') == job
    cluster.slurm.wait(job)
    assert (tmp_path / 'ran').exists()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize('script', _HOOKS.values())
def test_a_script_is_one_of_the_standard_shell(script: str):
    assert (_SCRIPTS / script).stat().st_mode & 0o111 == 0o111
    subprocess.run(['sh', '-n', str(_SCRIPTS / script)], check=True)
