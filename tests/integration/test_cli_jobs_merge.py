"""``gpu-tracker merge``, ``show`` and ``report`` on folders of jobs: what they accept, refuse, print and cost."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import duckdb
import pytest

from support.cli_program import PROGRAM, called, gpu_tracker, shell
from support.job_folders import GIB, record, simulated_job, write
from support.recordings import busy_rows, region, write_recording

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a job of three ranks on two nodes, with recordings."""
    found = tmp_path_factory.mktemp('ranks') / 'job'
    for rank, node in enumerate(('n1', 'n1', 'n2')):
        exit_code = -9 if rank == 1 else 0
        write(found, f'rank-{rank}', record(rank, size=4, node=node, cpu=20.0 * (rank + 1), exit_code=exit_code))
        rows, steps = busy_rows(), [region(1, 'step', 1.0, 2.0 + rank)]
        write_recording(found / f'rank-{rank}.db', rows=rows, regions=steps)
    return found


TEXT = """\
Job         4711 (slurm)
Ranks       3 of 4 on 2 nodes: 2 ended, 1 killed
            never began: 3
            killed: 1 (SIGKILL)
Time        100 s from 2027-01-15 08:00:00 UTC
CPU         120 core-seconds of 800 allotted, 15 %
Peak RAM    1.07 GB seen, at most 2.15 GB on the largest node
            1.07 GB in the largest rank
Request     asked for 8.59 GB a node; the largest used 1.07 GB seen, at most 2.15 GB, at most 25 % of it
Imbalance   time: rank 0 has 100 s, 1.00 times the mean of 100 s
            CPU time: rank 2 has 60 s, 1.50 times the mean of 40 s
            peak RAM: rank 0 has 1.07 GB, 1.00 times the mean of 1.07 GB

Nodes
  Node  Ranks                       Peak RAM    asked  CPU time  of allotted  RAM of all       of
  n1        2  1.07 GB seen, at most 2.15 GB  8.59 GB      60 s         15 %     7.52 GB  68.7 GB
  n2        1                        1.07 GB  8.59 GB      60 s         15 %     7.52 GB  68.7 GB

Ranks
  Rank  Node   Time  CPU time  Cores  Peak RAM                End
  0       n1  100 s      20 s   0.20   1.07 GB               well
  1       n1  100 s      40 s   0.40   1.07 GB  killed by SIGKILL
  2       n2  100 s      60 s   0.60   1.07 GB               well

Regions
  Region  Ranks  Calls  Slowest  its time  Mean  Waiting
  step        3      3        2       3 s   2 s     33 %
"""

NOTHING = 'no rank of a job has written into'


def test_the_text(folder: Path) -> None:
    for call, words in (
        (gpu_tracker, ('merge', str(folder))),
        (called, ('show', str(folder))),
        (called, ('merge', '-f', 'text', '-o', '-', f'{folder}/')),
    ):
        finished = call(*words)
        assert (finished.returncode, finished.stderr) == (0, '')
        assert finished.stdout == TEXT
    for words in (('merge', str(folder), '-f', 'summary'), ('show', str(folder), '--format=summary')):
        assert called(*words).stdout == TEXT.partition('\n\n')[0] + '\n'


def test_json_has_all_of_it(folder: Path, tmp_path: Path) -> None:
    printed = called('merge', str(folder), '-f', 'json').stdout
    written = called('merge', str(folder), '-f', 'json', '-o', str(tmp_path / 'job.json'))
    assert (written.returncode, written.stdout, written.stderr) == (0, '', '')
    assert (tmp_path / 'job.json').read_text() == printed == called('show', str(folder), '-f', 'json').stdout
    report = json.loads(printed, parse_constant=pytest.fail)
    assert list(report) == [
        'jobs', 'launchers', 'is_running', 'is_lower_bound', 'started', 'ended', 'seconds', 'ranks_expected',
        'ranks_started', 'never_started', 'states', 'restarted', 'cpu_seconds', 'cpu_seconds_allotted', 'gpu_seconds',
        'gpu_seconds_allotted', 'gpu_joules', 'cpu_package_joules', 'read', 'written', 'max_ram_of_rank',
        'max_ram_of_node', 'asked_ram_of_node', 'nodes', 'gpus', 'ranks', 'imbalance', 'regions', 'oom_kills',
        'figures', 'lower_bounds', 'problems',
    ]  # fmt: skip
    assert list(report['ranks'][0]) == [
        'label', 'job', 'array_task', 'step', 'rank', 'attempt', 'node', 'state', 'exit_code', 'signal', 'started',
        'updated', 'seconds', 'cpu_seconds', 'max_ram', 'max_gpu_ram', 'gpu_utilization', 'read', 'written',
        'recording', 'figures', 'lower_bounds', 'termination_reason', 'exceeded_limits', 'own_group_memory_peak',
        'max_cores', 'batch_system', 'asked_cores', 'time_limit', 'swapped_out',
    ]  # fmt: skip
    assert list(report['nodes'][0]) == [
        'node', 'ranks', 'max_ram', 'cpu_seconds', 'cores', 'cpu_seconds_allotted', 'asked_ram', 'max_gpu_ram',
        'gpu_seconds', 'gpu_seconds_allotted', 'system_max_ram', 'system_ram_capacity',
    ]  # fmt: skip
    assert report['max_ram_of_node'] == {'value': GIB, 'lower': GIB, 'upper': 2 * GIB}
    assert (report['gpu_seconds'], report['read'], report['asked_ram_of_node']) == (0.0, None, 8 * GIB)
    assert report['regions'] == [
        {'path': ['step'], 'ranks': 3, 'calls': 3, 'slowest_rank': '2', 'max_seconds': 3.0, 'mean_seconds': 2.0,
         'waiting_share': pytest.approx(1 / 3), 'is_by_call': True},
    ]  # fmt: skip
    without = json.loads(called('merge', str(folder), '-f', 'json', '--no-recordings').stdout)
    assert without['max_ram_of_node'] == {'value': None, 'lower': GIB, 'upper': 2 * GIB}
    assert without['regions'] == []


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['merge'], '<folder> is missing. Usage:\n  gpu-tracker merge [options] <folder>...'),
        (['merge', 'JOB', '-f', 'xml'], "--format must be text, json, summary or parquet, not 'xml'"),
        (['merge', 'JOB', '-f', 'parquet'], '-f parquet needs --output=FOLDER for the dataset'),
        (['merge', 'JOB', '-f', 'parquet', '-o', 'JOB'], 'JOB exists already: choose a new folder for the dataset'),
        (['merge', 'JOB', '--recordings', '--no-recordings'], '--recordings and --no-recordings do not go together'),
        (['merge', 'nowhere'], 'cannot read nowhere: No such file or directory'),
        (['merge', 'JOB', 'nowhere'], 'cannot read nowhere: No such file or directory'),
        (['merge', 'file'], 'cannot read file: Not a directory'),
        (['merge', 'empty'], f'{NOTHING} empty: run the ranks with gpu-tracker --job=FOLDER'),
        (['merge', 'wrong'], f'{NOTHING} wrong (x.json is left out: it is not the result of a rank)'),
        (['show', 'empty'], f'{NOTHING} empty: run the ranks with gpu-tracker --job=FOLDER'),
        (['report', 'empty'], f'{NOTHING} empty: run the ranks with gpu-tracker --job=FOLDER'),
        (['show', 'JOB', '-f', 'parquet'], "--format must be text, json or summary, not 'parquet'"),
        (['merge', 'JOB', '-o', 'no/x'], '--output must be a path that can be written (there is no folder '),
        (['merge', 'JOB', '-o', 'empty'], "--output must be a path that can be written (Is a directory), not 'empty'"),
    ],
    ids=lambda value: ' '.join(value) if isinstance(value, list) else '',
)  # fmt: skip
def test_what_cannot_be_is_refused_and_nothing_is_left(
    tmp_path: Path, folder: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / 'file').touch()
    (tmp_path / 'empty').mkdir()
    (tmp_path / 'wrong').mkdir()
    (tmp_path / 'wrong' / 'x.json').write_text('{}')
    words = [str(folder) if word == 'JOB' else word for word in arguments]
    finished = called(*words, cwd=tmp_path)
    assert (finished.returncode, finished.stdout) == (125, '')
    assert finished.stderr.replace(str(folder), 'JOB').startswith(f'gpu-tracker: {message}')
    assert sorted(path.name for path in tmp_path.rglob('*')) == ['empty', 'file', 'wrong', 'x.json']


def test_a_page_shows_the_ranks_and_brings_no_script(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / 'job'
    shutil.copytree(folder, copy)
    assert called('report', f'{copy}/').stderr == f'The report is in {copy}.html\n'
    page = (tmp_path / 'job.html').read_text()
    assert called('report', str(copy), '-o', '-').stdout == page
    rows = [re.sub(r'<[^>]*>', ' ', row).split() for row in re.findall(r'<tr>(.*?)</tr>', page, re.DOTALL)]
    assert ['1', 'n1', '100', 's', '40', 's', '1.07', 'GB', 'killed', 'by', 'SIGKILL'] in rows
    assert ['n2', '1', '1.07', 'GB', '8.59', 'GB', '60', 's', '15', '%', '7.52', 'GB', 'of', '68.7', 'GB'] in rows
    assert not re.search(r'<script|<link|<img|<iframe|javascript:|\son\w+=', page)
    assert not re.search(r'(src|href)=', page)
    assert 'default-src &#x27;none&#x27;; style-src &#x27;sha256-' in page
    (tmp_path / 'job.html').write_text('mine')
    refused = called('report', str(copy))
    assert (refused.returncode, refused.stderr) == (
        125, f'gpu-tracker: {copy}.html exists, but is not a file of gpu-tracker. Choose another file with --output\n',
    )  # fmt: skip
    assert (tmp_path / 'job.html').read_text() == 'mine'


def test_one_rank_alone_is_shown_by_its_recording(folder: Path) -> None:
    finished = called('show', str(folder / 'rank-2.db'))
    assert finished.returncode == 0
    assert 'step' in finished.stdout


def test_several_folders_are_one_report_and_one_dataset(folder: Path, tmp_path: Path) -> None:
    tasks = []
    for task in (1, 2):
        tasks.append(tmp_path / f'4711_{task}')
        write(tasks[-1], 'rank-0', record(0, size=1, job={'array_task': task, 'array_size': 3, 'step': 'batch'}))
        write_recording(tasks[-1] / 'rank-0.db', rows=busy_rows())
    finished = called('merge', *map(str, tasks), '-f', 'json')
    report = json.loads(finished.stdout)
    assert [rank['label'] for rank in report['ranks']] == ['task 1', 'task 2']
    assert report['problems'] == ['1 of 3 tasks of the array have not started.']
    words = ['merge', str(tasks[0]), str(tasks[1]), str(tasks[0]), '-f', 'parquet', '-o', str(tmp_path / 'samples')]
    assert called(*words).stderr == f'2 recordings written to {tmp_path / "samples"}\n'
    rows = duckdb.sql(
        f"SELECT job, rank, array_task, count(*) FROM read_parquet('{tmp_path}/samples/**/*.parquet', "
        'hive_partitioning = true) GROUP BY ALL ORDER BY ALL'
    ).fetchall()
    assert rows == [('4711_1', 0, 1, 11), ('4711_2', 0, 2, 11)]


def test_recordings_that_are_no_dataset_are_named_and_the_others_are(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / 'job'
    shutil.copytree(folder, copy)
    (copy / 'rank-1.db').write_text('\x1b[2J')
    finished = called('merge', str(copy), '-f', 'parquet', '-o', str(tmp_path / 'samples'))
    assert (finished.returncode, finished.stdout) == (0, '')
    assert finished.stderr == (
        f'gpu-tracker: {copy}/rank-1.db is not a gpu-tracker recording\n'
        f'2 recordings written to {tmp_path / "samples"}\n'
    )


def test_a_reader_that_has_enough_is_no_error(folder: Path) -> None:
    finished = shell('"$@" | head -n 1; echo ${PIPESTATUS[0]}', 'merge', str(folder))
    assert finished.stderr == ''
    first, code = finished.stdout.splitlines()
    assert first == 'Job         4711 (slurm)'
    assert code in {'0', '141'}


def test_a_thousand_ranks_take_less_than_50_megabytes(tmp_path: Path) -> None:
    simulated_job(tmp_path / 'job', 1, size=1_000, each=10)
    program = (
        'import json, resource, subprocess, sys\n'
        'done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n'
        'used = resource.getrusage(resource.RUSAGE_CHILDREN)\n'
        'print(json.dumps([done.returncode, used.ru_maxrss * 1024]))\n'
    )
    words = [sys.executable, '-c', program, *PROGRAM, 'merge', str(tmp_path / 'job')]
    found = subprocess.run(words, check=True, capture_output=True, text=True, env=os.environ)
    code, peak = json.loads(found.stdout)
    assert code == 0
    assert peak < 50e6
