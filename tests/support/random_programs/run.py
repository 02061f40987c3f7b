"""Has a random program tracked, and asks the kernel about it meanwhile."""

from __future__ import annotations

import glob
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gpu_tracker
from support.random_programs.script import PROCESS, Program
from support.random_programs.stage import Stage
from support.truth import environment, parts_of_frames, seconds_of
from support.truth.figures import GROUPS
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from support.random_programs.script import Actor
    from support.random_programs.stage import Told

INTERVAL = 0.05
"""Seconds between two samples, if not said otherwise."""
_SAMPLER = b'gpu-tracker-sampler'
_USER_ID = 65534
_BECOME_USER = (
    *('setpriv', f'--reuid={_USER_ID}', f'--regid={_USER_ID}', '--clear-groups'),
    *('--inh-caps=-all', '--bounding-set=-all', '--'),
)
_SAMPLES_AT_HOLD = 4
"""The first may have begun before the hold, and one exact reading is held back while memory changes."""


@dataclass
class Run:
    """What was told of a program by itself and by the kernel, and what the tracker says of it."""

    program: Program
    interval: float
    """Seconds between the tracker's samples."""
    is_seen: bool = True
    """It was sampled at each hold."""
    unions: list[dict[str, int]] = field(default_factory=list)
    """Bytes of distinct physical pages at each hold, of each group."""
    private: list[dict[str, int]] = field(default_factory=list)
    """Those of them that only one process has mapped."""
    told: dict[Actor, list[Told]] = field(default_factory=dict)
    main_cpu: float = 0.0
    """CPU seconds of the root from its first instruction to its end."""
    cpu_before: float = 0.0
    """What it had used of that when tracking began."""
    descendants_reaped: float = 0.0
    """CPU seconds of what the root has waited for."""
    ram: dict[str, dict[str, float]] = field(default_factory=dict)
    """The tracker's, in bytes."""
    cpu: dict[str, float] = field(default_factory=dict)
    """The tracker's, in seconds."""
    threads: dict[str, int] = field(default_factory=dict)
    marked: frozenset[str] = frozenset()
    """The paths of the figures that are marked as lower bounds."""

    def take(self, usage: dict[str, Any], seconds: float) -> None:
        """Take over the tracker's figures; means are over so many seconds."""
        self.ram = {group: usage['max_ram'][group] for group in GROUPS}
        self.marked = frozenset(usage.get('lower_bounds', ()))
        self.cpu = seconds_of(usage, seconds)
        cpu = usage['cpu_utilization']
        self.threads = {group: cpu[f'{group}_n_threads'] for group in GROUPS}


def run(
    program: Program, actor: str, interval: float = INTERVAL, *, pause: float | None = None, as_user: bool = False
) -> Run:
    """Have a program performed by ``actor`` (see :func:`~random_programs.stage.build`), and track it.

    :param pause: The most seconds that a hold lasts; a random part of it does. None: it lasts for four samples.
    :param as_user: An ordinary user without capabilities tracks it, which is for commands only.
    """
    with tempfile.TemporaryDirectory(prefix='random-program-') as folder, Stage(program, actor, folder) as stage:
        found = Run(program, interval, pause is None, told=stage.told)
        if program.way == PROCESS:
            _run_process(stage, found, pause)
        else:
            _run_command(stage, found, pause, as_user=as_user)
    return found


def _run_process(stage: Stage, found: Run, pause: float | None) -> None:
    """Start the program, have it tracked from its first hold on, and keep the root a zombie until that is done."""
    root = os.posix_spawn(stage.words[0], stage.words, os.environ, setsid=True)
    try:
        stage.wait_for_hold(0)
        tracker = gpu_tracker.Tracker(found.interval, 'bytes', time_unit='seconds', process_id=root)
        tracker.start()
        try:
            found.cpu_before = _own_time(root)
            _pass_holds(stage, found, pause, tracker._run.session.pid)
            os.waitid(os.P_PID, root, os.WEXITED | os.WNOWAIT)
        finally:
            tracker.stop()
    except BaseException:
        os.killpg(root, signal.SIGKILL)
        os.waitpid(root, 0)
        raise
    used = os.wait4(root, 0)[2]
    stage.wait_for_ends()
    found.descendants_reaped = stage.end(found.program.root).reaped
    found.main_cpu = used.ru_utime + used.ru_stime - found.descendants_reaped
    found.take(tracker.to_json(), tracker._run.totals['seconds'])  # from the first sample on


def _run_command(stage: Stage, found: Run, pause: float | None, *, as_user: bool) -> None:
    report = f'{stage.folder}/report'
    before = _BECOME_USER if as_user else ()
    for path in (stage.folder, *glob.glob(f'{stage.folder}/*')) if as_user else ():
        os.chown(path, _USER_ID, _USER_ID)
    options = [f'--st={found.interval}', '-f', 'json', '--ru=bytes', '--tu=seconds']
    words = [*before, sys.executable, '-m', 'gpu_tracker', *options]
    with subprocess.Popen(
        [*words, '-o', report, '--', *stage.words],
        env=environment(PYTHONPATH=os.pathsep.join(sys.path)),
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as launcher:
        try:
            _pass_holds(stage, found, pause, _sampler_of(stage) if pause is None else None)
            output = launcher.communicate(timeout=TIMEOUT)[0]
        except BaseException:
            os.killpg(launcher.pid, signal.SIGKILL)
            sys.stderr.buffer.write(launcher.communicate()[0])
            raise
    assert launcher.returncode == 0, output.decode()
    stage.wait_for_ends()
    end = stage.end(found.program.root)
    found.main_cpu = end.own
    found.descendants_reaped = end.reaped
    with open(report, encoding='utf-8') as file:
        usage = json.load(file)
    found.take(usage, usage['compute_time']['time'])


def _pass_holds(stage: Stage, found: Run, pause: float | None, sampler: int | None) -> None:
    for hold in range(found.program.holds):
        root, *descendants = stage.wait_for_hold(hold)
        groups = {'main': [root], 'descendants': descendants, 'combined': [root, *descendants]}
        parts = {group: parts_of_frames(pids) for group, pids in groups.items()}
        found.unions.append({group: total for group, (total, _) in parts.items()})
        found.private.append({group: private for group, (_, private) in parts.items()})
        if pause is not None:
            time.sleep(pause * random.random())  # noqa: S311 - no secret
        elif sampler is not None:
            _wait_for_samples(sampler, found.interval)
        stage.let_go(hold)


def _wait_for_samples(sampler: int, interval: float) -> None:
    """Wait until the sampler has sampled a few times: between two samples it sleeps."""
    before = _sleeps(sampler)
    until = time.monotonic() + (_SAMPLES_AT_HOLD - 1) * interval
    eventually(lambda: time.monotonic() > until and _sleeps(sampler) >= before + _SAMPLES_AT_HOLD)


def _own_time(pid: int) -> float:
    """Return the CPU seconds of a process with one thread."""
    with open(f'/proc/{pid}/schedstat', encoding='ascii') as file:
        return int(file.read().split()[0]) / 1e9


def _sleeps(pid: int) -> int:
    with open(f'/proc/{pid}/status', encoding='ascii', errors='replace') as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith('voluntary_ctxt_switches:'))


def _sampler_of(stage: Stage) -> int:
    """Return the pid of the sampler that reads the root."""
    root = f'/proc/{stage.wait_for_hold(0)[0]}/statm'  # others open its stat for a moment, to see whose child it is
    for name in filter(str.isdecimal, os.listdir('/proc')):
        try:
            with open(f'/proc/{name}/cmdline', 'rb') as words:
                if _SAMPLER in words.read() and root in map(os.readlink, glob.glob(f'/proc/{name}/fd/*')):
                    return int(name)
        except OSError:
            pass  # it has just ended
    raise ProcessLookupError('there is no sampler')
