"""Killed runs: their files, the list of these, and the result of one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import gpu_tracker as gput
from support.claims.claim_actors import tool
from support.cli_program import PROGRAM, Terminal, called, state_of
from support.gpus.gpu_machine import words_as
from support.tracked_program import Samplers, as_root, environment, run, start
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MEGABYTES_50 = 50_000_000
TRACKED = """
import os, signal, sys
import gpu_tracker as gput
data = b'x' * 50_000_000
tracker = gput.Tracker(ram_unit='bytes')
tracker.start()
print('started', flush=True)
"""
PAUSE = 'signal.pause()\n'
USER = 54_340


@pytest.fixture
def samplers() -> Samplers:
    return Samplers()


@pytest.fixture
def state(tmp_path: Path, samplers: Samplers, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the user's runs, which is not there yet."""
    monkeypatch.setenv('XDG_STATE_HOME', str(tmp_path / 'state'))
    monkeypatch.setenv('TMPDIR', str(tmp_path / 'tmp'))
    (tmp_path / 'state').mkdir()
    (tmp_path / 'tmp').mkdir()
    samplers.environment |= {name: os.environ[name] for name in ('XDG_STATE_HOME', 'TMPDIR')}
    return tmp_path / 'state' / 'gpu-tracker' / 'runs'


def listed() -> list[dict[str, object]]:
    """Return what ``gpu-tracker runs`` lists."""
    done = called('runs', '--json')
    assert done.returncode == 0
    return json.loads(done.stdout)


def the_only() -> dict[str, object]:
    """Return the one killed run, as soon as its processes have ended."""
    (found,) = eventually(listed)
    return found


def assert_shown(entry: dict[str, object]) -> None:
    """Check that ``show`` has the result, whose figures are marked."""
    shown = json.loads(called('show', str(entry['id']), '--json', '--ru=B').stdout)
    summary = shown['summary']
    assert {name: shown[name] for name in summary} == summary
    assert shown['run'] == {
        'command': entry['command'], 'exit_code': None, 'host': entry['host'], 'version': gput.__version__,
    }  # fmt: skip
    assert summary['termination_reason'] == 'killed'
    assert summary['max_ram']['combined']['total_rss'] > MEGABYTES_50
    assert {'max_ram.combined.total_rss', 'compute_time.time'} <= set(summary['lower_bounds'])
    assert not [path for path in summary['lower_bounds'] if path.startswith('cpu_utilization.main.mean_')]
    assert '\nTermination reason: killed\n' in called('show', str(entry['path'])).stdout
    assert called('show', str(entry['id']), '-f', 'summary').stdout.splitlines()[0].endswith(', killed')


@pytest.mark.parametrize('with_sampler', [False, True])
def test_a_killed_program(samplers: Samplers, state: Path, with_sampler: bool):
    with start(TRACKED + PAUSE, env=samplers.environment) as program:
        assert program.stdout.readline() == 'started\n'
        assert listed() == []
        if with_sampler:
            sampler = samplers.only()
            os.kill(sampler, signal.SIGSTOP)  # so that the end of the program is not its end
            program.kill()
            os.kill(sampler, signal.SIGKILL)
        program.kill()
    found = the_only()
    assert found['pid'] == program.pid
    assert found['command'][:2] == [sys.executable, '-c']
    assert found['max_ram'] > MEGABYTES_50
    assert oct(state.stat().st_mode)[-3:] == '700'
    assert_shown(found)


def test_a_killed_sampler_of_a_program_that_goes_on(samplers: Samplers, state: Path):
    with start(TRACKED + 'input()\ntracker.stop()\n', env=samplers.environment, stdin=subprocess.PIPE) as program:
        assert program.stdout.readline() == 'started\n'
        os.kill(samplers.only(), signal.SIGKILL)
        assert samplers.none_left()
        assert listed() == []
        program.communicate('\n')
    assert program.returncode == 0
    assert os.listdir(state) == []


def test_the_end_of_a_pid_namespace(samplers: Samplers, state: Path):
    words = tool('unshare', *([] if os.geteuid() == 0 else ['--user', '--map-root-user']), '--pid', '--fork')
    words = (*words, '--mount-proc', sys.executable, '-c', TRACKED)
    run_words = subprocess.run([*words], env=samplers.environment, capture_output=True, check=False, timeout=TIMEOUT)
    assert run_words.stdout == b'started\n'
    assert samplers.none_left()
    assert_shown(the_only())
    assert len(os.listdir(state)) == 1


def test_a_good_end_leaves_no_file(samplers: Samplers, state: Path):
    run(TRACKED + 'tracker.stop()', env=samplers.environment)
    assert os.listdir(state) == []
    assert called('show', 'nothing').stderr == 'gpu-tracker: cannot read nothing: No such file or directory\n'


def test_a_good_end_leaves_no_killed_run_if_the_program_cannot_find_its_file(samplers: Samplers, state: Path):
    end = """
folder = os.environ['XDG_STATE_HOME']
os.rename(folder, f'{folder}-elsewhere')
tracker.stop()
os.rename(f'{folder}-elsewhere', folder)
"""
    run(TRACKED + end, env=samplers.environment)
    assert samplers.none_left()
    assert listed() == []


def test_a_program_that_has_closed_its_descriptors_leaves_its_result(samplers: Samplers, state: Path):
    end = """
os.closerange(3, 1000)
try:
    tracker.stop()
except RuntimeError as error:
    print('no result', flush=True)
"""
    assert run(TRACKED + end, env=samplers.environment).stdout == 'started\nno result\n'
    assert_shown(the_only())


def test_a_stop_after_all_descriptors_were_closed_takes_nothing_of_a_later_run(samplers: Samplers, state: Path):
    end = """
first = set(os.listdir(os.environ['XDG_STATE_HOME'] + '/gpu-tracker/runs'))
os.closerange(3, 1000)
later = gput.Tracker(ram_unit='bytes')
later.start()
try:
    tracker.stop()
except RuntimeError as error:
    print('no result', flush=True)
later.stop()
print(later.resource_usage.max_ram.main.total_rss > 50_000_000, *first)
"""
    lines = run(TRACKED + end, env=samplers.environment).stdout.splitlines()
    (of_first,) = lines[2].split()[1:]
    assert lines == ['started', 'no result', f'True {of_first}']
    assert the_only()['id'] == of_first.removesuffix('.run')


def test_a_worker_that_outlives_the_program_does_not_keep_its_run_going(samplers: Samplers, state: Path):
    worker = 'if os.fork() == 0:\n    print(os.getpid(), flush=True)\n    signal.pause()\n'
    with start(TRACKED + worker + PAUSE, env=samplers.environment) as program:
        assert program.stdout.readline() == 'started\n'
        worker_id = int(program.stdout.readline())
        program.kill()
        assert_shown(the_only())
        assert state_of(worker_id) == 'S'
        os.kill(worker_id, signal.SIGKILL)


def test_the_last_50_killed_runs_are_kept_and_none_that_goes_on(samplers: Samplers, state: Path):
    with start(TRACKED + PAUSE, env=samplers.environment) as program:
        assert program.stdout.readline() == 'started\n'
        (going_on,) = os.listdir(state)
        for number in range(51):
            (state / f'99990101-000000-{number:06x}.run').write_bytes((state / going_on).read_bytes())
        (state / 'a file of somebody').touch()
        with start(TRACKED + PAUSE, env=samplers.environment) as another:
            assert another.stdout.readline() == 'started\n'
            found, names = listed(), os.listdir(state)
            another.kill()
        program.kill()
    assert [entry['id'] for entry in found] == [f'99990101-000000-{number:06x}' for number in range(2, 51)]
    assert {going_on, 'a file of somebody'} <= set(names)
    assert len(names) == 49 + 2 + 1


@contextlib.contextmanager
def running_command(samplers: Samplers, state: Path, words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Run a command line whose command has written a line, and whose run is kept."""
    with subprocess.Popen(
        words, env=samplers.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        program.stdout.readline()
        (name,) = os.listdir(state)
        eventually(lambda: b"'held': False" in (state / name).read_bytes())
        yield program


@pytest.mark.parametrize('with_sampler', [False, True])
def test_a_killed_command_line(samplers: Samplers, state: Path, with_sampler: bool):
    command = f'{sys.executable} -c "data = bytes(50_000_000); print(flush=True); input()"'
    words = [*PROGRAM, '-e', command]
    with running_command(samplers, state, words) as program:
        if with_sampler:
            os.kill(samplers.only(), signal.SIGKILL)
            assert samplers.none_left()
            assert listed() == []
        program.kill()
        found = the_only()
        assert found['tracking_has_ended']
        assert 'has_ended' not in found  # the command still waits for its input
        program.stdin.close()
    assert found['command'] == [sys.executable, '-c', 'data = bytes(50_000_000); print(flush=True); input()']
    assert called('show', found['id']).stdout.splitlines()[4] == (
        '  tracking    killed, or ended without a stop: figures are lower bounds'
    )


@pytest.mark.parametrize('is_recorded', [True, False])
def test_the_id_of_a_killed_run_stands_for_its_recording(
    samplers: Samplers, state: Path, tmp_path: Path, is_recorded: bool
):
    options = [f'--record={tmp_path}/run.db', '--sleep-time=0.01'] if is_recorded else []
    words = [*PROGRAM, *options, 'sh', '-c', 'echo started; read line']
    with running_command(samplers, state, words) as program:
        program.kill()
        run_id = str(the_only()['id'])
        program.stdin.close()
    commands = (
        ['export', run_id, '--format=csv'],
        ['report', run_id, f'--output={tmp_path}/page.html'],
        ['compare', f'old={run_id}', f'new={run_id}'],
    )
    problem = f'gpu-tracker: {run_id} was killed and has no recording: use gpu-tracker show\n'
    for arguments in commands:
        done = called(*arguments)
        assert (done.returncode, done.stderr == problem) == ((0, False) if is_recorded else (125, True)), done.stderr


def test_a_command_that_cannot_be_started_leaves_nothing(samplers: Samplers, state: Path, tmp_path: Path):
    script = tmp_path / 'script'
    script.write_text('#!/nowhere\n')
    script.chmod(0o755)
    done = subprocess.run([*PROGRAM, '--', str(script)], env=samplers.environment, capture_output=True, check=False)
    assert done.returncode == 127
    assert samplers.none_left()
    assert os.listdir(state) == []


def test_a_terminal_shows_what_was_kept(samplers: Samplers, state: Path):
    with Terminal([sys.executable, '-c', TRACKED + PAUSE], samplers.environment) as terminal:
        eventually(lambda: 'started' in terminal.shown)
        terminal.process.kill()
        run_id = the_only()['id']
        eventually(lambda: f'What was measured: gpu-tracker show {run_id}\n' in terminal.shown)


def test_a_stopped_sampler_keeps_nobody_waiting_for_the_end_of_standard_error(samplers: Samplers, state: Path):
    with start(TRACKED + PAUSE, env=samplers.environment, stderr=subprocess.PIPE) as program:
        assert program.stdout.readline() == 'started\n'
        sampler = samplers.only()
        os.kill(sampler, signal.SIGSTOP)
        program.kill()
        assert program.communicate(timeout=TIMEOUT) == ('', '')
        os.kill(sampler, signal.SIGKILL)


@pytest.mark.parametrize(
    ('content', 'problem'),
    [
        (b'', None),
        (b'gpu-tracker run 1\n', None),
        (b'gpu-tracker run 2\n' + bytes(100), 'was written by another version of gpu-tracker'),
        (b'something else', 'is damaged'),
        (b'gpu-tracker run 1\n'.ljust(64, b'\0') + (1).to_bytes(8, 'big') + b'\xff' * 4 + b'gput{', 'is damaged'),
        (b'gpu-tracker run 1\n'.ljust(64, b'\0') + (1).to_bytes(8, 'big') + b'\0\0\0\2gput{}', 'is damaged'),
        (
            b'gpu-tracker run 1\n'.ljust(64, b'\0') + (1).to_bytes(8, 'big') + b'\0\x0f\0\0gput' + b'(' * (15 << 16),
            'is damaged',
        ),
    ],
    ids=['empty', 'begun', 'version', 'other', 'cut', 'keys', 'deep'],
)
def test_files_that_cannot_be_read(state: Path, content: bytes, problem: str | None):
    path = state / 'a.run'
    state.mkdir(parents=True, mode=0o700)
    path.write_bytes(content)
    if content.startswith(b'gpu-tracker run'):
        shown = called('show', 'a')
        assert shown.returncode == 125
        assert shown.stderr == (
            f'gpu-tracker: {path} {problem or "has nothing to show, because its run ended normally or never started"}\n'
        )
    done = called('runs')
    assert (done.returncode, done.stdout) == (0, '')
    assert done.stderr == ('' if problem is None else f'gpu-tracker: {path} {problem}\n')
    assert path.exists()


def test_each_cut_and_each_changed_byte_is_no_traceback(samplers: Samplers, state: Path):
    with start(TRACKED + PAUSE, env=samplers.environment) as program:
        assert program.stdout.readline() == 'started\n'
        program.kill()
    path = the_only()['path']
    with open(path, 'rb') as file:
        whole = file.read()
    begin = max(whole.rindex(b'gput{') - 12, 0)
    for place in range(begin, len(whole), 37):
        for content in (whole[:place], whole[:place] + b'"' + whole[place + 1 :]):
            with open(path, 'wb') as file:
                file.write(content)
            done = called('show', path)
            assert done.returncode == 0 or done.stderr.startswith('gpu-tracker: ')
            assert 'internal error' not in done.stderr


@pytest.mark.parametrize('changes', [{'XDG_STATE_HOME': '/proc'}, {'XDG_STATE_HOME': '', 'HOME': ''}])
def test_without_a_folder_for_state_the_temporary_one_has_the_run(
    samplers: Samplers, state: Path, tmp_path: Path, changes: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    with start(TRACKED + PAUSE, env=samplers.environment | changes) as program:
        assert program.stdout.readline() == 'started\n'
        program.kill()
    found = the_only()
    assert found['path'].startswith(f'{tmp_path}/tmp/gpu-tracker-{os.geteuid()}/runs/')
    assert_shown(found)


@as_root
def test_with_no_folder_at_all_it_is_measured(tmp_path: Path):
    tmp_path.chmod(0o755)
    words = words_as(USER)
    changes = {'XDG_STATE_HOME': '/proc', 'TMPDIR': '/proc', 'PYTHONDONTWRITEBYTECODE': '1'}
    done = run(TRACKED + 'tracker.stop()\n', words=words, env=environment(changes))
    assert done.stdout == 'started\n'
