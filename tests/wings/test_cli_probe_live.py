"""``gpu-tracker probe --live``: on a terminal in place, in a pipe one below the other."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from support.cli_program import Terminal, text_of
from support.tracked_program import PACKAGE_PARENT, environment
from support.waiting import eventually

TESTS = Path(__file__).resolve().parent.parent
COMPLETE = 'CUDA probing complete.'
WIDE = ('sh', '-c', 'stty cols 120 rows 40; exec "$@"', 'sh')


def words(log: Path, *arguments: object) -> list[str]:
    return [
        sys.executable,
        '-m',
        'support.cuda.scripted_probe',
        str(log),
        '--live',
        '--interval=0.1',
        *map(str, arguments),
    ]


def variables(**more: str) -> dict[str, str]:
    return environment({'PYTHONPATH': f'{PACKAGE_PARENT}:{TESTS}', 'TERM': 'xterm', 'COLUMNS': '120', **more})


def watched(log: Path, *arguments: object, **more: str) -> Terminal:
    """Start probing in a terminal."""
    return Terminal([*WIDE, *words(log, *arguments)], variables(**more))


def test_a_terminal_shows_each_look_in_the_place_of_the_one_before(log: Path, target: subprocess.Popen[bytes]) -> None:
    with watched(log, '--pid', target.pid) as terminal:
        eventually(lambda: terminal.shown.count('\x1b[4A\x1b[J') >= 2)
        target.stdin.close()
        target.wait()
        assert terminal.wait() == 0
        frames = re.split(r'(?:\x1b\[4A)?\x1b\[J', terminal.shown)
    assert frames[0] == ''
    assert frames[1].startswith('CUDA calls, seen for 1.0 s through staged\n\n')
    assert frames[2].startswith('CUDA calls, seen for 2.0 s through staged; rates of the last 1.0 s\n\n')
    assert all('not GPU time' not in frame for frame in frames[:-1])
    end, _, report = frames[-1].partition('\n')
    assert end == COMPLETE
    assert report.startswith(f'CUDA calls, seen for {len(frames) - 1:.1f} s through staged\n\n')
    assert 'not GPU time' in report


@pytest.mark.parametrize('key', ['xxq', '\x03'])
def test_a_key_ends_the_looking_only(log: Path, target: subprocess.Popen[bytes], key: str) -> None:
    with watched(log, '--pid', target.pid) as terminal:
        eventually(lambda: '\x1b[J' in terminal.shown)
        terminal.press(key)
        assert terminal.wait() == 0
        assert f'{COMPLETE}\nCUDA calls, seen for' in terminal.shown
    assert target.poll() is None


def test_the_keyboard_is_left_as_it_was(log: Path, target: subprocess.Popen[bytes]) -> None:
    script = f'stty -a > {log}.before; "$@"; stty -a > {log}.after'
    command = ['sh', '-c', script, 'sh', *words(log, '--pid', target.pid)]
    with Terminal(command, variables()) as terminal:
        eventually(lambda: '\x1b[J' in terminal.shown)
        eventually(lambda: not termios.tcgetattr(terminal._keyboard)[3] & termios.ECHO)
        terminal.press('q')
        assert terminal.wait() == 0
    assert text_of(Path(f'{log}.after')) == text_of(Path(f'{log}.before'))


def test_in_the_background_no_key_is_taken(log: Path, target: subprocess.Popen[bytes]) -> None:
    # Reading there would stop it, and so would a change of the terminal's settings.
    script = 'set -m; "$@" & read line; kill -INT %1; wait %1; echo "ended $?"'
    with Terminal(['bash', '-c', script, 'bash', *words(log, '--pid', target.pid)], variables()) as terminal:
        eventually(lambda: '\x1b[J' in terminal.shown)
        terminal.press('q\n')
        terminal.wait()
        assert 'ended 0' in terminal.shown


def test_the_command_keeps_the_keyboard(log: Path) -> None:
    with watched(log, '-e', 'read line; echo "got $line"; exit 6') as terminal:
        eventually(lambda: '\x1b[J' in terminal.shown)
        terminal.press('q\n')
        assert terminal.wait() == 6
        assert 'got q\n' in terminal.shown
        assert f'{COMPLETE} Process completed with status code: 6\n' in terminal.shown


def test_with_a_file_the_last_look_stays_on_the_terminal(log: Path, tmp_path: Path) -> None:
    path = tmp_path / 'report'
    with watched(log, '-o', path, '--duration=0.1', '--', 'true') as terminal:
        terminal.wait()
        assert 'not GPU time' not in terminal.shown
    assert path.read_text().startswith('CUDA calls, seen for')


def test_in_a_pipe_each_look_stands_below_the_one_before(log: Path) -> None:
    with subprocess.Popen(
        words(log, '-e', 'read line'), env=variables(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        lines = [process.stdout.readline() for _ in range(10)]
        process.stdin.close()
        rest = process.stdout.read()
    assert lines[0] == 'CUDA calls, seen for 1.0 s through staged\n'
    assert lines[4] == '\n'
    assert lines[5] == 'CUDA calls, seen for 2.0 s through staged; rates of the last 1.0 s\n'
    assert 'not GPU time' in rest
    assert '\x1b' not in ''.join(lines) + rest


def test_json_is_one_object_a_line_and_the_last_one_tells_all(log: Path) -> None:
    with subprocess.Popen(
        words(log, '--json', '-e', 'read line'),
        env=variables(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        looks = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.stdin.close()
        looks += [json.loads(line) for line in process.stdout]
    assert [look['seconds'] for look in looks] == [float(number + 1) for number in range(len(looks))]
    assert [look['processes'][0]['ended'] for look in looks] == [False] * (len(looks) - 1) + [True]


def test_where_nobody_reads_any_more_the_looking_ends(log: Path, target: subprocess.Popen[bytes]) -> None:
    with subprocess.Popen(
        words(log, '--pid', target.pid), env=variables(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ''
    assert process.returncode == 128 + signal.SIGPIPE
    assert target.poll() is None


def test_where_nobody_reads_any_more_the_command_goes_on(log: Path) -> None:
    with subprocess.Popen(
        words(log, '-e', 'read line; exit 6'),
        env=variables(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        eventually(lambda: text_of(log).count('report\n') > 1)
        process.stdin.close()
        told = process.stderr.read()
    assert told == (
        f'{COMPLETE} Process completed with status code: 6\n'
        'gpu-tracker: cannot write the report to standard output: Broken pipe\n'
    )
    assert process.returncode == 6
