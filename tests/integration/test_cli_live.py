"""``--live``: a view of the run on its own terminal."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.cli_program import PROGRAM, gpu_tracker, state_of, text_of
from support.live_screens import ENTER, LEAVE, UNTIL_TOLD, frames, next_frame, on_terminal, tracker
from support.recorder_runs import meta_of
from support.tracked_program import environment
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.cli_program import Terminal

COMPLETE = 'Resource tracking complete.'
NOTHING = 'gpu-tracker: --live shows nothing: '
SAID = 'gpu-tracker: the output of the command is in '


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return the file into which a run is redirected."""
    return tmp_path / 'out.txt'


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that runs until it is ended, and writes to no terminal."""
    with subprocess.Popen(['sleep', '1000'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        yield process
        process.kill()


def redirected(out: Path, *words: object, **variables: str) -> Terminal:
    """Start gpu-tracker on a terminal, with standard output and error in a file."""
    variables = {'TMPDIR': str(out.parent)} | variables
    return on_terminal(['sh', '-c', f'exec "$@" > {out} 2>&1', 'sh', *PROGRAM, *map(str, words)], **variables)


def last_screen(terminal: Terminal) -> list[str]:
    """Return the screen that stays after the view."""
    return terminal.shown.rpartition(LEAVE)[2].splitlines()


def test_the_view_is_drawn_while_the_command_runs(out: Path) -> None:
    program = f'{UNTIL_TOLD}; print("written"); raise SystemExit(3)'
    with redirected(out, '--live', '--st=0.1', '-e', shlex.join([sys.executable, '-c', program])) as terminal:
        screen = eventually(lambda: next((one for one in frames(terminal) if 'Open regions' in str(one)), None))
        assert re.search(r' +pid \d+ on \S+, [\d.]+ m?s$', screen[0])
        assert [line.partition(' ')[0] for line in screen[2:5]] == ['', 'RAM', 'CPU']
        assert any(re.fullmatch(r'python\S* +\d+ +\d+% +[\d.]+ MB', line) for line in screen)
        assert any(re.fullmatch(r'waiting n=3 +[\d.]+ m?s', line) for line in screen)
        assert screen[-1] == 'Ctrl-C reaches the command'
        assert terminal.settings == terminal.settings_before
        terminal.press('\n')
        assert terminal.wait() == 3
        assert terminal.shown.count(ENTER) == terminal.shown.count(LEAVE) == 1
        assert last_screen(terminal)[0].startswith(sys.executable)
        assert terminal.settings == terminal.settings_before
    written = out.read_text()
    assert written.startswith(f'written\n{COMPLETE} Process completed with status code: 3\nMax RAM:\n')
    assert '\x1b' not in written
    assert os.listdir(out.parent) == ['out.txt']


def test_ctrl_c_reaches_the_command(out: Path) -> None:
    program = (
        'import time\n'
        'try: print("ready", flush=True) or time.sleep(1000)\n'
        'except KeyboardInterrupt: print("interrupted")'
    )
    with redirected(out, '--live', '-e', shlex.join([sys.executable, '-c', program])) as terminal:
        eventually(lambda: text_of(out) == 'ready\n')
        next_frame(terminal)
        terminal.press('\x03')
        assert terminal.wait() == 0
        assert last_screen(terminal)
    assert out.read_text().startswith(f'ready\ninterrupted\n{COMPLETE}')


def test_a_limit_ends_the_command_and_the_terminal_is_left(out: Path) -> None:
    with redirected(out, '--live', '--time-limit=3', '-e', 'sleep 1000') as terminal:
        assert terminal.wait() == 124
        assert last_screen(terminal)
    said, complete, *report = out.read_text().splitlines()
    assert said.startswith('gpu-tracker: --time-limit=3 was exceeded: ')
    assert complete == f'{COMPLETE} Process completed with status code: -15'
    assert report[-1] == 'Termination reason: time_limit'


def test_a_signal_reaches_the_command_and_the_terminal_is_left(out: Path) -> None:
    with redirected(out, '--live', '-e', 'sleep 1000') as terminal:
        next_frame(terminal)
        terminal.process.terminate()
        assert terminal.wait() == 128 + signal.SIGTERM
        assert last_screen(terminal)
    assert 'Process completed with status code: -15\n' in out.read_text()
    assert os.listdir(out.parent) == ['out.txt']


def test_ctrl_z_shows_what_was_there_before(out: Path) -> None:
    with redirected(out, '--live', '--', 'sleep', '1000') as terminal:
        next_frame(terminal)
        terminal.press('\x1a')
        eventually(lambda: state_of(terminal.process.pid) == 'T')
        assert terminal.shown.removesuffix('^Z').endswith(LEAVE)
        terminal.process.send_signal(signal.SIGCONT)
        next_frame(terminal)
        assert terminal.shown.count(ENTER) == 2
        terminal.process.terminate()
        assert terminal.wait() == 128 + signal.SIGTERM


def test_the_view_reads_the_recording_that_is_wanted(out: Path) -> None:
    path = out.parent / 'run.db'
    with redirected(out, '--live', f'--tf={path}', '--', 'sleep', '1000') as terminal:
        next_frame(terminal)
        terminal.process.terminate()
        terminal.wait()
        assert 'Processes' not in terminal.shown  # --per-process was not asked for
    assert sorted(os.listdir(out.parent)) == ['out.txt', 'run.db']
    meta = meta_of(path)
    assert (meta['ended'], meta['exit_code'], json.loads(meta['command'])) == ('stopped', -15, ['sleep', '1000'])


@pytest.mark.parametrize(
    ('redirection', 'logged'), [('2>{out}', 'written\n'), ('', 'written\ntoo\n')], ids=['output', 'both']
)
def test_what_the_command_would_write_to_the_terminal_goes_to_a_file(out: Path, redirection: str, logged: str) -> None:
    script = f'cd {out.parent}; exec "$@" {redirection.format(out=out)}'
    words = ['sh', '-c', script, 'sh', *PROGRAM, '--live', '-e', 'echo written; echo too >&2; read line; exit 3']
    with on_terminal(words, TMPDIR=str(out.parent)) as terminal:
        footer = eventually(lambda: next((one[-1] for one in frames(terminal)), None))
        terminal.press('\n')
        assert terminal.wait() == 3
        after = terminal.shown.rpartition(LEAVE)[2]
    [log] = out.parent.glob('*.log')
    assert (log.read_text(), log.stat().st_mode & 0o777) == (logged, 0o600)
    assert footer == f'Output: {log.name}. Ctrl-C reaches the command'
    assert f'{SAID}{log.name}\n' in (out.read_text() if redirection else after)
    assert 'Max RAM:\n' in after


def test_without_output_there_is_no_file_of_it(tmp_path: Path) -> None:
    script = f'cd {tmp_path}; exec "$@"'
    with on_terminal(['sh', '-c', script, 'sh', *PROGRAM, '--live', '--', 'true'], TMPDIR=str(tmp_path)) as terminal:
        assert terminal.wait() == 0
        assert SAID not in terminal.shown
    assert os.listdir(tmp_path) == []


def test_why_a_command_cannot_be_started_is_on_the_terminal(tmp_path: Path) -> None:
    script = f'cd {tmp_path}; exec "$@"'
    with on_terminal(['sh', '-c', script, 'sh', *PROGRAM, '--live', '--', 'no-such-program']) as terminal:
        assert terminal.wait() == 127
        assert terminal.shown == "gpu-tracker: cannot start 'no-such-program': No such file or directory\n"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ('words', 'variables', 'reason'),
    [
        ([], {'TERM': 'dumb'}, 'the terminal is a dumb one (TERM=dumb)'),
        (['--tf=run.csv'], {}, 'it reads the recording, and --tf names a CSV file'),
    ],
)
def test_where_there_can_be_no_view(out: Path, words: list[str], variables: dict[str, str], reason: str) -> None:
    words = [word.replace('run.csv', str(out.parent / 'run.csv')) for word in words]
    with redirected(out, '--live', *words, '-e', 'true', **variables) as terminal:
        assert terminal.wait() == 0
        assert terminal.shown == ''
    assert out.read_text().startswith(f'{NOTHING}{reason}\n{COMPLETE}')


def test_in_the_background_there_is_no_view(out: Path) -> None:
    script = f'set -m; "$@" > {out} 2>&1 & wait %1; echo "ended $?"'
    with on_terminal(['bash', '-c', script, 'bash', *PROGRAM, '--live', '--', 'true']) as terminal:
        assert terminal.wait() == 0
        assert terminal.shown.endswith('ended 0\n')
        assert '\x1b' not in terminal.shown
    assert out.read_text().startswith(f'{NOTHING}the run is not in the foreground of its terminal\n')


def test_without_a_terminal_there_is_no_view() -> None:
    done = gpu_tracker('--live', '--', 'true', start_new_session=True)
    assert (done.returncode, done.stderr.splitlines()[0]) == (0, f'{NOTHING}there is no terminal')
    quiet = gpu_tracker('--live', '--disable-logs', '--', 'true', start_new_session=True)
    assert (quiet.returncode, NOTHING in quiet.stderr) == (0, False)


def test_what_is_wrong_with_the_run_is_reported_as_without_a_view(out: Path) -> None:
    with redirected(out, '--live', '--', 'no-such-program') as terminal:
        assert terminal.wait() == 127
        assert terminal.shown == ''
    assert out.read_text() == "gpu-tracker: cannot start 'no-such-program': No such file or directory\n"
    assert os.listdir(out.parent) == ['out.txt']


def test_a_process_is_shown_while_it_is_tracked(sleeping: subprocess.Popen[bytes], tmp_path: Path) -> None:
    with tracker('--live', '--pid', sleeping.pid, TMPDIR=str(tmp_path)) as terminal:
        screen = next_frame(terminal)
        assert screen[0].startswith('sleep 1000 ')
        assert screen[-1] == 'Ctrl-C ends the tracking; the process goes on'
        terminal.press('\x03')
        assert terminal.wait() == 0
        assert last_screen(terminal)[0].startswith('sleep 1000 ')
        assert f'{COMPLETE}\nMax RAM:\n' in terminal.shown
    assert sleeping.poll() is None
    assert os.listdir(tmp_path) == []


def test_a_process_that_writes_to_this_terminal_is_tracked_without_a_view(tmp_path: Path) -> None:
    pipe, temporary = tmp_path / 'pipe', tmp_path / 'temporary'
    os.mkfifo(pipe)
    temporary.mkdir()
    script = f'cat {pipe} & exec "$@" $!'
    words = ['bash', '-c', script, 'bash', *PROGRAM, '--live', '--pid']
    with on_terminal(words, TMPDIR=str(temporary)) as terminal:
        whose = 'the standard output and the standard error of the process are on this terminal'
        eventually(lambda: f'{NOTHING}{whose}: use gpu-tracker watch in another one\n' in terminal.shown)
        pipe.write_text('')  # cat has what it waits for, and ends
        assert terminal.wait() == 0
        assert '\x1b' not in terminal.shown
    assert os.listdir(temporary) == []


@pytest.mark.parametrize('words', [['-e', 'true'], ['-f', 'json', 'true'], ['--pid=1', '--help']])
def test_what_draws_is_imported_only_where_it_is_asked_for(words: list[str]) -> None:
    program = (
        'import sys\nfrom gpu_tracker.cli import main\n'
        'code = main(sys.argv[1:])\n'
        'print([name for name in sys.modules if "views" in name or name.endswith("cli.live")], file=sys.stderr)'
    )
    done = subprocess.run(
        [sys.executable, '-c', program, *words], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == '[]'
