"""The tracker in programs with unusual descriptors, signals and limits, and with an interpreter that cannot be used."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING

import pytest

import gpu_tracker as gput
from support.tracked_program import answer, run, run_words

if TYPE_CHECKING:
    from pathlib import Path

TRACKED = """
import gpu_tracker as gput
with gput.Tracker(ram_unit='bytes') as tracker:
    data = b'x' * 30_000_000
seen = tracker.resource_usage.max_ram.main.total_rss > 30_000_000
"""


@pytest.mark.parametrize('closed', ['<&-', '>&- 2>&-', '<&- >&- 2>&-'])
def test_standard_descriptors_that_are_closed(tmp_path: Path, closed: str):
    program = f'{TRACKED}\nopen({str(tmp_path / "seen")!r}, "w").write(str(seen))\n'
    run_words(['/bin/sh', '-c', f'exec {sys.executable} -c {shlex.quote(program)} {closed}'])
    assert (tmp_path / 'seen').read_text() == 'True'


def test_all_signals_blocked():
    assert (
        run(f"""
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
{TRACKED}
print(seen, sorted(signal.sigpending()))
""").stdout
        == 'True []\n'
    )


def test_all_signals_ignored():
    assert (
        run(f"""
import signal
for number in signal.valid_signals() - {{signal.SIGKILL, signal.SIGSTOP}}:
    signal.signal(number, signal.SIG_IGN)
{TRACKED}
print(seen)
""").stdout
        == 'True\n'
    )


def test_children_that_are_ignored():
    assert (
        run(f"""
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
{TRACKED}
try:
    os.wait()
except ChildProcessError:
    print(seen)
""").stdout
        == 'True\n'
    )


def test_stop_does_not_kill_a_program_with_the_default_action_for_broken_pipes():
    assert (
        run("""
import os, select, signal
import gpu_tracker as gput
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
with gput.Tracker(disable_logs=True) as tracker:
    sampler = tracker._run.session.pid
    handle = os.pidfd_open(sampler)
    os.kill(sampler, signal.SIGKILL)
    select.select([handle], [], [])
print(tracker.resource_usage.max_ram.main.total_rss > 0)
""").stdout
        == 'True\n'
    )


def test_a_small_limit_on_open_files():
    assert (
        run(f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
{TRACKED}
print(seen)
""").stdout
        == 'True\n'
    )


def test_no_open_file_left_gives_a_clear_error_and_no_leak():
    lines = run("""
import os, resource
import gpu_tracker as gput
tracker = gput.Tracker()
open_files = os.listdir('/proc/self/fd')
for spare in range(12):
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(open_files) - 1 + spare, 1000))
    try:
        tracker.start()
    except RuntimeError as error:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 1000))
        print(str(error).partition(':')[0], os.listdir('/proc/self/fd') == open_files)
    else:
        tracker.stop()
        break
print(tracker.state.name)
""").stdout.splitlines()
    assert set(lines[:-1]) == {'The sampler could not be started True'}
    assert lines[-1] == 'STOPPED'


def test_a_limit_on_the_size_of_files():
    assert (
        run(f"""
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
{TRACKED}
print(seen)
""").stdout
        == 'True\n'
    )


ADVICE = 'Set sys.executable to the path of a Python interpreter before the tracker is started.'
WHY = 'The sampler runs in a Python interpreter of its own, but sys.executable '


def refused(monkeypatch: pytest.MonkeyPatch, executable: object) -> str:
    """Return the error of a tracker that is started with ``executable`` as the interpreter."""
    monkeypatch.setattr(sys, 'executable', executable and str(executable))
    tracker = gput.Tracker()
    with pytest.raises(RuntimeError) as error:
        tracker.start()
    assert repr(tracker) == 'State: NEW'
    return str(error.value)


def test_no_interpreter_is_a_clear_error(monkeypatch: pytest.MonkeyPatch):
    assert refused(monkeypatch, None) == f'{WHY}is not set. {ADVICE}'


def test_a_file_that_may_not_be_executed_is_no_interpreter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    path = tmp_path / 'python3'
    path.write_text('')
    assert refused(monkeypatch, path) == f"{WHY}is '{path}', which is no executable file. {ADVICE}"


def test_another_program_is_never_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    application = tmp_path / 'application'
    application.write_text(f'#!/bin/sh\necho started >> {tmp_path}/log\n')
    application.chmod(0o755)
    problem = f"is '{application}', which is not a Python interpreter by its name"
    assert refused(monkeypatch, application) == f'{WHY}{problem}. {ADVICE}'
    assert not (tmp_path / 'log').exists()


def test_an_interpreter_that_does_not_start_gives_its_own_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    broken = tmp_path / 'python3'
    broken.write_text('#!/bin/sh\necho "no library" >&2\nexit 127\n')
    broken.chmod(0o755)
    assert refused(monkeypatch, broken) == 'The sampler ended before its first sample: no library'


def test_a_frozen_program_is_never_started_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, 'frozen', True, raising=False)
    executable = sys.executable
    assert refused(monkeypatch, executable) == f'{WHY}is {executable!r}, a frozen program. {ADVICE}'


def test_a_wrapper_with_the_name_of_an_interpreter_is_taken(tmp_path: Path):
    wrapper = tmp_path / 'python'
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    assert run(f'import sys\nsys.executable = {str(wrapper)!r}\n{TRACKED}\nprint(seen)').stdout == 'True\n'


def test_descriptors_that_the_program_has_closed_are_left_alone_and_the_file_keeps_the_result(tmp_path: Path):
    told, texts, kept = answer(
        """
import json, os, sys
import gpu_tracker as gput
tracker = gput.Tracker(sleep_time=0.01, resource_usage_file=sys.argv[1])
tracker.start()
os.closerange(3, 100)
others = [os.open(sys.argv[2], os.O_RDWR | os.O_CREAT) for _ in range(100)]
texts = []
for ask in (tracker.so_far, tracker.stop):
    try:
        ask()
    except RuntimeError as error:
        texts.append(str(error))
print(json.dumps([repr(tracker), texts, all(os.fstat(other).st_size == 0 for other in others)]))
""",
        tmp_path / 'usage.json',
        tmp_path / 'other',
    )
    assert told == 'State: STOPPED'
    closed = (
        'The program has closed descriptors of the tracker, as daemons do that close all, and with them the result. '
        'A resource_usage_file keeps it.'
    )
    assert texts == [closed, closed]
    assert kept
    assert 'max_ram' in json.loads((tmp_path / 'usage.json').read_text())


def test_a_reader_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv('GPU_TRACKER_READER', 'bogus')
    with pytest.raises(ValueError, match='GPU_TRACKER_READER') as error:
        gput.Tracker().start()
    assert str(error.value) == "the environment variable GPU_TRACKER_READER must be proc or psutil, not 'bogus'"
