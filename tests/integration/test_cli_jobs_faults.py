"""Ranks of jobs that are killed in every way, and folders that cannot be written: what is left of them is the truth."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from gpu_tracker.jobs.records import Alive, read_record
from gpu_tracker.system.kernel import boot_id, pid_namespace
from support.claims.claim_actors import tool
from support.cli_program import PROGRAM, called, gpu_tracker, started, state_of, text_of
from support.gpus.gpu_machine import words_as
from support.job_folders import record, write
from support.running_ranks import reported_ram
from support.tracked_program import Samplers, as_root
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

MEGABYTE = 10**6
USER = 54_340
"""Nobody."""

# Allocates and computes as much as it is told, writes what the kernel says of it, and waits for the file `end`.
RANK = """
import json, os, signal, sys, time
rank, folder = int(os.environ['GPU_TRACKER_RANK']), sys.argv[1]
block = bytearray(b'x') * ((rank + 1) * 20 * 10**6)
while time.process_time() < 0.05 * (rank + 1):
    pass
with open('/proc/self/status') as status:
    peak = next(1024 * int(line.split()[1]) for line in status if line.startswith('VmHWM'))
with open(f'{folder}/truth-{rank}.tmp', 'w') as file:
    json.dump({'pid': os.getpid(), 'cpu': time.process_time(), 'ram': peak}, file)
os.rename(f'{folder}/truth-{rank}.tmp', f'{folder}/truth-{rank}')
while not os.path.exists(f'{folder}/end'):
    time.sleep(0.01)
if rank == 1:
    sys.exit(7)
if rank == 2:
    os.kill(os.getpid(), signal.SIGKILL)
"""
WAITS = 'import os, time; print(os.getpid(), flush=True); time.sleep(600)'


@pytest.fixture
def samplers() -> Samplers:
    return Samplers()


def rank_variables(rank: int, size: int = 1, environment: dict[str, str] | None = None) -> dict[str, str]:
    own = {'GPU_TRACKER_JOB': '4711', 'GPU_TRACKER_RANK': str(rank), 'GPU_TRACKER_SIZE': str(size)}
    return {**(environment or os.environ), **own}


def merged(folder: Path, *words: str) -> dict[str, Any]:
    """Return the report of a job, made behind the words of a program if there are any."""
    arguments = ['merge', str(folder), '-f', 'json']
    if words:
        finished = subprocess.run([*words, *PROGRAM, *arguments], capture_output=True, text=True, check=False)
    else:
        finished = called(*arguments)
    assert finished.returncode == 0, finished.stderr
    report: dict[str, Any] = json.loads(finished.stdout)
    return report


def states(report: dict[str, Any]) -> dict[str, int]:
    return {state: count for state, count in report['states'].items() if count}


def file_of(folder: Path, pattern: str) -> str:
    """Return the text of the only file of its kind; nothing while it is not there."""
    return text_of(next(iter(folder.glob(pattern)), folder / 'none'))


@pytest.mark.figures
def test_four_ranks_at_once_of_which_three_end_badly_are_merged_to_what_the_kernel_says(tmp_path: Path) -> None:
    folder = tmp_path / 'job'
    words = ['--st=0.05', f'--job={folder}', '--', sys.executable, '-c', RANK, str(tmp_path)]
    with (
        started(*words, env=rank_variables(0, 5)) as first,
        started(*words, env=rank_variables(1, 5)) as second,
        started(*words, env=rank_variables(2, 5)) as third,
        started(*words, env=rank_variables(3, 5)) as fourth,
    ):
        truth = [json.loads(eventually(lambda name=f'truth-{rank}': text_of(tmp_path / name))) for rank in range(4)]
        eventually(lambda: all(reported_ram(folder, rank) > truth[rank]['ram'] - MEGABYTE for rank in range(4)))
        fourth.kill()
        fourth.wait()
        eventually(lambda: 'abandoned' in file_of(folder, 'rank-0003-*[0-9a-f].json'))
        running = merged(folder)
        assert (running['is_running'], running['ranks_started'], running['never_started']) == (True, 4, ['4'])
        (tmp_path / 'end').touch()
        assert [one.wait() for one in (first, second, third)] == [0, 7, 137]
        for one in (first, second, third):
            assert one.communicate() == ('', '')
    report = merged(folder)
    assert states(report) == {'ended': 1, 'failed': 1, 'killed': 1, 'lost': 1}
    assert [(one['rank'], one['exit_code'], one['signal']) for one in report['ranks']] == [
        (0, 0, None), (1, 7, None), (2, -9, 'SIGKILL'), (3, None, None),
    ]  # fmt: skip
    for one, true in zip(report['ranks'], truth, strict=True):
        assert one['max_ram']['value'] == pytest.approx(true['ram'], abs=MEGABYTE)
        assert one['max_ram']['lower'] <= one['max_ram']['value'] <= one['max_ram']['upper']
        assert true['cpu'] - 0.02 <= one['cpu_seconds'] <= true['cpu'] + 0.3
    (node,) = report['nodes']
    sizes = [one['ram'] for one in truth]
    assert max(sizes) - MEGABYTE <= node['max_ram']['lower'] <= node['max_ram']['value'] <= node['max_ram']['upper']
    assert node['max_ram']['value'] == pytest.approx(sum(sizes), abs=5 * MEGABYTE), 'all were there when they waited'
    assert report['cpu_seconds'] == pytest.approx(sum(one['cpu_seconds'] for one in report['ranks']))
    assert (report['ranks_expected'], report['is_running'], report['is_lower_bound']) == (5, False, True)
    assert report['problems'] == ['Nobody has seen the end of rank 3: figures are up to the last report.']
    assert sorted(''.join(path.suffixes) for path in folder.iterdir()) == (
        ['.db'] * 4 + ['.json'] * 4 + ['.start.json'] * 4
    )


def test_without_its_sampler_a_rank_has_what_was_measured_and_its_end(tmp_path: Path, samplers: Samplers) -> None:
    folder, end = tmp_path / 'job', tmp_path / 'end'
    code = (
        'import os, time; block = bytearray(b"x") * (50 * 10**6)\n'
        f'while not os.path.exists({str(end)!r}): time.sleep(0.01)\n'
        'os._exit(3)'
    )
    words = ['--st=0.05', f'--job={folder}', '--', sys.executable, '-c', code]
    with started(*words, env=rank_variables(0, 1, samplers.environment)) as run:
        eventually(lambda: reported_ram(folder, 0) > 50 * MEGABYTE)
        os.kill(samplers.only(), signal.SIGKILL)
        samplers.none_left()
        end.touch()
        printed, complaints = run.communicate()
    assert (run.returncode, printed) == (3, '')
    assert complaints == (
        'gpu-tracker: The sampler was ended from outside; the result is what it had measured until then.\n'
    )
    report = merged(folder)
    assert (states(report), report['problems']) == ({'failed': 1}, ['CPU time of rank 0 is a lower bound.'])
    (rank,) = report['ranks']
    assert rank['max_ram']['value'] > 50 * MEGABYTE
    assert rank['recording'].endswith('.partial.db'), 'nobody was left to complete it'


def test_where_both_are_killed_figures_are_up_to_the_last_report(tmp_path: Path, samplers: Samplers) -> None:
    folder = tmp_path / 'job'
    code = f'block = bytearray(b"x") * (50 * 10**6); {WAITS}'
    words = ['--st=0.05', f'--job={folder}', '--', sys.executable, '-c', code]
    with started(*words, env=rank_variables(0, 2, samplers.environment)) as run:
        assert run.stdout is not None
        command = int(run.stdout.readline())
        eventually(lambda: reported_ram(folder, 0) > 50 * MEGABYTE)
        os.kill(samplers.only(), signal.SIGKILL)
        run.kill()
        eventually(lambda: state_of(run.pid) == 'Z')
        report = merged(folder)
        assert states(report) == {'lost': 1}, 'one that waits to be reaped writes no end'
        run.wait()
    os.kill(command, signal.SIGKILL)
    assert merged(folder) | {'ranks': [], 'imbalance': []} == report | {'ranks': [], 'imbalance': []}
    assert report['never_started'] == ['1']
    assert report['ranks'][0]['max_ram']['value'] > 50 * MEGABYTE
    shown = called('show', str(folder)).stdout
    assert 'Ranks       1 of 2 on 1 node: 1 lost\n            never began: 1\n            lost: 0\n' in shown
    assert 'not seen; last report ' in shown


def test_a_rank_that_was_killed_before_its_first_report_was_there(tmp_path: Path, samplers: Samplers) -> None:
    folder = tmp_path / 'job'
    words = ['--st=60', f'--job={folder}', '--', sys.executable, '-c', WAITS]
    with started(*words, env=rank_variables(1, 2, samplers.environment)) as run:
        assert run.stdout is not None
        command = int(run.stdout.readline())
        os.kill(samplers.only(), signal.SIGKILL)
        run.kill()
        run.wait()
    os.kill(command, signal.SIGKILL)
    assert file_of(folder, 'rank-*[0-9a-f].json') == ''
    report = merged(folder)
    assert (states(report), report['never_started'], report['cpu_seconds']) == ({'lost': 1}, ['0'], None)
    assert report['problems'][:2] == [
        'Nobody has seen the end of rank 1: figures are up to the last report.',
        'Nothing is known of what rank 1 used: it is in no figure.',
    ]
    page = called('report', str(folder), '-o', '-').stdout
    assert 'Nothing is known of what rank 1 used' in page


@as_root
def test_who_cannot_see_the_process_goes_by_the_time_of_the_last_report(tmp_path: Path, samplers: Samplers) -> None:
    folder = tmp_path / 'job'
    words = [f'--job={folder}', '--', sys.executable, '-c', WAITS]
    with started(*words, env=rank_variables(0, 1, samplers.environment)) as run:
        assert run.stdout is not None
        command = int(run.stdout.readline())
        elsewhere = tool('unshare', '--pid', '--fork', '--mount-proc')
        assert states(merged(folder, *elsewhere)) == {'running': 1}
        os.kill(samplers.only(), signal.SIGKILL)
        run.kill()
        run.wait()
        os.kill(command, signal.SIGKILL)
        assert states(merged(folder)) == {'lost': 1}
        assert states(merged(folder, *elsewhere)) == {'running': 1}, 'it may be on another machine'


def test_a_number_that_another_process_has_got_since_says_nothing() -> None:
    now = time.time()
    here = {'machine': boot_id(), 'pid_namespace': pid_namespace(), 'tracker_pid': os.getpid(), 'ended': None}

    def alive(**changes: object) -> bool | None:
        return Alive()(read_record(json.dumps(record(0) | here | changes), 'rank-0'))

    assert alive(started_unix=now, updated_unix=now) is True
    assert alive(started_unix=now - 10**6, updated_unix=now) is None
    assert alive(started_unix=now, updated_unix=now, machine='another') is None
    assert alive(started_unix=now, updated_unix=now, pid_namespace=1) is None
    assert alive(started_unix=now, updated_unix=now, tracker_pid=None) is None
    for none in (4_194_304, -1, 10**12):
        assert alive(started_unix=now, updated_unix=now, tracker_pid=none) is False


def test_a_report_that_no_longer_fits_is_printed(tmp_path: Path) -> None:
    folder = tmp_path / 'job'
    full = (
        'import os, resource\n'
        'resource.prlimit(os.getppid(), resource.RLIMIT_FSIZE, (100, 100))\n'  # as a full disk, for gpu-tracker alone
        'print("ran")'
    )
    finished = gpu_tracker('-f', 'json', f'--job={folder}', '--', sys.executable, '-c', full, env=rank_variables(0))
    assert finished.returncode == 0
    ran, _, report = finished.stdout.partition('\n')
    assert (ran, json.loads(report)['job']['rank']) == ('ran', 0)
    (start,) = folder.glob('*.start.json')
    expected = str(start).replace('.start.json', '.json')
    assert finished.stderr == (
        'gpu-tracker: The recording is incomplete: File too large.\n'
        f'gpu-tracker: The record of this rank could not be written to {expected}: File too large.\n'
    )
    assert [path.name for path in folder.iterdir() if path.suffix == '.tmp'] == []
    assert merged(folder)['ranks_started'] == 1


@as_root
def test_a_disk_that_is_full_before_is_refused_before_the_command_starts(tmp_path: Path) -> None:
    script = f'mount -t tmpfs -o size=8k none {tmp_path} && head -c 8192 /dev/zero > {tmp_path}/full; exec "$@"'
    words = tool('unshare', '--mount', 'sh', '-c', script, 'sh')
    finished = subprocess.run(
        [*words, *PROGRAM, f'--job={tmp_path}/job', '--', 'echo', 'ran'],
        capture_output=True, text=True, check=False, env=rank_variables(0),
    )  # fmt: skip
    assert (finished.returncode, finished.stdout) == (125, '')
    assert finished.stderr == (
        f"gpu-tracker: --job must be a folder that can be written (No space left on device), not '{tmp_path}/job'. "
        'See "gpu-tracker explain cannot-write".\n'
    )


@as_root  # to become another user
def test_a_folder_that_may_not_be_written_is_refused_before_the_command_starts(tmp_path: Path) -> None:
    folder = tmp_path / 'others'
    folder.mkdir(mode=0o755)
    for path in (folder, folder / 'job' / 'deep'):
        finished = subprocess.run(
            words_as(USER, *PROGRAM, f'--job={path}', '--', 'echo', 'ran'),
            capture_output=True, text=True, check=False, env=rank_variables(0), cwd='/',
        )  # fmt: skip
        assert (finished.returncode, finished.stdout) == (125, '')
        assert finished.stderr == (
            'gpu-tracker: --job must be the path of a folder that exists or can be made '
            f"({folder} is not writable), not '{path}'. "
            'See "gpu-tracker explain cannot-write".\n'
        )
    assert list(folder.iterdir()) == []


@as_root
def test_a_rank_without_a_sampler_has_begun_but_is_not_measured(tmp_path: Path) -> None:
    folder = tmp_path / 'job'
    without_proc = tool('unshare', '--mount', 'sh', '-c', 'umount --lazy /proc && exec "$@"', 'sh')
    finished = subprocess.run(
        [*without_proc, *PROGRAM, f'--job={folder}', '--', 'sh', '-c', 'echo ran; exit 4'],
        capture_output=True, text=True, check=False, env=rank_variables(0, 2, os.environ),
    )  # fmt: skip
    assert (finished.returncode, finished.stdout) == (4, 'ran\n')
    report = merged(folder)
    assert (states(report), report['never_started']) == ({'unmeasured': 1}, ['1'])
    assert report['problems'] == ['Nothing is known of what rank 0 used: it is in no figure.']
    assert [path.suffix for path in folder.iterdir()] == ['.json']


def test_a_command_that_cannot_be_started_leaves_the_files_of_others(tmp_path: Path) -> None:
    folder = tmp_path / 'job'
    write(folder, 'rank-0000-n1-1-00000000', record(0, size=2))
    before = sorted(path.name for path in folder.iterdir())
    script = tmp_path / 'script'
    script.write_text('#!/no/such/interpreter\n')
    script.chmod(0o755)
    for command, code in (('no-such-program', 127), (str(script), 127)):
        assert gpu_tracker(f'--job={folder}', '--', command, env=rank_variables(1, 2)).returncode == code
    assert sorted(path.name for path in folder.iterdir()) == before
    assert merged(folder)['never_started'] == ['1']


def test_the_number_of_ranks_that_are_written_at_once_does_not_matter(tmp_path: Path) -> None:
    folder = tmp_path / 'job'
    script = 'for rank in 0 1 2; do GPU_TRACKER_RANK=$rank "$@" & done; wait'
    finished = subprocess.run(
        ['sh', '-c', script, 'sh', *PROGRAM, f'--job={folder}', '--', 'true'],
        capture_output=True, text=True, check=False, env=rank_variables(0, 3),
    )  # fmt: skip
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, '', '')
    report = merged(folder)
    assert (states(report), report['never_started'], report['problems']) == ({'ended': 3}, [], [])
    assert sorted(path.name[:9] for path in folder.glob('*.db')) == [f'rank-000{rank}' for rank in range(3)]
