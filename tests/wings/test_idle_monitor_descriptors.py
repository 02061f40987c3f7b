"""A monitor that has no descriptors left for a while."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

from support.idle.idle_monitor import IdleMonitor, config, process
from support.waiting import eventually


def test_a_monitor_without_descriptors_ends_its_programs_and_goes_on(tmp_path):
    with IdleMonitor(tmp_path, config(process('a', 'sleep 3600'))) as monitor:
        before = monitor.running('a')
        limits = resource.prlimit(monitor.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(monitor.process.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        eventually(lambda: ' process-a has ended' in monitor.log)
        eventually(lambda: 'programs that have ended cannot be reaped: [Errno 24] Too many open files' in monitor.log)
        resource.prlimit(monitor.process.pid, resource.RLIMIT_NOFILE, limits)
        monitor.running('a', but=before)
        assert monitor.log.count(' ERROR programs that have ended cannot be reaped') == 1
        assert monitor.log.count(' ERROR the GPUs cannot be looked at') <= 1


def test_the_end_of_a_program_whose_guardian_is_killed_meanwhile_is_told_later(tmp_path):
    section = process('a', """sh -c "trap '' TERM; while :; do sleep 3600; done\"""", stop_grace_seconds=3600)
    with IdleMonitor(tmp_path, config(section)) as monitor:
        before = monitor.running('a')
        guardian = int(Path(f'/proc/{before}/stat').read_text().rpartition(')')[2].split()[1])
        limits = resource.prlimit(monitor.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(monitor.process.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        os.kill(guardian, signal.SIGKILL)
        monitor.says('programs that have ended cannot be reaped')
        resource.prlimit(monitor.process.pid, resource.RLIMIT_NOFILE, limits)
        monitor.says(' process-a has ended: its guardian was ended from outside')
