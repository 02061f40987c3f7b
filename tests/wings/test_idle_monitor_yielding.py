"""Who makes a monitor's program leave, who does not, and how surely it leaves."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time

import pytest

from gpu_tracker.idle.running import GUARDIAN_MARK
from support.idle.idle_monitor import (
    NODE,
    IdleMonitor,
    config,
    device_node,
    foreign,
    make_gpus,
    make_node,
    make_program,
    process,
)
from support.own_network import OwnNetwork
from support.tracked_program import as_root
from support.waiting import eventually

WRAPPER = """
sh -c 'sleep 3600 < "$0" & echo ready; wait; true' "$GPU"
true
"""

IN_OWN_SESSIONS = """
setsid sh -c 'setsid sleep 3600 < "$0" & setsid sleep 3601 < "$0" & echo ready' "$GPU"
exec sleep 3602
"""
"""Grandchildren whose parent has ended, each in a session of its own."""

STUBBORN = """
trap '' TERM
sleep 3600 < "$GPU"
"""


@as_root
def test_a_container_with_its_own_device_node_is_noticed_at_the_next_look(tmp_path):
    make_node(tmp_path / 'of-a-container', NODE)
    text = config(process('zero', 'sleep 3600'), process('one', 'sleep 3600', '1'))
    with (
        OwnNetwork() as network,
        device_node(tmp_path),
        IdleMonitor(tmp_path, text, words=network.words()) as monitor,
    ):
        first, second = monitor.running('zero'), monitor.running('one')
        with foreign(tmp_path / 'of-a-container') as pid:
            assert monitor.not_running('zero').startswith(f'GPU 0 used by sh (pid {pid}')
            assert monitor.running('one') == second
        assert monitor.running('zero') != first


@pytest.mark.parametrize('text', [WRAPPER, IN_OWN_SESSIONS], ids=['wrapper', 'sessions'])
def test_what_a_program_has_started_is_its_own_and_leaves_with_it(tmp_path, text):
    make_gpus(tmp_path, 2)
    make_program(tmp_path, 'job', text)
    section = process('job', 'job', env=f'GPU={tmp_path}/gpus/nvidia0')
    with IdleMonitor(tmp_path, config(section)) as monitor:
        pid = monitor.running('job')
        monitor.says('ready')
        with foreign(monitor.gpus / 'nvidia1') as other:  # shows that there was a look since
            eventually(lambda: [user.pid for user in monitor.gpu('1').by] == [other])
        assert monitor.gpu('0').by == ()
        assert monitor.running('job') == pid
        with foreign(monitor.gpus / 'nvidia0'):
            monitor.not_running('job')
            assert monitor.marked.processes('sleep') == []


def test_a_program_that_ignores_sigterm_is_killed_after_its_grace_long_before_the_next_interval(tmp_path):
    make_gpus(tmp_path, 1)
    make_program(tmp_path, 'stubborn', STUBBORN)
    section = process('a', 'stubborn', env=f'GPU={tmp_path}/gpus/nvidia0', stop_grace_seconds=0.4)
    with IdleMonitor(tmp_path, config(section, interval=3600)) as monitor:
        monitor.running('a')
        eventually(lambda: monitor.marked.processes('sleep'))
        begun = time.monotonic()
        with foreign(monitor.gpus / 'nvidia0'):
            monitor.not_running('a')
            assert time.monotonic() - begun >= 0.4
            assert monitor.marked.processes('sleep') == []
        monitor.says('process-a has ended, killed by SIGKILL: ')


@pytest.mark.parametrize('pair', [os.pipe, os.openpty], ids=['pipe', 'terminal'])
def test_messages_that_nobody_reads_do_not_keep_a_program_on_a_gpu(tmp_path, pair):
    reading, writing = pair()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):  # it takes no more
        while os.write(writing, b'x' * 100):
            pass
    os.set_blocking(writing, True)
    with IdleMonitor(tmp_path, config(process('a', 'sleep 3600')), errors=writing) as monitor:
        first = monitor.running('a')
        with foreign(monitor.gpus / 'nvidia0'):
            monitor.not_running('a')
        assert monitor.running('a') != first
        assert monitor.end() == 0
    os.close(reading)
    os.close(writing)


def test_a_guardian_that_is_stopped_does_not_keep_a_program_on_a_gpu(tmp_path):
    with IdleMonitor(tmp_path, config(process('a', 'sleep 3600'))) as monitor:
        first = monitor.running('a')
        (guardian,) = monitor.marked.processes(GUARDIAN_MARK)
        os.kill(guardian, signal.SIGSTOP)
        with foreign(monitor.gpus / 'nvidia0'):
            monitor.not_running('a')
        assert monitor.running('a') != first


def test_a_configuration_that_cannot_be_read_does_not_keep_a_program_on_a_gpu(tmp_path):
    with IdleMonitor(tmp_path, config(process('a', 'sleep 3600'))) as monitor:
        first = monitor.running('a')
        monitor.config.unlink()
        os.mkfifo(monitor.config)
        monitor.process.send_signal(signal.SIGHUP)
        with foreign(monitor.gpus / 'nvidia0'):
            monitor.not_running('a')
        assert monitor.running('a') != first
        assert monitor.end() == 0


def test_programs_that_never_count_or_are_ignored_leave_a_gpu_idle(tmp_path):
    make_gpus(tmp_path, 1)
    daemon, ignored = tmp_path / 'nvidia-persistenced', tmp_path / 'display-server'
    shell = os.path.realpath(shutil.which('sh'))
    shutil.copy(shell, daemon)
    shutil.copy(shell, ignored)
    section = '[gpu-all]\ngpus=ALL\nignore_programs=nvidia-smi, display-server'
    gpu = tmp_path / 'gpus' / 'nvidia0'
    with (
        foreign(gpu, str(daemon)),
        foreign(gpu, str(ignored)),
        IdleMonitor(tmp_path, config(section, process('a', 'sleep 3600'))) as monitor,
    ):
        monitor.running('a')
        with foreign(gpu) as pid:
            assert monitor.not_running('a').startswith(f'GPU 0 used by sh (pid {pid}')
            assert [user.pid for user in monitor.gpu('0').by] == [pid]
        monitor.running('a')
