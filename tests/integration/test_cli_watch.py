"""``gpu-tracker watch``: recordings and processes on a terminal, and what is left of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.cli_program import called, gpu_tracker, state_of
from support.gpus.gpu_machine import GB, Machine
from support.live_screens import ENTER, LEAVE, UNTIL_TOLD, frames, next_frame, recorded, tracker
from support.recorder_runs import meta_of
from support.recordings import busy_rows, write_recording
from support.simulated_nvml import Gpu, Process
from support.tracked_program import environment
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = re.compile(r' {41}now  last \d+ (s|min) +peak')


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'run.db'


@pytest.fixture(scope='module')
def going_on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give the recording of a run that goes on, whatever a test does with a view of it."""
    found = tmp_path_factory.mktemp('going-on') / 'run.db'
    with recorded(found, '--per-process') as run:
        yield found
        assert run.poll() is None
        run.communicate('\n')
        assert run.returncode == 0


@pytest.fixture
def sleeping(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that runs until it is ended."""
    with subprocess.Popen(['sleep', '1000']) as process:
        yield process
        process.kill()


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """Return the folder for temporary files."""
    folder = tmp_path / 'temporary'
    folder.mkdir()
    return folder


def test_a_run_is_shown_while_it_goes_on(going_on: Path) -> None:
    with tracker('watch', going_on) as terminal:
        screen = eventually(lambda: next((one for one in frames(terminal) if 'Open regions' in str(one)), None))
        command = re.fullmatch(r'(.+)… +pid \d+ on \S+, [\d.]+ m?s', screen[0])[1]
        assert f'{sys.executable} -c {UNTIL_TOLD}'.replace('\n', ' ').startswith(command)
        assert HEADER.fullmatch(screen[2])
        assert re.fullmatch(r'RAM {9}[█░]{13} +[\d.]+ MB of [\d.]+ [GT]B +[▁-█]+ +[\d.]+ MB', screen[3])
        assert re.fullmatch(r'CPU {9}[█░]{13} +\d+% of \d+% +[▁-█]+ +\d+%', screen[4])
        assert any(re.fullmatch(r'python\S* +\d+ +\d+% +[\d.]+ MB', line) for line in screen)
        assert any(re.fullmatch(r'waiting n=3 +[\d.]+ m?s', line) for line in screen)
        assert screen[-1] == 'q ends the view; the program goes on'
        terminal.press('q')
        assert terminal.wait() == 0
        assert terminal.shown.startswith(ENTER)
        assert terminal.shown.endswith(LEAVE)


def test_later_screens_show_what_was_recorded_since(going_on: Path) -> None:
    def seconds(screen: list[str]) -> float:
        number, unit = re.search(r'([\d.]+) (m?s)$', screen[0]).groups()
        return float(number) / (1000 if unit == 'ms' else 1)

    with tracker('watch', going_on) as terminal:
        first = seconds(next_frame(terminal))
        eventually(lambda: seconds(frames(terminal)[-1]) > first + 1)


@pytest.mark.parametrize('key', ['Q', 'xxq'])
def test_the_terminal_is_left_as_it_was(going_on: Path, key: str) -> None:
    with tracker('watch', going_on) as terminal:
        eventually(lambda: frames(terminal) and terminal.settings != terminal.settings_before)
        terminal.press(key)
        assert terminal.wait() == 0
        assert terminal.settings == terminal.settings_before
        assert terminal.shown.count(ENTER) == terminal.shown.count(LEAVE) == 1


def test_ctrl_c_ends_the_view_and_not_the_program(going_on: Path) -> None:
    with tracker('watch', going_on) as terminal:
        next_frame(terminal)
        terminal.press('\x03')
        assert terminal.wait() == -signal.SIGINT
        assert terminal.shown.removesuffix('^C').endswith(LEAVE)
        assert terminal.settings == terminal.settings_before


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGQUIT])
def test_a_signal_leaves_the_terminal_as_it_was(going_on: Path, number: signal.Signals) -> None:
    with tracker('watch', going_on) as terminal:
        next_frame(terminal)
        terminal.process.send_signal(number)
        assert terminal.wait() == -number
        assert terminal.shown.endswith(LEAVE)
        assert terminal.settings == terminal.settings_before


def test_ctrl_z_stops_the_view_and_it_goes_on(going_on: Path) -> None:
    with tracker('watch', going_on) as terminal:
        next_frame(terminal)
        terminal.press('\x1a')
        eventually(lambda: state_of(terminal.process.pid) == 'T')
        assert terminal.settings == terminal.settings_before
        eventually(lambda: terminal.shown.removesuffix('^Z').endswith(LEAVE))
        terminal.process.send_signal(signal.SIGCONT)
        next_frame(terminal)
        assert terminal.shown.count(ENTER) == 2
        terminal.press('q')
        assert terminal.wait() == 0


def test_a_window_that_is_closed_ends_the_view(going_on: Path) -> None:
    with tracker('watch', going_on) as terminal:
        next_frame(terminal)
        terminal.close()
        assert terminal.wait() == -signal.SIGHUP


def test_another_size_is_seen_at_the_next_drawing(going_on: Path) -> None:
    with tracker('watch', going_on) as terminal:
        assert max(map(len, next_frame(terminal))) == 80
        terminal.resize(40, 6)
        small = next_frame(terminal)
        assert len(small) <= 6
        assert max(map(len, small)) <= 40
        terminal.resize(200, 50)
        assert max(map(len, next_frame(terminal))) == 200


def test_the_last_screen_stays_when_the_run_has_ended(path: Path) -> None:
    with recorded(path) as run, tracker('watch', path) as terminal:
        next_frame(terminal)
        run.communicate('\n')
        assert terminal.wait() == 0
        left = terminal.shown.rpartition(LEAVE)[2].splitlines()
    assert re.fullmatch(r' {40}last  last 30 s {21}peak', left[2])
    assert left[3].startswith('RAM  ')
    assert left[-2:] == ['', 'The run has ended with exit code 0.']


def test_a_recording_whose_sampler_was_killed_is_over(path: Path) -> None:
    with recorded(path) as run, tracker('watch', path) as terminal:
        next_frame(terminal)
        [sampler] = eventually(lambda: samplers_of(path))
        os.kill(sampler, signal.SIGKILL)
        assert terminal.wait() == 0
        assert terminal.shown.endswith('The recording has ended before the run: its sampler was killed.\n')
        run.communicate('\n')


def samplers_of(path: Path) -> list[int]:
    """Return the processes that have a recording open for writing, but for its reader."""
    found = []
    for name in filter(str.isdigit, os.listdir('/proc')):
        try:
            for handle in os.listdir(f'/proc/{name}/fd'):
                flags = int(Path(f'/proc/{name}/fdinfo/{handle}').read_text().split()[3], 8)
                if os.readlink(f'/proc/{name}/fd/{handle}') == str(path) and flags & os.O_ACCMODE != os.O_RDONLY:
                    found.append(int(name))
                    break
        except OSError:
            continue
    return found


def test_a_run_that_has_ended_is_shown_once(path: Path) -> None:
    write_recording(path, rows=busy_rows())
    with tracker('watch', path) as terminal:
        assert terminal.wait() == 0
        shown = terminal.shown
    assert shown == called('watch', str(path)).stdout
    assert shown == (
        'python train.py                                        pid 4242 on node1, 10.0 s\n'
        '\n'
        '                                        last  last 30 s                     peak\n'
        'RAM         ░░░░░░░░░░░░░ 21.0 MB of 17.2 GB                 ▂▂▂▃▃▃▃▃    62.2 MB\n'
        'CPU         ██░░░░░░░░░░░       100% of 800%                 ████████        21%\n'
        '\n'
        'The run has ended with exit code 0.\n'
    )


def test_without_a_terminal_one_screen_is_printed(going_on: Path) -> None:
    done = gpu_tracker('watch', str(going_on))
    assert (done.returncode, done.stderr) == (0, '')
    assert HEADER.fullmatch(done.stdout.splitlines()[2])
    assert '\x1b' not in done.stdout
    assert 'q ends' not in done.stdout


def test_a_dumb_terminal_gets_one_screen_too(going_on: Path) -> None:
    with tracker('watch', going_on, TERM='dumb') as terminal:
        assert terminal.wait() == 0
        assert '\x1b' not in terminal.shown
        assert re.search(r'^RAM {9}[#-]{13} ', terminal.shown, re.MULTILINE)


def test_colours_are_for_those_who_want_them(path: Path) -> None:
    write_recording(path, rows=busy_rows())

    def shown(*words: str, **variables: str) -> str:
        with tracker('watch', path, *words, **variables) as terminal:
            assert terminal.wait() == 0
            return terminal.shown

    assert '\x1b[32m██░' in shown(NO_COLOR='')
    assert '\x1b' not in shown('--no-color', NO_COLOR='')


def test_a_process_is_tracked_while_it_is_watched(sleeping: subprocess.Popen[bytes], temporary: Path) -> None:
    with tracker('watch', sleeping.pid, TMPDIR=str(temporary)) as terminal:
        screen = eventually(lambda: next((one for one in frames(terminal) if 'Processes' in str(one)), None))
        assert re.fullmatch(rf'sleep 1000 +pid {sleeping.pid} on \S+, .*', screen[0])
        assert any(re.fullmatch(rf'sleep +{sleeping.pid} +(\d+%|N/A) +[\d.]+ [kM]B', line) for line in screen)
        terminal.press('q')
        assert terminal.wait() == 0
        assert terminal.shown.endswith(LEAVE)
    assert sleeping.poll() is None
    assert os.listdir(temporary) == []


def test_nothing_is_left_of_a_watched_process_after_a_signal(
    sleeping: subprocess.Popen[bytes], temporary: Path
) -> None:
    with tracker('watch', sleeping.pid, TMPDIR=str(temporary)) as terminal:
        next_frame(terminal)
        terminal.process.terminate()
        assert terminal.wait() == -signal.SIGTERM
        assert terminal.shown.endswith(LEAVE)
    assert sleeping.poll() is None
    assert os.listdir(temporary) == []


def test_the_end_of_a_watched_process_ends_the_view(sleeping: subprocess.Popen[bytes], temporary: Path) -> None:
    with tracker('watch', sleeping.pid, TMPDIR=str(temporary)) as terminal:
        next_frame(terminal)
        sleeping.kill()
        sleeping.wait()
        assert terminal.wait() == 0
        left = terminal.shown.rpartition(LEAVE)[2].splitlines()
    assert left[0].startswith('sleep 1000 ')
    assert left[-1] == 'The process has ended.'
    assert os.listdir(temporary) == []


def test_a_process_without_a_terminal(sleeping: subprocess.Popen[bytes], temporary: Path) -> None:
    done = gpu_tracker('watch', str(sleeping.pid), env=environment({'TMPDIR': str(temporary)}))
    assert (done.returncode, done.stderr) == (0, '')
    assert done.stdout.startswith('sleep 1000 ')
    assert re.search(r'^CPU {9}░{13} +0% ', done.stdout, re.MULTILINE)
    assert sleeping.poll() is None
    assert os.listdir(temporary) == []


def test_a_file_whose_name_is_a_number_is_a_file(tmp_path: Path) -> None:
    write_recording(tmp_path / '1', rows=busy_rows())
    assert 'The run has ended with exit code 0.' in called('watch', '1', cwd=tmp_path).stdout


USAGE = "these arguments do not fit. Usage:\n  gpu-tracker watch <run> [options]\nTry 'gpu-tracker watch --help'."


@pytest.mark.parametrize(
    ('words', 'complaint'),
    [
        (
            ['99999999'],
            (
                "what to watch must be a recording or the ID of a running process, not '99999999'. It has "
                'ended, or it is in a container and has another ID there. See "gpu-tracker explain no-such-process".'
            ),
        ),
        (['no-such-file'], 'cannot read no-such-file: No such file or directory'),
        (
            [sys.executable],
            f'{sys.executable} is not a gpu-tracker recording',
        ),
        ([], USAGE.replace('these arguments do not fit', '<run> is missing')),
        (['a', 'b'], USAGE),
    ],
)
def test_what_cannot_be_watched(words: list[str], complaint: str) -> None:
    done = called('watch', *words)
    assert (done.returncode, done.stdout, done.stderr) == (125, '', f'gpu-tracker: {complaint}\n')


def test_the_help_fits_a_terminal() -> None:
    done = called('watch', '--help')
    assert done.stdout.startswith('Shows a run live')
    assert max(map(len, done.stdout.splitlines())) <= 84


@pytest.mark.machine(gpus=[Gpu(total=10 * GB, used=GB)])
def test_a_wide_screen_shows_the_command_and_the_gpu_memory_of_each_process(path: Path, machine: Machine) -> None:
    with recorded(path, '--per-process', env=machine.environment()), tracker('watch', path) as terminal:
        root = int(meta_of(path)['root_pid'])
        machine.write(gpus=[Gpu(total=10 * GB, used=GB, processes=[Process(root, memory=GB // 2)])])
        next_frame(terminal)
        terminal.resize(200, 50)
        command = f'{sys.executable} -c {UNTIL_TOLD}'.replace('\n', '?')[: 200 - 76]
        pattern = rf'\S+ +{root} +\d+% +[\d.]+ MB +500 MB  {re.escape(command)}'
        eventually(lambda: any(re.match(pattern, line) for line in next_frame(terminal)))


@pytest.mark.machine(gpus=[Gpu(total=10 * GB, used=GB, util=37)])
def test_the_gpus_of_the_machine(path: Path, machine: Machine) -> None:
    with recorded(path, env=machine.environment()), tracker('watch', path) as terminal:
        screen = eventually(lambda: next((one for one in frames(terminal) if 'not used' in str(one)), None))
    assert 'GPUs that the run has not used' in screen
    assert any(re.fullmatch(r'GPU 0 RAM {3}█░{12} +1\.\d\d of 10\.\d GB +█+ +1\.\d\d GB', line) for line in screen)
    assert any(re.fullmatch(r'GPU 0 {7}█{5}░{8} +37% +█+ +37%', line) for line in screen)
