"""The recipes for batch scripts of Slurm, submitted to a real one as they stand there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.engines.job_folder import merged, states
from support.engines.recipe import RANK, RECIPES, search_path

if TYPE_CHECKING:
    from pathlib import Path

    from support.engines.slurm_cluster import SlurmCluster

MEBIBYTE = 2**20


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch):
    """Have gpu-tracker on the PATH that sbatch hands on to the job."""
    monkeypatch.setenv('PATH', search_path())


def test_a_job_has_one_report(slurm: SlurmCluster, tmp_path: Path):
    job = _submit(slurm, 'sbatch_plain.sh', RANK, tmp_path)
    report = merged(slurm, tmp_path / 'results' / job)
    assert (report['jobs'], report['ranks_expected'], states(report)) == ([job], 4, {'ended': 4})
    assert [(node['node'], node['asked_ram']) for node in report['nodes']] == [
        ('n1', 300 * MEBIBYTE),
        ('n2', 300 * MEBIBYTE),
    ]
    text = (tmp_path / 'results' / job / 'report.txt').read_text()
    assert text.startswith(f'Job         {job} (slurm)\nRanks       4 of 4 on 2 nodes: 4 ended\n')


def test_the_exit_code_of_a_job_is_that_of_its_ranks(slurm: SlurmCluster, tmp_path: Path):
    program = RANK + "import sys\nsys.exit(os.environ['SLURM_PROCID'] == '3' and 7)"
    job = _submit(slurm, 'sbatch_plain.sh', program, tmp_path)
    assert slurm.asked('scontrol', 'show', 'job', job).count('ExitCode=7:0') == 1
    assert '3 ended, 1 failed\n' in (tmp_path / 'results' / job / 'report.txt').read_text()


def test_an_array_has_one_report(slurm: SlurmCluster, tmp_path: Path):
    program = RANK + 'import pathlib, sys\npathlib.Path(f"task-{sys.argv[1]}").touch()'
    job = _submit(slurm, 'sbatch_array.sh', program, tmp_path)
    report = merged(slurm, tmp_path / 'results' / job)
    assert [(rank['array_task'], rank['state']) for rank in report['ranks']] == [
        (1, 'ended'),
        (2, 'ended'),
        (3, 'ended'),
    ]
    assert (report['jobs'], report['never_started'], report['problems']) == ([job], [], [])
    assert sorted(path.name for path in tmp_path.glob('task-*')) == ['task-1', 'task-2', 'task-3']


def test_the_components_of_a_heterogeneous_job_have_one_report(slurm: SlurmCluster, tmp_path: Path):
    job = _submit(slurm, 'sbatch_heterogeneous.sh', RANK, tmp_path)
    report = merged(slurm, tmp_path / 'results' / job)
    assert (report['jobs'], report['ranks_expected'], states(report)) == ([job], 3, {'ended': 3})
    assert [(node['node'], node['ranks'], node['asked_ram']) for node in report['nodes']] == [
        ('n1', 1, None),
        ('n2', 2, None),
    ]


def _submit(slurm: SlurmCluster, recipe: str, program: str, folder: Path) -> str:
    """Submit a recipe whose ranks run a program in Python, wait until it has ended, and return the ID of the job."""
    words = ['sbatch', '--parsable', str(RECIPES / recipe), 'python', '-c', program]
    finished = slurm.run(*words, folder=folder)
    assert finished.returncode == 0, finished.stderr
    job = finished.stdout.strip()
    slurm.wait(job)
    return job
