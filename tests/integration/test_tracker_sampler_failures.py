"""What becomes of a run whose sampler is ended or hangs, and of one whose file cannot be written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

import gpu_tracker as gput
from support.tracked_program import PACKAGE_PARENT, Samplers, answer, as_root, environment, run, start
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from pathlib import Path

LOGGING = """
import json, logging, os, sys
import gpu_tracker as gput
records = []
handler = logging.Handler(logging.WARNING)
handler.emit = records.append
logging.getLogger().addHandler(handler)

def texts():
    return [f'{record.levelname} {record.name} {record.getMessage()}' for record in records]
"""


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged, without the levels below a warning."""
    return [f'{record.levelname} {record.name} {record.message}' for record in caplog.records if record.levelno >= 30]


def kill_sampler(tracker: gput.Tracker) -> None:
    """Kill the sampler, and wait until it has ended."""
    pid = tracker._run.session.pid
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not os.path.exists(f'/proc/{pid}/exe'))


def test_a_killed_sampler_costs_one_warning_and_not_the_result(caplog: pytest.LogCaptureFixture):
    with gput.Tracker() as tracker:
        kill_sampler(tracker)
    assert warnings_in(caplog) == [
        'WARNING gpu_tracker The sampler was ended from outside; the result is what it had measured until then.'
    ]
    assert tracker.resource_usage.max_ram.main.total_rss > 0


def test_a_sampler_that_was_stopped_by_a_signal_leaves_a_result_that_is_marked(caplog: pytest.LogCaptureFixture):
    with gput.Tracker(join_timeout=TIMEOUT) as tracker:
        os.kill(tracker._run.session.pid, signal.SIGSTOP)
    (warning,) = warnings_in(caplog)
    assert 'The sampler was stopped by a signal, and ended; the result is what it had measured until then.' in warning
    assert tracker.resource_usage.max_ram.main.total_rss > 0
    assert set(tracker.sampling.lower_bounds.values()) == {'the sampler ended before the run'}


def test_a_sampler_that_fails_says_why_and_the_result_is_what_it_had_until_then():
    warnings, seen = answer(
        LOGGING
        + """
import resource, subprocess, time
with gput.Tracker(sleep_time=0.01, ram_unit='bytes') as tracker:
    sampler = tracker._run.session.pid
    resource.prlimit(sampler, resource.RLIMIT_NOFILE, (0, 0))  # it cannot look for the next new process
    subprocess.run(['true'])
    while os.path.exists(f'/proc/{sampler}/exe'):
        time.sleep(0.01)
print(json.dumps([texts(), tracker.resource_usage.max_ram.main.total_rss > 0]))
"""
    )
    assert seen
    assert len(warnings) == 1
    assert warnings[0].startswith(
        'WARNING gpu_tracker The sampler has failed; the result is what it had measured until then. OSError: [Errno 24]'
    )


def test_disable_logs_keeps_quiet_about_an_ended_sampler(caplog: pytest.LogCaptureFixture):
    with gput.Tracker(disable_logs=True) as tracker:
        kill_sampler(tracker)
    assert warnings_in(caplog) == []


def test_a_file_that_cannot_be_written_any_more_costs_one_warning_and_not_the_result(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    folder = tmp_path / 'folder'
    folder.mkdir()
    usage = folder / 'usage.json'
    with gput.Tracker(sleep_time=0.01, resource_usage_file=usage) as tracker:
        shutil.rmtree(folder)
    reason = 'No such file or directory'
    assert warnings_in(caplog) == [f'WARNING gpu_tracker The resource usage could not be written to {usage}: {reason}.']
    assert tracker.resource_usage.max_ram.main.total_rss > 0


@as_root  # only root may name a file in /dev
def test_a_full_disk_costs_one_warning_and_not_the_result(caplog: pytest.LogCaptureFixture):
    with gput.Tracker(sleep_time=0.01, resource_usage_file='/dev/full') as tracker:
        pass
    reason = 'No space left on device'
    assert warnings_in(caplog) == [
        f'WARNING gpu_tracker The resource usage could not be written to /dev/full: {reason}.'
    ]
    assert tracker.resource_usage.max_ram.main.total_rss > 0


def test_readers_of_the_file_always_find_a_whole_result(tmp_path: Path):
    usage = tmp_path / 'usage.json'
    writer = """
import sys
import gpu_tracker as gput
with gput.Tracker(sleep_time=0.001, resource_usage_file=sys.argv[1]):
    print('started', flush=True)
    input()
"""
    with start(writer, usage, stdin=subprocess.PIPE) as program:
        assert program.stdout.readline() == 'started\n'
        versions: set[int] = set()

        def another_version() -> bool:
            with usage.open() as file:
                report = json.load(file)
                versions.add(os.fstat(file.fileno()).st_ino)
            assert list(report)[-1] == 'compute_time'
            return len(versions) > 1

        eventually(another_version)
        program.communicate('\n')
    assert json.loads(usage.read_text())['compute_time']['time'] > 0


def test_the_file_says_at_the_end_what_the_tracker_says(tmp_path: Path):
    path = tmp_path / 'usage.json'
    with gput.Tracker(resource_usage_file=path, ram_unit='megabytes', time_unit='minutes') as tracker:
        pass
    assert tracker.to_json()['compute_time']['unit'] == 'minutes'
    assert json.loads(path.read_text()) == tracker.to_json()


def change_sampler(folder: Path, module: str, place: str, statement: str) -> None:
    """Copy the package to ``folder``, with a statement before ``place`` in a module of the sampler."""
    shutil.copytree(
        PACKAGE_PARENT / 'gpu_tracker', folder / 'gpu_tracker', ignore=shutil.ignore_patterns('__pycache__')
    )
    path = folder / 'gpu_tracker' / 'sampler' / module
    indent = ' ' * (len(place) - len(place.lstrip()))
    source = path.read_text()
    assert source.count(place) == 1
    path.write_text(source.replace(place, f'{indent}{statement}\n{place}'))


ADOPTS_ORPHANS = 'import ctypes; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)'


@pytest.mark.parametrize('first', ['', ADOPTS_ORPHANS])
@pytest.mark.parametrize('hang', ['os.kill(os.getpid(), 19)', 'time.sleep(600)'])
def test_a_sampler_that_hangs_at_its_start_is_ended(tmp_path: Path, first: str, hang: str):
    change_sampler(tmp_path, 'process.py', '        _prepare()', hang)
    samplers = Samplers()
    finished = run(
        f"""
{first}
import gpu_tracker as gput
from gpu_tracker.sampler import spawn
assert spawn.LONGEST_START == 8
spawn.LONGEST_START = 0.5
try:
    gput.Tracker().start()
except RuntimeError as error:
    print(error)
""",
        env=samplers.environment | {'PYTHONPATH': str(tmp_path)},
    )
    assert finished.stdout == 'The sampler was not ready in time, and was ended.\n'
    assert samplers.none_left()


@pytest.mark.parametrize(
    ('place', 'text'),
    [
        ('        self._sample(FIRST)', 'The sampler has failed: ArithmeticError: on purpose'),
        ('class Loop:', 'The sampler ended before its first sample: ArithmeticError: on purpose'),
    ],
)
def test_a_sampler_that_fails_says_why_in_one_line_and_its_traceback_is_a_note(tmp_path: Path, place: str, text: str):
    change_sampler(tmp_path, 'loop.py', place, 'raise ArithmeticError("on purpose")')
    finished = run(
        """
import json
import gpu_tracker as gput
try:
    gput.Tracker().start()
except RuntimeError as error:
    print(json.dumps([str(error), *error.__notes__]))
""",
        env=environment({'PYTHONPATH': str(tmp_path)}),
    )
    told, note = json.loads(finished.stdout)
    assert told == text
    assert note.startswith('Traceback (most recent call last):\n')
