"""What is left of programs whose monitor and guardian were killed together, in a PID namespace with nobody else."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_tracker.idle.running import GUARDIAN_MARK
from support.claims.claim_actors import tool
from support.idle.idle_monitor import IdleMonitor, config, make_program, process
from support.tracked_program import as_root, environment
from support.waiting import eventually


def own_group() -> tuple[Path | None, str]:
    """Return this process' control group of version 2 if groups can be made and killed in it, or why not."""
    path = next((line[3:] for line in Path('/proc/self/cgroup').read_text().splitlines() if line[:3] == '0::'), None)
    mounted = [line.split()[1] for line in Path('/proc/mounts').read_text().splitlines() if ' cgroup2 rw' in line]
    made = Path(f'{mounted[0]}{path}', f'made-by-a-test-{os.getpid()}') if path and mounted else None
    if made is None:
        return None, 'this machine has no control groups of version 2 in which the tests are'
    try:
        made.mkdir()
    except OSError:
        return None, 'needs root, or the right to make control groups'
    has_kill = (made / 'cgroup.kill').exists()
    made.rmdir()
    return (made.parent, '') if has_kill else (None, 'this machine has no cgroup.kill (Linux 5.14)')


OWN_GROUP, _REASON = own_group()
needs_groups = pytest.mark.skipif(OWN_GROUP is None, reason=_REASON)

PROGRAM = """
import asyncio, json, logging, os, subprocess, sys
from gpu_tracker.idle.running.strays import end_strays, find_strays

NOBODY = 4_000_000
HERE, OUTSIDE = os.stat('/proc/self/ns/pid').st_ino, sys.argv[1]
def job(monitor, *words, namespace=HERE, **options):
    marked = {**os.environ, 'GPU_TRACKER_IDLE': f'{monitor}-{namespace}-0123456789abcdef'}
    return subprocess.Popen(words or ('sleep', '1000'), env=marked, **options)

GUARDIAN = '''
import os, subprocess, sys, time
open('/proc/self/comm', 'w').write('gput-guardian')
subprocess.Popen(['sleep', '1000'], env={**os.environ, 'GPU_TRACKER_IDLE': sys.argv[1]})
print(flush=True)
time.sleep(1000)
'''
STUBBORN = "trap '' TERM; echo; read x"
jobs = {
    'left': job(NOBODY),
    'stubborn': job(NOBODY, 'sh', '-c', STUBBORN, stdin=subprocess.PIPE, stdout=subprocess.PIPE),
    'ours': job(os.getpid()),
    'of another user': job(NOBODY, user=54321),
    'of a monitor of the machine': job(NOBODY, namespace=OUTSIDE),
    'of an unknown namespace': job(NOBODY, namespace=0),
    'without a mark': subprocess.Popen(['sleep', '1000']),
    'no mark': subprocess.Popen(['sleep', '1000'], env={**os.environ, 'GPU_TRACKER_IDLE': str(NOBODY)}),
    'guardian': subprocess.Popen(
        [sys.executable, '-c', GUARDIAN, f'{NOBODY}-{HERE}-0123456789abcdef'], stdout=subprocess.PIPE
    ),
}
jobs['stubborn'].stdout.readline()
jobs['guardian'].stdout.readline()
names = {job.pid: name for name, job in jobs.items()}
found = [names.get(stray.process.pid, stray.name) for stray in find_strays()]
said = []
class Handler(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage().replace(f"(pid {jobs['left'].pid})", '(pid LEFT)'))
log = logging.getLogger('of a test')
log.addHandler(Handler())
log.propagate = False
asyncio.run(end_strays(log, lambda user: f'user {user}', 0.2))
for name in ('left', 'stubborn'):
    jobs[name].wait(300)
print(json.dumps([found, said, {name: job.poll() for name, job in jobs.items()}]))
"""


@as_root
def test_strays_of_this_user_are_ended_and_others_named() -> None:
    words = tool('unshare', '--pid', '--fork', '--mount-proc', '--kill-child')
    outside = str(os.stat('/proc/self/ns/pid').st_ino)
    run = subprocess.run(
        [*words, sys.executable, '-c', PROGRAM, outside],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found, said, ended = json.loads(run.stdout)
    assert sorted(found) == ['left', 'of another user', 'stubborn']
    assert 'ending sleep (pid LEFT), left by a killed idle monitor' in said
    assert [line.partition(',')[2] for line in said if 'keeps running' in line] == [
        ' left by a killed idle monitor, belongs to user 54321 and keeps running'
    ]
    assert ended == {
        'left': -15,
        'stubborn': -9,
        'ours': None,
        'of another user': None,
        'of a monitor of the machine': None,
        'of an unknown namespace': None,
        'without a mark': None,
        'no mark': None,
        'guardian': None,
    }


def test_a_new_monitor_ends_what_one_has_left_that_was_killed_with_its_guardians(tmp_path) -> None:
    make_program(tmp_path, 'job', 'setsid sh -c "setsid sleep 3600 & echo ready; wait"\ntrue\n')
    with IdleMonitor(tmp_path, config(process('p0', 'job'))) as monitor:
        monitor.running('p0')
        eventually(lambda: monitor.log.count('ready\n') == 1)
        left = monitor.marked
        kill_together(monitor)
        with IdleMonitor(tmp_path, config(process('p1', 'job', '1'))):
            eventually(lambda: not left.processes('3600'))


@needs_groups
def test_a_process_without_its_mark_is_known_by_its_control_group(tmp_path) -> None:
    make_program(tmp_path, 'job', 'env -i setsid sleep 3611 & echo ready; wait\n')
    with IdleMonitor(tmp_path, config(process('p0', 'job'))) as monitor:
        monitor.running('p0')
        eventually(lambda: monitor.log.count('ready\n') == 1)
        folder = groups_of(monitor)[0]
        pid = eventually(lambda: in_group(folder).get(b'sleep\0003611\0'))
        kill_together(monitor)
        with IdleMonitor(tmp_path, config(process('p1', 'job', '1'))):
            eventually(lambda: not folder.exists())
    eventually(lambda: not Path(f'/proc/{pid}').exists())


@needs_groups
def test_a_program_that_ends_takes_its_control_group_with_it(tmp_path) -> None:
    make_program(tmp_path, 'job', 'echo ready; env -i setsid sleep 3612 & wait\n')
    with IdleMonitor(tmp_path, config(process('p0', 'job'))) as monitor:
        monitor.running('p0')
        eventually(lambda: monitor.log.count('ready\n') == 1)
        assert len(groups_of(monitor)) == 1
        monitor.end()
        assert groups_of(monitor) == []


@needs_groups
def test_the_group_of_a_program_whose_guardian_was_killed_is_removed(tmp_path) -> None:
    make_program(tmp_path, 'job', 'echo ready; sleep 3613\n')
    with IdleMonitor(tmp_path, config(process('p0', 'job'))) as monitor:
        pid = monitor.running('p0')
        (first,) = groups_of(monitor)
        for guardian in monitor.marked.processes(GUARDIAN_MARK):
            os.kill(guardian, signal.SIGKILL)
        monitor.running('p0', but=pid)
        assert not first.exists()
        assert len(groups_of(monitor)) == 1


@needs_groups
def test_groups_in_which_nothing_is_left_are_removed_at_the_next_start(tmp_path) -> None:
    namespace = os.stat('/proc/self/ns/pid').st_ino
    empty = (OWN_GROUP or Path()) / f'gpu-tracker-idle-4000000-{namespace}-0123456789abcdef.7'
    empty.mkdir()
    make_program(tmp_path, 'job')
    with IdleMonitor(tmp_path, config(process('p0', 'job'))):
        eventually(lambda: not empty.exists())


def in_group(folder: Path) -> dict[bytes, int]:
    """Return the processes of a control group by their command lines."""
    found = {}
    for word in (folder / 'cgroup.procs').read_text().split():
        with contextlib.suppress(OSError):
            found[Path(f'/proc/{word}/cmdline').read_bytes()] = int(word)
    return found


def groups_of(monitor: IdleMonitor) -> list[Path]:
    return list((OWN_GROUP or Path()).glob(f'gpu-tracker-idle-{monitor.process.pid}-*'))


def kill_together(monitor: IdleMonitor) -> None:
    """Kill a monitor and its guardians while neither can note the end of the other."""
    pids = [monitor.process.pid, *monitor.marked.processes(GUARDIAN_MARK)]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)
    monitor.process.wait()


def test_a_monitor_that_ends_leaves_nothing_alive_that_it_has_begun_to_end(tmp_path) -> None:
    make_program(tmp_path, 'job', "trap '' TERM; echo ready; sleep 3600 & while :; do wait; done\n")
    with IdleMonitor(tmp_path, config(process('p0', 'job'))) as monitor:
        monitor.running('p0')
        eventually(lambda: monitor.log.count('ready\n') == 1)
        left = monitor.marked
        kill_together(monitor)
        with IdleMonitor(tmp_path, config(process('p1', 'job', '1'))) as second:
            eventually(lambda: 'left by a killed idle monitor' in second.log)
            second.end()
        # Killed they are, and nobody waits for their end: each is still there until it gets a CPU.
        eventually(lambda: not left.processes('3600'))
