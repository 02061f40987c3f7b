"""Which rank a real process is, and which files gpu-tracker writes or refuses to write for it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpu_tracker.job import environment_of, identity_of
from support.claims.claim_actors import tool
from support.cli_program import PROGRAM, called, gpu_tracker, number_in, started
from support.gpus.gpu_machine import running
from support.tracked_program import as_root
from support.waiting import eventually


def rank_variables(rank: int = 1, size: int = 4) -> dict[str, str]:
    own = {'GPU_TRACKER_JOB': '4711', 'GPU_TRACKER_RANK': str(rank), 'GPU_TRACKER_SIZE': str(size)}
    return os.environ | own


def identity_in(folder: Path) -> dict[str, Any]:
    """Return what is known of the identity in the only report in a job's folder."""
    (report,) = (path for path in folder.glob('*.json') if not path.name.endswith('.start.json'))
    return {field: value for field, value in json.loads(report.read_text())['job'].items() if value is not None}


ARRAY = {'SLURM_JOB_ID': '5', 'SLURM_ARRAY_JOB_ID': '6', 'SLURM_ARRAY_TASK_ID': '2', 'SLURM_PROCID': '0'}


def shared(option: str, name: str, example: str, whose: str = 'rank 1 of 4') -> str:
    return (
        f'{option} must be a path with {name} or {{pid}} in it, such as {example} '
        f'(this is {whose}, and all processes would write the same file)'
    )


@pytest.mark.parametrize(
    ('option', 'path', 'variables', 'message'),
    [
        ('-o', 'u.json', {}, shared('--output', '{rank}', 'u-{rank}.json')),
        ('--output', 'u-{job}', {}, shared('--output', '{rank}', 'u-{job}-{rank}')),
        ('--tf', 'u.db', {}, shared('--tf', '{rank}', 'u-{rank}.db')),
        ('--tracking-file', 'u.csv', {}, shared('--tracking-file', '{rank}', 'u-{rank}.csv')),
        (
            '-o', 'u-{rank}', {'GPU_TRACKER_SIZE': '1', 'GPU_TRACKER_JOB': '', **ARRAY},
            shared('--output', '{job}', 'u-{rank}-{job}', 'task 2 of an array'),
        ),
        ('-o', 'u-{rnak}', {}, '--output must be a path with {job}, {rank}, {node}, {pid} or {date}'),
        (
            '--tf', 'u-{rank}', {'GPU_TRACKER_RANK': ''},
            ('--tf must be a path without {rank}, since gpu-tracker does not set this value: use '
            '{job} or {node} or {pid}'),
        ),
        ('--job', 'j-{x}', {}, '--job must be a path with {job}, {rank}, {node}, {pid} or {date}'),
    ],
)  # fmt: skip
def test_a_path_that_is_not_for_this_rank_alone_starts_nothing_and_touches_nothing(
    tmp_path: Path, option: str, path: str, variables: dict[str, str], message: str
) -> None:
    (tmp_path / path).write_text('as it was')
    given = ['-o', path] if option == '-o' else [f'{option}={path}']
    environment = rank_variables() | variables
    finished = called(*given, '--', 'touch', 'started', env=environment, cwd=tmp_path)
    assert (finished.returncode, finished.stdout) == (125, '')
    advice = '. For one report of all processes, use --job=FOLDER' if 'the same file' in message else ''
    assert finished.stderr == f"gpu-tracker: {message}, not '{path}'{advice}\n"
    assert [one.name for one in tmp_path.iterdir()] == [path]
    assert (tmp_path / path).read_text() == 'as it was'


def test_what_is_written_in_place_may_be_that_of_all_ranks(tmp_path: Path) -> None:
    with (tmp_path / 'log').open('w') as log:  # as srun --output has it
        for rank in (0, 1):
            words = [*PROGRAM, '-f', 'json', '-o', '/dev/stdout', '--', 'echo', 'ran']
            subprocess.run(words, check=True, stdout=log, stderr=subprocess.DEVNULL, env=rank_variables(rank))
    text = (tmp_path / 'log').read_text()
    assert (text.count('ran\n'), text.count('"max_ram"')) == (2, 2)
    fifo = tmp_path / 'fifo'
    os.mkfifo(fifo)
    with started('-f', 'json', '-o', str(fifo), '--', 'true', env=rank_variables()) as run:
        assert json.loads(fifo.read_text())['job']['rank'] == 1
        assert run.wait() == 0


def test_an_id_with_dots_and_slashes_stays_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / 'in'
    folder.mkdir()
    words = ['-o', 'u-{job}-{node}.txt', f'--job={folder}/{{job}}', '--', 'true']
    place = {'GPU_TRACKER_JOB': '../../out', 'GPU_TRACKER_NODE': 'a/../b'}
    finished = gpu_tracker(*words, env=rank_variables(0, 1) | place, cwd=folder)
    assert finished.returncode == 0, finished.stderr
    assert sorted(path.name for path in folder.iterdir()) == ['.._.._out', 'u-.._.._out-a_.._b.txt']
    assert [path.name for path in tmp_path.iterdir()] == ['in']


def test_a_file_is_the_same_by_all_its_names_and_free_when_its_writer_has_ended(tmp_path: Path) -> None:
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'folder' / 'link').symlink_to('../usage')
    (tmp_path / 'other').symlink_to('folder')
    words = ['-o', str(tmp_path / 'usage'), '--', 'sh', '-c', f'echo $$ > {tmp_path}/running; exec sleep 600']
    with started(*words) as first:
        command = number_in(tmp_path / 'running')
        for name in ('usage', 'folder/link', 'other/link', 'other/../usage', './usage'):
            second = called('-o', name, '--', 'touch', 'started', cwd=tmp_path)
            assert second.returncode == 125
            assert second.stderr == (
                'gpu-tracker: --output must be a path that can be written (another gpu-tracker that is running writes '
                f"it; put {{rank}} or {{pid}} into the path, such as usage-{{pid}}.json), not '{name}'. "
                'See "gpu-tracker explain cannot-write".\n'
            )
        os.kill(command, signal.SIGTERM)
        assert first.wait() == 143
    assert not (tmp_path / 'started').exists()
    assert gpu_tracker('-o', 'other/link', '--', 'true', cwd=tmp_path).returncode == 0


@as_root  # to have another host name
def test_the_host_name_of_a_pod_of_an_indexed_job_has_the_name_of_the_job(tmp_path: Path) -> None:
    own_host = tool('unshare', '--uts', 'sh', '-c', 'hostname "$0" && exec "$@"')
    of_this = (
        'import json, os; from gpu_tracker.job import identify; found = identify(os.environ, os.getpid())\n'
        'print(json.dumps({field: value for field, value in found.items() if value is not None}))'
    )
    for host, index, job in (('train-net-3', '3', 'train-net'), ('train-3', '4', None), ('node7', '7', None)):
        words = [*own_host, host, sys.executable, '-c', of_this]
        printed = subprocess.run(
            words, check=True, stdout=subprocess.PIPE, env=os.environ | {'JOB_COMPLETION_INDEX': index}
        ).stdout
        expected = {'launcher': 'kubernetes', 'rank': int(index), 'node': host} | ({} if job is None else {'job': job})
        assert json.loads(printed) == expected


SLURM = {
    'SLURM_JOB_ID': '8', 'SLURM_STEP_ID': '0', 'SLURM_STEP_NUM_TASKS': '2', 'SLURM_PROCID': '0', 'SLURM_LOCALID': '0',
    'SLURM_NTASKS': '1', 'SLURMD_NODENAME': 'n1',
}  # fmt: skip


def under_daemon(title: str, script: str) -> list[str]:
    """Return the words that run a script as a task of a process with a title; its ID is in SLURM_TASK_PID."""
    task = f'export SLURM_TASK_PID=$$; {script}; exit $?'
    daemon = f'bash -c {shlex.quote(task)}; exit $?'
    return ['bash', '-c', f'exec -a {shlex.quote(title)} bash -c {shlex.quote(daemon)}']


@pytest.mark.parametrize(
    ('title', 'expected'),
    [
        ('slurmstepd: [8.batch]', {'step': 'batch', 'rank': 0, 'size': 1}),
        ('bash', {'step': '0', 'rank': 0, 'size': 2}),
    ],
)
def test_the_step_of_a_task_is_that_of_the_daemon_above_it(
    tmp_path: Path, title: str, expected: dict[str, object]
) -> None:
    script = shlex.join([*PROGRAM, f'--job={tmp_path / "job"}', '--', 'true'])
    subprocess.run(under_daemon(title, script), check=True, env=os.environ | SLURM)
    others = {'launcher': 'slurm', 'job': '8', 'local_rank': 0, 'node': 'n1', 'attempt': 0}
    assert identity_in(tmp_path / 'job') == others | expected


def test_variables_of_a_task_that_is_no_ancestor_are_not_those_of_this_process(tmp_path: Path) -> None:
    with running('sleep', '600') as task:
        variables = os.environ | SLURM | {'SLURM_TASK_PID': str(task)}
        assert gpu_tracker(f'--job={tmp_path / "job"}', '--', 'true', env=variables).returncode == 0
    assert identity_in(tmp_path / 'job') == {
        'launcher': 'slurm', 'job': '8', 'step': '0', 'node': 'n1', 'attempt': 0,
    }  # fmt: skip


def test_of_a_process_that_runs_the_identity_is_its_own(tmp_path: Path) -> None:
    script = 'export SLURM_TASK_PID=$$; exec sleep 600'
    with running('sh', '-c', script, env=os.environ | SLURM) as task:
        found = eventually(lambda: one if (one := identity_of(task) or {}).get('rank') == 0 else None)
        assert (found['launcher'], found['job'], found['step'], found['size']) == ('slurm', '8', '0', 2)
        refused = called(f'--pid={task}', '-o', 'u.json', cwd=tmp_path)
        assert refused.returncode == 125
        assert 'this is rank 0 of 2' in refused.stderr
    with running('sleep', '600', env={}) as bare:
        eventually(lambda: environment_of(bare) == {} and 'sleep' in Path(f'/proc/{bare}/cmdline').read_text())
        assert identity_of(bare) is None
        assert called(f'--pid={bare}', '-o', 'u-{rank}.json', cwd=tmp_path).stderr == (
            'gpu-tracker: --output must be a path without {rank}, since no job launcher started this '
            'process: use {node} or '
            "{pid}, not 'u-{rank}.json'\n"
        )


@pytest.mark.parametrize(
    ('variables', 'expected'),
    [
        (
            {'LOCAL_RANK': '1', 'NODE_RANK': '0', 'WORLD_SIZE': '4', 'MASTER_ADDR': 'localhost', 'MASTER_PORT': '1'},
            {'launcher': 'lightning', 'rank': 1, 'size': 4, 'local_rank': 1, 'node': 'x'},
        ),
        (
            {'RANK': '5', 'WORLD_SIZE': '8', 'LOCAL_RANK': '1', 'LOCAL_WORLD_SIZE': '4', 'ACCELERATE_USE_CPU': '1'},
            {'launcher': 'torch', 'rank': 5, 'size': 8, 'local_rank': 1, 'local_size': 4, 'node': 'x'},
        ),
        ({'RAY_JOB_ID': '01000000'}, {'launcher': 'ray', 'job': '01000000', 'node': 'x'}),
        ({'GPU_TRACKER_RANK': 'garbage'}, {'launcher': 'gpu-tracker', 'node': 'x'}),
    ],
)  # fmt: skip
def test_frameworks_that_start_their_own_processes(variables: dict[str, str], expected: dict[str, object]) -> None:
    with running('sleep', '600', env=os.environ | variables | {'GPU_TRACKER_NODE': 'x'}) as process:
        found = eventually(lambda: identity_of(process))
    assert {field: value for field, value in found.items() if value is not None} == expected
