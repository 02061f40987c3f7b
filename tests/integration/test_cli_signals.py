from __future__ import annotations

import csv
import os
import shlex
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.cli_program import PROGRAM, Marked, Terminal, gpu_tracker, number_in, shell, started, state_of, text_of
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

COMPLETE = 'Resource tracking complete. Process completed with status code: '

# Writes down every signal that it gets, and ends at SIGTERM after some cleaning up, by its own decision.
LISTENER = """
import os, signal, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def note(number, frame):
    os.write(log, (signal.Signals(number).name + '\\n').encode())
    if number == signal.SIGTERM:
        sys.exit(9)
for name in ('SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'):
    signal.signal(getattr(signal, name), note)
reading, writing = os.pipe()
os.set_blocking(writing, False)
signal.set_wakeup_fd(writing)  # pause() would not see a signal that comes just before it
os.write(log, b'ready\\n')
while True:
    os.read(reading, 1)
"""


@pytest.fixture
def listener(tmp_path: Path) -> list[str]:
    (tmp_path / 'listener.py').write_text(LISTENER)
    return [sys.executable, str(tmp_path / 'listener.py'), str(tmp_path / 'log')]


def noted(log: Path, *names: str) -> None:
    """Wait until the listener has noted these signals, in this order."""
    expected = ''.join(f'{name}\n' for name in ('ready', *names))
    eventually(lambda: len(text_of(log)) >= len(expected))
    assert text_of(log) == expected


@pytest.mark.parametrize('name', ['SIGINT', 'SIGHUP', 'SIGUSR1'])
def test_a_signal_sent_to_us_reaches_the_command_once(listener: list[str], log: Path, name: str) -> None:
    with started('-e', shlex.join(listener)) as process:
        noted(log)
        process.send_signal(signal.Signals[name])
        noted(log, name)
        process.terminate()
        output, errors = process.communicate()
    noted(log, name, 'SIGTERM')
    assert errors == f'{COMPLETE}9\n'
    assert output.startswith('Max RAM:')
    assert process.returncode == 9


@pytest.mark.parametrize('name', ['SIGTERM', 'SIGQUIT'])
def test_a_command_that_dies_of_a_signal_gives_its_exit_code_and_a_report(tmp_path: Path, name: str) -> None:
    number = signal.Signals[name]
    with started('-e', f'ulimit -c 0; echo $$ > {tmp_path}/pid; exec sleep 1000') as process:
        number_in(tmp_path / 'pid')
        process.send_signal(number)
        output, errors = process.communicate()
    assert errors == f'{COMPLETE}-{number}\n'
    assert output.startswith('Max RAM:')
    assert process.returncode == 128 + number


def test_a_hangup_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    command = f'echo $$ > {tmp_path}/pid; read line; exit 6'
    script = f'trap \'\' HUP; exec "$@" 2> {tmp_path}/errors'
    words = ['/bin/bash', '-c', script, 'bash', *PROGRAM, '-o', '/dev/null', '-e', command]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        child = number_in(tmp_path / 'pid')
        process.send_signal(signal.SIGHUP)
        os.kill(child, signal.SIGHUP)
        process.communicate(b'\n')
    assert process.returncode == 6


def test_an_ignored_child_signal_loses_no_exit_code() -> None:
    run = shell('trap \'\' CHLD; exec "$@"', '-o', '/dev/null', '-e', 'exit 6')
    assert run.returncode == 6


def test_a_stopped_command_is_not_an_ended_one(tmp_path: Path) -> None:
    with started(
        '-o', '/dev/null', '-e', f'echo $$ > {tmp_path}/pid; read line; exit 6', stdin=subprocess.PIPE
    ) as process:
        child = number_in(tmp_path / 'pid')
        os.kill(child, signal.SIGSTOP)
        eventually(lambda: state_of(child) == 'T')
        os.kill(child, signal.SIGCONT)
        process.communicate('\n')
    assert process.returncode == 6


def test_ctrl_c_in_a_terminal_reaches_the_command_once(listener: list[str], log: Path) -> None:
    with Terminal([*PROGRAM, '-e', shlex.join(listener)]) as terminal:
        noted(log)
        terminal.press('\x03')
        noted(log, 'SIGINT')
        terminal.process.terminate()
        assert terminal.wait() == 9
        noted(log, 'SIGINT', 'SIGTERM')
        assert f'{COMPLETE}9\nMax RAM:' in terminal.shown


def test_ctrl_backslash_in_a_terminal_reaches_the_command_once(listener: list[str], log: Path) -> None:
    with Terminal([*PROGRAM, '-e', shlex.join(listener)]) as terminal:
        noted(log)
        terminal.press('\x1c')
        noted(log, 'SIGQUIT')
        terminal.process.terminate()
        assert terminal.wait() == 9
        noted(log, 'SIGQUIT', 'SIGTERM')


def test_ctrl_c_ends_a_plain_command_and_the_report_comes() -> None:
    marked = Marked()
    with Terminal([*PROGRAM, '-e', 'sleep 1000; echo too late'], marked.environment) as terminal:
        # A shell that is just about to start a program loses a Ctrl-C, with or without us.
        eventually(lambda: marked.processes('sleep\0' + '1000'))
        terminal.press('\x03')
        assert terminal.wait() == 130
        assert f'{COMPLETE}-2\nMax RAM:' in terminal.shown
        assert 'too late' not in terminal.shown
        assert 'Traceback' not in terminal.shown


def test_ctrl_c_reaches_a_command_in_a_process_group_of_its_own(listener: list[str], log: Path) -> None:
    # timeout(1) makes such a group; the terminal then sends to ours alone.
    with Terminal([*PROGRAM, '-e', shlex.join(['timeout', '1000', *listener])]) as terminal:
        noted(log)
        terminal.press('\x03')
        eventually(lambda: 'SIGINT' in text_of(log))
        terminal.process.terminate()
        terminal.wait()
        assert COMPLETE in terminal.shown


def test_ctrl_z_stops_and_fg_continues(tmp_path: Path) -> None:
    command = f'echo $$ > {tmp_path}/pid; echo started; read line; echo "got $line"; exit 6'
    words = shlex.join([*PROGRAM, '-e', command])
    script = f'set -m; {words}; echo "stopped $?"; read line; fg; echo "ended $?"'
    with Terminal(['/bin/bash', '-c', script]) as terminal:
        eventually(lambda: 'started\n' in terminal.shown)
        child = number_in(tmp_path / 'pid')
        terminal.press('\x1a')
        eventually(lambda: 'stopped 148' in terminal.shown)
        eventually(lambda: state_of(child) == 'T')  # the shell may hear of us before the command has run again to stop
        terminal.press('go on\n')
        eventually(lambda: state_of(child) == 'S')
        terminal.press('text\n')
        terminal.wait()
        assert 'got text\n' in terminal.shown
        assert f'{COMPLETE}6\n' in terminal.shown
        assert 'ended 6' in terminal.shown


def test_a_closed_terminal_ends_the_command_and_the_file_has_the_report(tmp_path: Path) -> None:
    marked = Marked()
    path = tmp_path / 'report'
    words = [*PROGRAM, '-o', str(path), '-e', f'echo $$ > {tmp_path}/pid; sleep 1000']
    with Terminal(words, marked.environment) as terminal:
        number_in(tmp_path / 'pid')
        # We lead the session here: the terminal tells nobody but us.
        terminal.close()
        terminal.process.wait()
        assert terminal.process.returncode == 129
    assert text_of(path).startswith('Max RAM:')
    eventually(lambda: marked.processes('gpu_tracker') == [])
    for left in marked.processes():
        os.kill(left, signal.SIGKILL)


def test_a_closed_terminal_under_a_shell_ends_everything(tmp_path: Path) -> None:
    marked = Marked()
    path = tmp_path / 'report'
    words = shlex.join([*PROGRAM, '-o', str(path), '-e', f'echo $$ > {tmp_path}/pid; exec sleep 1000'])
    with Terminal(['/bin/bash', '-c', f'set -m; {words}; echo after'], marked.environment) as terminal:
        number_in(tmp_path / 'pid')
        terminal.close()
        eventually(lambda: marked.processes() == [])
    assert text_of(path).startswith('Max RAM:')


def test_killed_itself_it_leaves_the_line_of_a_table(tmp_path: Path) -> None:
    marked = Marked()
    path = tmp_path / 'runs.csv'
    assert gpu_tracker('-f', 'csv', '--append', '-o', str(path), 'sh', '-c', 'exit 3').returncode == 3
    words = ['-f', 'csv', '--append', '-o', str(path), 'sh', '-c', f'echo $$ > {tmp_path}/pid; exec sleep 1000']
    with started(*words, env=marked.environment) as run:
        child = number_in(tmp_path / 'pid')
        run.kill()
        run.wait()
        os.kill(child, signal.SIGKILL)
        eventually(lambda: marked.processes('gpu_tracker') == [])
    with path.open(newline='') as file:
        first, second = csv.DictReader(file)
    assert [first['command'], first['exit_code'], second['exit_code']] == ["sh -c 'exit 3'", '3', '']
    assert second['command'].startswith("sh -c 'echo $$ >")
    assert float(second['max_ram.main.total_rss']) > 0


def test_killed_with_the_terminal_open_no_sampler_is_left(tmp_path: Path) -> None:
    marked = Marked()
    with Terminal([*PROGRAM, '-e', f'echo $$ > {tmp_path}/pid; exec sleep 1000'], marked.environment) as terminal:
        child = number_in(tmp_path / 'pid')
        terminal.process.kill()
        eventually(lambda: marked.processes('gpu_tracker') == [])
        os.kill(child, signal.SIGKILL)


def test_a_signal_before_the_command_starts_leaves_nothing_behind(tmp_path: Path) -> None:
    marked = Marked()
    for number in (signal.SIGINT, signal.SIGTERM):
        with started(
            '-o', str(tmp_path / 'report'), '-e', f'sleep 0; exec touch {tmp_path}/ran', env=marked.environment
        ) as process:
            # Whenever it arrives: the process ends, with or without having run the command, and nothing goes on.
            process.send_signal(number)
            process.communicate()
        eventually(lambda: marked.processes() == [])


def test_a_command_that_may_not_be_signaled_is_no_error_of_ours() -> None:
    # Stands for sudo, whose process belongs to another user.
    probe = (
        'import os, signal\n'
        'from gpu_tracker.running import supervise\n'
        'class Refused:\n'
        '    def __call__(self, *_):\n'
        '        raise PermissionError\n'
        'child = os.fork()\n'
        'if child == 0:\n'
        '    os.read(0, 1)\n'
        '    os._exit(4)\n'
        'supervise.hold_signals()\n'
        'os.kill(os.getpid(), signal.SIGUSR1)\n'
        'os.kill = Refused()\n'
        "print('waiting', flush=True)\n"
        'supervise.wait_for_end(child)\n'
        'print(os.waitstatus_to_exitcode(os.wait4(child, 0)[1]))\n'
    )
    run = subprocess.run([sys.executable, '-c', probe], input='\n', capture_output=True, text=True, check=True)
    assert run.stdout == 'waiting\n4\n'
