"""Ranks of a job as real processes, their folder, and the one report of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import gpu_tracker as gput
from support.cli_program import called, gpu_tracker, started, text_of
from support.running_ranks import reported_ram
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

MEGABYTE = 10**6
ALLOCATE = 'import sys; block = bytearray({megabytes} * 10**6); sys.stdin.read()'


def rank_variables(rank: int, size: int = 4, **more: str) -> dict[str, str]:
    own = {'GPU_TRACKER_JOB': '4711', 'GPU_TRACKER_RANK': str(rank), 'GPU_TRACKER_SIZE': str(size)}
    return os.environ | own | more


def run_rank(folder: Path, rank: int, code: str, ram: int = 0) -> None:
    """Run a rank, which ends by itself or with its standard input, when its report has more RAM."""
    words = ['--st=0.05', f'--job={folder}', '--', sys.executable, '-c', code]
    with started(*words, env=rank_variables(rank), stdin=subprocess.PIPE) as run:
        if ram:
            eventually(lambda: reported_ram(folder, rank) > ram)
        assert run.communicate() == ('', ''), 'the folder has the report'


def merged(folder: Path) -> dict[str, Any]:
    finished = called('merge', str(folder), '-f', 'json')
    assert finished.returncode == 0, finished.stderr
    report: dict[str, Any] = json.loads(finished.stdout)
    return report


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a job of four ranks: one was killed, and one never began."""
    found = tmp_path_factory.mktemp('job')
    for rank, megabytes in enumerate((20, 60)):
        run_rank(found, rank, ALLOCATE.format(megabytes=megabytes), megabytes * MEGABYTE)
    run_rank(found, 2, 'import os, signal; os.kill(os.getpid(), signal.SIGKILL)')
    return found


def test_one_report_of_all_ranks(folder: Path) -> None:
    report = merged(folder)
    assert (report['jobs'], report['ranks_expected'], report['never_started']) == (['4711'], 4, ['3'])
    assert {state: count for state, count in report['states'].items() if count} == {'ended': 2, 'killed': 1}
    ends = [(rank['label'], rank['exit_code'], rank['signal']) for rank in report['ranks']]
    assert ends == [('0', 0, None), ('1', 0, None), ('2', -9, 'SIGKILL')]
    small, large, _ = (rank['max_ram']['value'] for rank in report['ranks'])
    assert large - small == pytest.approx(40 * MEGABYTE, abs=2 * MEGABYTE)
    assert report['max_ram_of_node']['value'] == large, 'they ran one after the other'
    assert report['problems'] == []


def test_all_samples_are_one_dataset(folder: Path, tmp_path: Path) -> None:
    dataset = tmp_path / 'samples'
    finished = called('merge', str(folder), '-f', 'parquet', '-o', str(dataset))
    assert finished.stderr == f'3 recordings written to {dataset}\n'
    rows = duckdb.sql(
        f"SELECT rank, job, max(combined_total_rss) FROM read_parquet('{dataset}/**/*.parquet', "
        'hive_partitioning = true, union_by_name = true) WHERE rank < 2 GROUP BY ALL ORDER BY rank'
    ).fetchall()
    assert [row[:2] for row in rows] == [(0, 4711), (1, 4711)]
    assert rows[1][2] > 60 * MEGABYTE


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['--job=job', '--tf={rank}.db'], '--job and --tf do not go together: with --job the recording is in its'),
        (['--job=file'], "--job must be the path of a folder (file is not a folder), not 'file'"),
        (['--job='], "--job must be the path of a folder that exists or can be made, not ''"),
        (['-o', 'x.json'], "not 'x.json'. For one report of all processes, use --job=FOLDER"),
        (['--tf=x.db'], '--tf must be a path with {rank} or {pid} in it, such as x-{rank}.db'),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_the_command_starts(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / 'file').touch()
    finished = called(*arguments, '--', 'touch', 'started', env=rank_variables(1), cwd=tmp_path)
    assert finished.returncode == 125
    assert message in finished.stderr.replace(f'{tmp_path}/', '')
    assert not (tmp_path / 'started').exists()


def test_each_rank_has_a_file_of_its_own(tmp_path: Path) -> None:
    words = ['-o', 'usage-{job}-{rank}.json', '-f', 'json', '--tf=run-{rank}.db', '--', 'true']
    assert gpu_tracker(*words, env=rank_variables(1), cwd=tmp_path).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ['run-1.db', 'usage-4711-1.json']
    assert json.loads((tmp_path / 'usage-4711-1.json').read_text())['job']['rank'] == 1
    with gput.load(tmp_path / 'run-1.db') as recording:
        assert recording.meta.job is not None
        assert (recording.meta.job.rank, recording.meta.job.size) == (1, 4)


def test_a_file_that_another_gpu_tracker_writes_is_refused_while_that_runs(tmp_path: Path) -> None:
    path, running = tmp_path / 'usage.json', tmp_path / 'running'
    words = ['-f', 'json', '-o', str(path), '--']
    with started(*words, 'sh', '-c', f'echo $$ > {running}; exec sleep 600') as first:
        program = int(eventually(lambda: text_of(running).endswith('\n') and text_of(running)))
        second = called(*words, 'true')
        assert second.returncode == 125
        assert 'another gpu-tracker that is running writes it; put {rank} or {pid} into the path' in second.stderr
        first.kill()
        first.wait()
    os.kill(program, signal.SIGKILL)
    assert gpu_tracker(*words, 'true').returncode == 0
    assert 'max_ram' in json.loads(path.read_text())


def test_what_cannot_be_written_into_the_folder_is_printed(tmp_path: Path) -> None:
    folder = tmp_path / 'job'
    words = ['-f', 'json', f'--job={folder}', '--', 'rm', '-r', str(folder)]
    finished = gpu_tracker(*words, env=rank_variables(0))
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)['job']['rank'] == 0
    assert f'The record of this rank could not be written to {folder}/rank-0000-' in finished.stderr


def test_a_program_tracks_itself_into_the_folder(tmp_path: Path) -> None:
    program = (
        'import os, sys, gpu_tracker as gput\n'
        'for rank in range(2):\n'
        '    if os.fork() == 0:\n'
        '        place = gput.JobIdentity(launcher="by hand", job="j", rank=rank, size=2)\n'
        '        with gput.Tracker(job_folder=sys.argv[1], job=place, sleep_time=0.05) as tracker:\n'
        '            with gput.region("work"):\n'
        '                sum(range(10**6))\n'
        '        assert tracker.resource_usage.job == place\n'
        '        assert [region.name for region in tracker.regions] == ["work"]\n'
        '        os._exit(0)\n'
        'for _ in range(2): assert os.wait()[1] == 0\n'
    )
    subprocess.run([sys.executable, '-c', program, str(tmp_path / 'job')], check=True)
    job = gput.load_job(tmp_path / 'job')
    assert (job.jobs, job.ranks_expected, job.states['ended']) == (('j',), 2, 2)
    assert [(region.path, region.ranks, region.calls) for region in job.regions] == [(('work',), 2, 2)]
    assert str(job).startswith('Job         j (by hand)\n')


def test_a_running_process_can_be_a_rank(tmp_path: Path) -> None:
    until_sampled = 'until [ "$(ls "$1"/*.json 2>/dev/null | wc -l)" -ge 2 ]; do sleep 0.05; done'
    words = ['sh', '-c', until_sampled, 'sh', str(tmp_path / 'job')]
    with subprocess.Popen(words, env=rank_variables(3)) as program:
        finished = gpu_tracker(f'--pid={program.pid}', f'--job={tmp_path / "job"}', '--st=0.05')
    assert (finished.returncode, finished.stdout) == (0, '')
    (rank,) = merged(tmp_path / 'job')['ranks']
    assert (rank['rank'], rank['job'], rank['state']) == (3, '4711', 'ended')
