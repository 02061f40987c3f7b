"""However the program or the tracked process ends: no orphan is left, no loop is busy, no result is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import gpu_tracker as gput
from gpu_tracker.running.run import Run
from gpu_tracker.sampler.session import Session
from support.cli_program import Terminal, state_of
from support.tracked_program import Samplers, answer, cpu_seconds, run, start, status_of
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

FOREVER = """
import os, signal, sys
import gpu_tracker as gput
tracker = gput.Tracker(sleep_time=0.01, ram_unit='bytes', resource_usage_file=sys.argv[1])
data = b'x' * 50_000_000
tracker.start()
print('started', flush=True)
"""
PAUSE = 'signal.pause()\n'


@pytest.fixture
def samplers() -> Samplers:
    return Samplers()


@pytest.fixture
def usage(tmp_path: Path) -> Path:
    return tmp_path / 'usage.json'


def assert_whole(usage: Path) -> None:
    report = json.loads(usage.read_text())
    sections = ['max_ram', 'max_gpu_ram', 'cpu_utilization', 'gpu_utilization', 'compute_time']
    assert [name for name in report if name != 'lower_bounds'] == sections
    assert report['max_ram']['main']['total_rss'] > 50_000_000
    assert os.listdir(usage.parent) == [usage.name]


def test_a_killed_program_leaves_a_whole_file_and_no_sampler(samplers: Samplers, usage: Path):
    with start(FOREVER + PAUSE, usage, env=samplers.environment) as program:
        assert program.stdout.readline() == 'started\n'
        samplers.only()
        program.kill()
    assert samplers.none_left()
    assert_whole(usage)


def test_a_worker_that_outlives_the_killed_program_does_not_keep_the_sampler(samplers: Samplers, usage: Path):
    worker = """
if os.fork() == 0:
    print(os.getpid(), flush=True)
    signal.pause()
"""
    with start(FOREVER + worker + PAUSE, usage, env=samplers.environment) as program:
        assert program.stdout.readline() == 'started\n'
        worker_id = int(program.stdout.readline())
        program.kill()
        assert samplers.none_left()
        assert eventually(lambda: state_of(worker_id) == 'S')
        os.kill(worker_id, signal.SIGKILL)
    assert_whole(usage)


@pytest.mark.parametrize(
    ('end', 'status'),
    [('sys.exit(3)', 3), ('os._exit(4)', 4), ('raise SystemExit', 0), ('os.abort()', -signal.SIGABRT)],
)
def test_a_program_that_ends_without_a_stop_leaves_no_sampler(samplers: Samplers, usage: Path, end: str, status: int):
    limit = 'import resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n'
    with start(FOREVER + limit + end, usage, env=samplers.environment) as program:
        assert program.stdout.read() == 'started\n'
    assert program.returncode == status
    assert samplers.none_left()
    assert_whole(usage)


def test_a_program_that_becomes_another_one_ends_its_sampler(samplers: Samplers, usage: Path):
    become = "os.execv('/bin/cat', ['cat'])\n"
    with start(FOREVER + become, usage, env=samplers.environment, stdin=subprocess.PIPE) as program:
        assert program.stdout.readline() == 'started\n'
        assert samplers.none_left()
        assert program.poll() is None
        program.communicate()
    assert_whole(usage)


def test_a_closed_terminal_leaves_no_sampler(samplers: Samplers, usage: Path):
    with Terminal([sys.executable, '-c', FOREVER + PAUSE, str(usage)], samplers.environment) as terminal:
        eventually(lambda: 'started' in terminal.shown)
        samplers.only()
        terminal.close()
        terminal.process.wait()
    assert samplers.none_left()
    assert_whole(usage)


def test_ctrl_c_in_a_terminal_ends_the_block_and_not_the_sampler(samplers: Samplers):
    program = """
import signal
import gpu_tracker as gput
try:
    with gput.Tracker(sleep_time=0.01) as tracker:
        print('started', flush=True)
        signal.pause()
except KeyboardInterrupt:
    print('interrupted', tracker.resource_usage.max_ram.main.total_rss > 0)
"""
    with Terminal([sys.executable, '-c', program], samplers.environment) as terminal:
        eventually(lambda: 'started' in terminal.shown)
        terminal.press('\x03')
        assert terminal.wait() == 0
        assert terminal.shown.endswith('interrupted True\n')
    assert samplers.none_left()


def test_an_interrupt_of_the_stop_passes_and_leaves_a_result(samplers: Samplers):
    output = run(
        """
import fcntl, os, signal, struct, termios
import gpu_tracker as gput
tracker = gput.Tracker()
tracker.start()
os.kill(tracker._run.session.pid, signal.SIGSTOP)
if os.fork() == 0:
    # Until the parent has sent its message to the sampler, which cannot read it.
    while fcntl.ioctl(tracker._run.session._channels.control, termios.FIONREAD, bytes(4)) == bytes(4):
        pass
    os.kill(os.getppid(), signal.SIGINT)
    os._exit(0)
try:
    tracker.stop()
except KeyboardInterrupt:
    print(tracker.state.name, tracker.resource_usage.max_ram.main.total_rss > 0)
""",
        env=samplers.environment,
    ).stdout
    assert output == 'STOPPED True\n'
    os.kill(samplers.only(), signal.SIGCONT)
    assert samplers.none_left()


TARGET_ENDS = """
import json, logging, os, signal, subprocess, sys, time
import gpu_tracker as gput
records = []
handler = logging.Handler(logging.WARNING)
handler.emit = records.append
logging.getLogger().addHandler(handler)
target = subprocess.Popen([sys.executable, '-c', 'data = b"x" * 50_000_000; print(1, flush=True); input()'],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE)
target.stdout.readline()
tracker = gput.Tracker(process_id=target.pid, sleep_time=0.001, ram_unit='bytes')
tracker.start()
if sys.argv[1] == 'killed':
    target.kill()
else:
    target.stdin.close()
if sys.argv[2] == 'reaped':
    target.wait()
else:
    os.waitid(os.P_PID, target.pid, os.WEXITED | os.WNOWAIT)
print('ended', flush=True)
input()
tracker.stop()
target.wait()
usage = tracker.resource_usage
print(json.dumps([len(records), usage.max_ram.main.total_rss > 50_000_000, usage.cpu_utilization.main_n_threads]))
"""


@pytest.mark.parametrize(('way', 'reaped'), [('killed', 'reaped'), ('exit', 'zombie')])
def test_a_tracked_process_that_ends_early_keeps_its_result_and_makes_no_busy_loop(
    samplers: Samplers, way: str, reaped: str
):
    with start(TARGET_ENDS, way, reaped, env=samplers.environment, stdin=subprocess.PIPE) as program:
        assert program.stdout.readline() == 'ended\n'
        sampler = samplers.only()
        used, switches = cpu_seconds(sampler), status_of(sampler, 'voluntary_ctxt_switches')
        answer('import time\nend = time.monotonic() + 0.5\nwhile time.monotonic() < end: pass\nprint(0)')
        assert cpu_seconds(sampler) - used < 0.2
        assert status_of(sampler, 'voluntary_ctxt_switches') - switches < 100
        output, _ = program.communicate('\n')
    assert json.loads(output) == [0, True, 1]
    assert samplers.none_left()


@pytest.mark.parametrize(('of', 'name'), [(Session, 'evidence'), (Session, 'end'), (Run, '_settle')])
def test_an_interrupt_after_the_last_sample_leaves_a_result(monkeypatch: pytest.MonkeyPatch, of: type, name: str):
    call, given = getattr(of, name), [KeyboardInterrupt]

    def interrupted(*arguments: object, **named: object) -> object:
        if given:
            raise given.pop()
        return call(*arguments, **named)

    tracker = gput.Tracker(ram_unit='bytes')
    tracker.start()
    monkeypatch.setattr(of, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        tracker.stop()
    assert tracker.resource_usage.max_ram.main.total_rss > 1_000_000
