"""Jobs of a real Slurm: one merged report of all ranks, with nodes, an array's tasks and what the job asked for."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING

import pytest

from support.engines.job_folder import by_rank, merged, states, tracked

if TYPE_CHECKING:
    from pathlib import Path

    from support.engines.slurm_cluster import SlurmCluster

MEBIBYTE = 2**20


def test_four_ranks_on_two_nodes_give_one_report(slurm: SlurmCluster, tmp_path: Path):
    finished = slurm.run(
        'srun', '-N2', '-n4', '--ntasks-per-node=2', *tracked('burn(0.2)', '--job=job'), folder=tmp_path
    )
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, '', '')
    report = merged(slurm, tmp_path / 'job')
    assert report['launchers'] == ['slurm']
    assert (report['ranks_expected'], report['ranks_started'], report['never_started']) == (4, 4, [])
    assert states(report) == {'ended': 4}
    assert not report['is_running']
    assert [(node['node'], node['ranks']) for node in report['nodes']] == [('n1', 2), ('n2', 2)]
    assert by_rank(report, 'node') == {0: 'n1', 1: 'n1', 2: 'n2', 3: 'n2'}
    assert by_rank(report, 'exit_code') == dict.fromkeys(range(4), 0)
    assert min(by_rank(report, 'cpu_seconds').values()) >= 0.2
    assert abs(report['cpu_seconds'] - sum(by_rank(report, 'cpu_seconds').values())) < 0.001
    assert report['problems'] == []


def test_the_slowest_rank_is_named(slurm: SlurmCluster, tmp_path: Path):
    slurm.run('srun', '-n2', *tracked("burn(0.6 if rank == '1' else 0.1)", '--job=job'), folder=tmp_path)
    report = merged(slurm, tmp_path / 'job')
    (imbalance,) = [row for row in report['imbalance'] if row['figure'] == 'cpu_seconds']
    assert imbalance['rank'] == '1'
    assert 1.2 < imbalance['ratio'] < 2


def test_tasks_of_an_array_are_told_apart(slurm: SlurmCluster, tmp_path: Path):
    script = shlex.join(tracked('', '--job=job'))
    job = slurm.submit(tmp_path, script, '--array=1-3')
    slurm.wait(job)
    report = merged(slurm, tmp_path / 'job')
    assert report['jobs'] == [job]
    assert sorted((rank['array_task'], rank['rank'], rank['step']) for rank in report['ranks']) == [
        (1, 0, 'batch'),
        (2, 0, 'batch'),
        (3, 0, 'batch'),
    ]
    assert states(report) == {'ended': 3}
    assert (report['restarted'], report['never_started'], report['problems']) == ([], [], [])


def test_steps_of_one_script_are_told_apart(slurm: SlurmCluster, tmp_path: Path):
    script = shlex.join(['srun', *tracked('', '--job=job')])
    job = slurm.submit(tmp_path, f'{script}\n{script}', '--ntasks=2')
    slurm.wait(job)
    report = merged(slurm, tmp_path / 'job')
    assert sorted((rank['step'], rank['rank']) for rank in report['ranks']) == [('0', 0), ('0', 1), ('1', 0), ('1', 1)]
    assert (report['ranks_expected'], report['ranks_started'], report['restarted']) == (4, 4, [])


def test_a_script_that_was_submitted_inside_a_step_is_no_rank_of_that_step(slurm: SlurmCluster, tmp_path: Path):
    inner = tmp_path / 'inner.sh'
    words = tracked('there("there-" + rank)', '--job=job')
    inner.write_text(f'#!/bin/sh\n{shlex.join(words)}\n{shlex.join(["srun", *words])}\n')
    submit = '[ $SLURM_PROCID = 1 ] || exec sbatch --parsable --ntasks=1 inner.sh'
    submitted = slurm.run('srun', '-n2', 'sh', '-c', submit, folder=tmp_path)
    slurm.wait(submitted.stdout.strip())
    report = merged(slurm, tmp_path / 'job')
    assert sorted((rank['step'], rank['rank']) for rank in report['ranks']) == [('0', 0), ('batch', 0)]
    assert (report['ranks_expected'], report['restarted'], report['never_started']) == (2, [], [])


def test_a_heterogeneous_job_is_one_job(slurm: SlurmCluster, tmp_path: Path):
    script = '\n'.join(
        [
            '#SBATCH --ntasks=1 --mem=100',
            '#SBATCH hetjob',
            '#SBATCH --ntasks=2 --mem=200',
            shlex.join(['srun', '--het-group=0,1', *tracked('', '--job=job')]),
        ]
    )
    job = slurm.submit(tmp_path, script)
    slurm.wait(job)
    report = merged(slurm, tmp_path / 'job')
    assert report['jobs'] == [job]
    assert by_rank(report, 'node') == {0: 'n1', 1: 'n2', 2: 'n2'}
    assert (report['ranks_expected'], report['never_started'], states(report)) == (3, [], {'ended': 3})
    assert [(node['node'], node['asked_ram']) for node in report['nodes']] == [('n1', None), ('n2', None)]


def test_what_the_job_asked_for_stands_beside_what_it_used(slurm: SlurmCluster, tmp_path: Path):
    program = 'memory = bytearray(os.urandom(1024)) * 50_000\nburn(0.2)'
    script = shlex.join(['srun', *tracked(program, '--job=job', '--st=0.1')])
    begun = time.monotonic()
    job = slurm.submit(tmp_path, script, '--nodes=2', '--ntasks=2', '--cpus-per-task=2', '--mem=300', '--gres=gpu:1')
    slurm.wait(job)
    passed = time.monotonic() - begun
    report = merged(slurm, tmp_path / 'job')
    assert [(node['node'], node['asked_ram']) for node in report['nodes']] == [
        ('n1', 300 * MEBIBYTE),
        ('n2', 300 * MEBIBYTE),
    ]
    for node in report['nodes']:
        assert 51_200_000 < node['max_ram']['value'] < 90_000_000
    seconds = sum(by_rank(report, 'seconds').values())
    assert seconds <= report['gpu_seconds_allotted'] < 2 * passed
    assert report['cpu_seconds_allotted'] == pytest.approx(2 * report['gpu_seconds_allotted'])


def test_memory_asked_for_per_core_is_that_of_the_node(slurm: SlurmCluster, tmp_path: Path):
    script = shlex.join(['srun', *tracked('', '--job=job')])
    job = slurm.submit(tmp_path, script, '--ntasks=3', '--nodes=1', '--mem-per-cpu=50')
    slurm.wait(job)
    assert [node['asked_ram'] for node in merged(slurm, tmp_path / 'job')['nodes']] == [150 * MEBIBYTE]


def test_a_rank_that_never_starts_is_named(slurm: SlurmCluster, tmp_path: Path):
    skipping = 'if [ "$SLURM_PROCID" != 1 ]; then exec "$@"; fi'
    words = ['sh', '-c', skipping, 'sh', *tracked('', '--job=job')]
    assert slurm.run('srun', '-n3', *words, folder=tmp_path).returncode == 0
    report = merged(slurm, tmp_path / 'job')
    assert (report['ranks_expected'], report['ranks_started'], report['never_started']) == (3, 2, ['1'])


def test_one_file_for_all_ranks_is_refused_before_the_command_starts(slurm: SlurmCluster, tmp_path: Path):
    words = tracked('there(rank)', '--output=out.json', '--format=json')
    finished = slurm.run('srun', '-N2', '-n4', *words, folder=tmp_path)
    assert finished.returncode == 125
    assert 'out-{rank}.json' in finished.stderr
    assert '--job=' in finished.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_for_each_rank(slurm: SlurmCluster, tmp_path: Path):
    words = tracked('', '--output=out-{rank}.json', '--format=json')
    assert slurm.run('srun', '-N2', '-n4', *words, folder=tmp_path).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [f'out-{rank}.json' for rank in range(4)]


def test_paths_have_the_job_and_the_node(slurm: SlurmCluster, tmp_path: Path):
    words = tracked("there('job-' + os.environ['SLURM_JOB_ID'])", '--output={job}-{node}-{rank}.txt')
    assert slurm.run('srun', '-N2', '-n2', *words, folder=tmp_path).returncode == 0
    (job,) = (path.name.removeprefix('job-') for path in tmp_path.glob('job-*'))
    assert sorted(path.name for path in tmp_path.glob('*.txt')) == [f'{job}-n1-0.txt', f'{job}-n2-1.txt']
