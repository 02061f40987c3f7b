"""However a monitor ends, nothing that it has started is left."""

from __future__ import annotations

import os
import re
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from gpu_tracker.idle.running import GUARDIAN_MARK
from support.cli_program import text_of
from support.idle.idle_monitor import IdleMonitor, config, foreign, make_program, process
from support.waiting import eventually

# Ignores SIGTERM with all its descendants, some of which are in sessions of their own, and have lost their parents.
STUBBORN = """
trap '' TERM
setsid sh -c 'setsid sleep 3600 & sleep 3601 & setsid sh -c "setsid sleep 3602 & echo ready"'
sleep 3603
true
"""
DEEP = ('3600', '3601', '3602', '3603')

OBEDIENT = """
setsid sh -c 'setsid sleep 3600 & sleep 3601 & echo ready; wait'
true
"""


@pytest.fixture
def start(tmp_path):
    """Return what starts a monitor with programs that run this script, and waits until they do."""
    with ExitStack() as stack:

        def start(text, grace, count=2):
            make_program(tmp_path, 'job', text)
            sections = [process(f'p{gpu}', 'job', str(gpu), stop_grace_seconds=grace) for gpu in range(count)]
            monitor = stack.enter_context(IdleMonitor(tmp_path, config(*sections)))
            for gpu in range(count):
                monitor.running(f'p{gpu}')
            eventually(lambda: monitor.log.count('ready\n') == count)
            return monitor

        yield start


def test_killed_outright_it_leaves_nothing_behind(start):
    monitor = start(STUBBORN, 0.3)
    for word in DEEP:
        eventually(lambda word=word: len(monitor.marked.processes(word)) == 2)
    assert monitor.end(signal.SIGKILL) == -signal.SIGKILL


def test_killed_outright_it_stands_in_nobodys_way(start, tmp_path):
    assert start(OBEDIENT, 3600, 1).end(signal.SIGKILL) == -signal.SIGKILL
    with IdleMonitor(tmp_path, config(process('p0', 'job'))) as another:
        another.running('p0')


def test_sigterm_stops_its_programs_before_it_ends(start):
    monitor = start(OBEDIENT, 3600)
    assert monitor.end() == 0
    assert monitor.said[-1] == 'INFO ended by SIGTERM'
    stops = [line for line in monitor.said if 'the monitor ends' in line]
    assert stops == [f'INFO stopping process-{name}: the monitor ends: SIGTERM' for name in ('p0', 'p1')]
    assert not os.path.exists(monitor.socket)


def ignores(pid, number):
    """Tell whether a process ignores a signal, proc(5)."""
    (line,) = [line for line in text_of(Path(f'/proc/{pid}/status')).splitlines() if line.startswith('SigIgn:')]
    return bool(int(line.split()[1], 16) >> (number - 1) & 1)


def test_a_terminal_set_to_tostop_stops_it_for_no_line_and_ctrl_c_its_programs_before_it_ends(start):
    monitor = start(OBEDIENT, 3600, 1)
    assert ignores(monitor.process.pid, signal.SIGTTOU)
    assert not ignores(monitor.running('p0'), signal.SIGTTOU)
    assert monitor.end(signal.SIGINT) == -signal.SIGINT
    assert monitor.said[-1] == 'INFO ended by SIGINT'
    assert 'Traceback' not in monitor.log


def test_programs_that_ignore_sigterm_are_killed_after_their_grace(start):
    monitor = start(STUBBORN, 0.3, 1)
    assert monitor.end() == 0
    assert monitor.log.count('has ended, killed by SIGKILL: ') == 1


def test_told_twice_it_leaves_no_time_to_programs(start):
    monitor = start(STUBBORN, 3600)
    monitor.process.send_signal(signal.SIGTERM)
    monitor.says('stopping process-p1: the monitor ends: SIGTERM')
    assert monitor.process.poll() is None
    assert monitor.end(signal.SIGTERM) == 0
    assert monitor.log.count('has ended, killed by SIGKILL: ') == 2


def test_programs_end_with_their_guardian_and_are_started_again(start):
    monitor = start(STUBBORN, 0.3)
    before = [monitor.running(name) for name in ('p0', 'p1')]
    of_first = monitor.marked.processes(GUARDIAN_MARK)[0]
    os.kill(of_first, signal.SIGKILL)
    eventually(lambda: monitor.log.count('ready\n') == 3)
    now = [monitor.running(name) for name in ('p0', 'p1')]
    assert sum(old == new for old, new in zip(before, now, strict=True)) == 1
    eventually(lambda: [len(monitor.marked.processes(word)) for word in DEEP] == [2, 2, 2, 2])
    assert re.search(r' has ended: its guardian .*; not started again for 1 s\n', monitor.log)


def test_it_ends_while_somebody_has_a_gpu(start):
    monitor = start(OBEDIENT, 3600, 1)
    with foreign(monitor.gpus / 'nvidia0'):
        monitor.not_running('p0')
        assert monitor.end() == 0
