"""The tracker where the kernel refuses it something: system calls, processes, threads, open files, places for files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.claims.claim_actors import tool
from support.cli_program import PROGRAM
from support.forbidden_calls import words_before
from support.gpus.gpu_machine import words_as
from support.tracked_program import Samplers, answer, as_root, environment, run, run_words
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

TRACKED = """
import subprocess, sys
import gpu_tracker as gput
with gput.Tracker(ram_unit='bytes') as tracker:
    data = b'x' * 30_000_000
    subprocess.run([sys.executable, '-S', '-c', 'pass'], check=True)
ram = tracker.resource_usage.max_ram
print(ram.main.total_rss > 30_000_000)
"""
NOT_STARTED = """
import gpu_tracker as gput
tracker = gput.Tracker()
try:
    tracker.start()
except RuntimeError as error:
    print(error)
print(repr(tracker))
"""
STOPPED = """
import os, signal
import gpu_tracker as gput
with gput.Tracker(ram_unit='bytes', n_join_attempts=1, join_timeout=0.1, disable_logs=True) as tracker:
    os.kill(tracker._run.session.pid, signal.SIGSTOP)
print(tracker.resource_usage.max_ram.main.total_rss > 0)
"""
LIMITS = ('getrlimit', 'prlimit64', 'setrlimit')
PRIORITIES = ('sched_getscheduler', 'sched_setscheduler')
PLACES = ('/tmp', '/var/tmp')
"""Where temporary files are put where no variable says otherwise."""
USER = 54_320
"""Nobody; a limit on processes counts all that a user has."""
OPTIONAL = (
    'clock_gettime of processes',
    'close_range',
    'memfd_create',
    'perf_event_open',
    'pidfd_open',
    'pidfd_send_signal',
    'prctl',
    *LIMITS,
    *PRIORITIES,
)
"""What a measurement gets along without."""
REFUSALS = ('EPERM', 'ENOSYS')
"""What containers answer to a call that they forbid, and kernels to one that they do not have."""


@pytest.mark.parametrize(
    'calls',
    [
        ('memfd_create',),
        LIMITS,
        ('prlimit64 with a new limit',),
        ('pidfd_open',),
        ('clock_gettime of processes',),
        PRIORITIES,
        ('close_range',),
    ],
    ids=' '.join,
)
def test_a_call_that_is_forbidden_costs_no_figure(calls: tuple[str, ...]):
    assert run(TRACKED, words=words_before(*calls)).stdout == 'True\n'


@pytest.mark.parametrize('refusal', REFUSALS)
def test_many_calls_that_are_forbidden_cost_a_command_no_report(refusal: str):
    words = [*words_before(*OPTIONAL, answer=refusal), *PROGRAM, '--ru=bytes', '-f', 'json', '--']
    command = [sys.executable, '-c', 'data = b"x" * 30_000_000']
    finished = run_words([*words, *command])
    assert finished.stderr == ''
    assert json.loads(finished.stdout)['max_ram']['main']['total_rss'] > 30_000_000


@pytest.mark.parametrize('calls', [('pidfd_send_signal',), ('pidfd_open',)], ids=' '.join)
def test_a_stopped_sampler_is_ended_also_where_descriptors_of_processes_are_forbidden(calls: tuple[str, ...]):
    samplers = Samplers()
    finished = run(STOPPED, words=words_before(*calls), env=samplers.environment)
    assert finished.stdout == 'True\n'
    assert samplers.none_left()


def test_the_file_in_place_of_a_forbidden_memfd_leaves_nothing_behind_however_the_program_ends(tmp_path: Path):
    samplers = Samplers()
    program = 'import os\nimport gpu_tracker as gput\ngput.Tracker().start()\nos.kill(os.getpid(), 9)\n'
    killed = subprocess.run(
        [*words_before('memfd_create'), sys.executable, '-c', program],
        env=samplers.environment | {'TMPDIR': str(tmp_path)},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    eventually(lambda: os.listdir(tmp_path) == [])  # the log of regions is the sampler's to remove
    assert samplers.none_left()


@as_root
def test_a_forbidden_memfd_and_no_place_for_a_file_are_a_clear_error():
    read_only = ' && '.join(f'mount --bind {place} {place} && mount -o remount,bind,ro {place}' for place in PLACES)
    words = tool('unshare', '--mount', 'sh', '-c', f'{read_only} && cd /proc && exec "$@"', 'sh')
    error, state = run(
        NOT_STARTED, words=(*words, *words_before('memfd_create')), env=environment({'TMPDIR': '/proc'})
    ).stdout.splitlines()
    assert error.startswith('The sampler could not be started: [Errno 2] No usable temporary directory found in ')
    assert state == 'State: NEW'


@as_root
def test_a_forbidden_memfd_and_a_full_disk_cost_no_figure(tmp_path: Path):
    words = tool('unshare', '--mount', 'sh', '-c', f'mount -t tmpfs -o size=4k none {tmp_path} && exec "$@"', 'sh')
    finished = run(TRACKED, words=(*words, *words_before('memfd_create')), env=environment({'TMPDIR': str(tmp_path)}))
    assert finished.stdout == 'True\n'


def test_where_no_thread_can_be_started_the_gpus_alone_are_unknown():
    log, gpus, seen = answer(
        """
import json, logging
import gpu_tracker as gput
records = []
handler = logging.Handler(logging.WARNING)
handler.emit = records.append
logging.getLogger().addHandler(handler)
with gput.Tracker(ram_unit='bytes') as tracker:
    data = b'x' * 30_000_000
usage = tracker.resource_usage
print(json.dumps([
    [record.getMessage() for record in records],
    usage.gpu_utilization.system_gpu_count,
    usage.max_ram.main.total_rss > 30_000_000,
]))
""",
        words=words_before('clone of threads', answer='EAGAIN'),
    )
    assert log == ['The GPUs cannot be read, because no thread can be started here: their figures are unknown.']
    assert gpus is None
    assert seen


def test_where_no_thread_can_be_started_another_process_can_be_tracked() -> None:
    tracked = """
import os, subprocess, sys
import gpu_tracker as gput
with subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE) as program:
    with gput.Tracker(process_id=program.pid, ram_unit='bytes', disable_logs=True) as tracker:
        program.communicate(b'\\n')
print(tracker.resource_usage.max_ram.main.total_rss > 0)
"""
    assert run(tracked, words=words_before('clone of threads', answer='EAGAIN')).stdout == 'True\n'


def test_where_no_thread_can_be_started_a_threaded_resource_says_so():
    assert (
        run(
            """
from gpu_tracker.resources.threaded import Target, ThreadedReader

class Source:
    def read(self, members):
        return {'seconds': 1.0}

    def close(self):
        print('closed')

reader = ThreadedReader('cuda', 'CUDA calls', dict)
reader.open(lambda target: Source(), Target(1, frozenset()))
reader.wait_for_last(60)
print(reader.result()['problem'])
""",
            words=words_before('clone of threads', answer='EAGAIN'),
        ).stdout
        == "closed\nCUDA calls cannot be probed: RuntimeError: can't start new thread.\n"
    )


@as_root  # to become a user whom such a limit holds
@pytest.mark.parametrize(
    ('most', 'error'),
    [
        (1, 'The sampler could not be started: [Errno 11] Resource temporarily unavailable'),
        (2, 'The sampler ended before its first sample: '),
    ],
)
def test_a_limit_on_processes_is_a_clear_error(most: int, error: str):
    words = words_as(USER + most, *tool('prlimit', f'--nproc={most}'))
    told, state = run(NOT_STARTED, words=tuple(words)).stdout.splitlines()
    assert told.startswith(error)
    assert state == 'State: NEW'


def test_a_very_small_limit_on_open_files_is_a_clear_error():
    finished = run("""
import resource
import gpu_tracker as gput
for limit in range(8, 13):
    tracker = gput.Tracker()
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, 1000))
    try:
        tracker.start()
    except RuntimeError as error:
        print(error)
    print(repr(tracker))
""")
    assert finished.stdout == 5 * 'The sampler could not be started: [Errno 24] Too many open files\nState: NEW\n'
