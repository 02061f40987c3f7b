"""What is left of programs whose monitor and guardian were killed together, in a PID namespace with nobody else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

from gpu_tracker.idle.running import GUARDIAN_MARK
from support.claims.claim_actors import tool
from support.idle.idle_monitor import IdleMonitor, config, make_program, process
from support.tracked_program import as_root, environment
from support.waiting import eventually

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
    jobs[name].wait(60)
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
    assert 'ending sleep (pid LEFT), which an idle monitor that was killed has left' in said
    assert [line.partition(', which')[2] for line in said if 'not ended' in line] == [
        ' an idle monitor that was killed has left, belongs to user 54321 and is not ended'
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
            eventually(lambda: 'which an idle monitor that was killed has left' in second.log)
            second.end()
        assert not left.processes('3600')
