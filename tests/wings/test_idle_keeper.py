"""Programs under guardians that are killed, or do not do what they are told."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest

from gpu_tracker.idle.running import GUARDIAN_MARK
from support.cli_program import Marked
from support.waiting import TIMEOUT

# Keeps a program with a descendant in a session of its own; sends its guardian a signal, before which it may order the
# end of the program, and tells who is left when it is told that the program has ended. In a process of its own, because
# that becomes the parent of orphans.
KEEPER = """
import asyncio, logging, os, signal, sys
from gpu_tracker.idle.config.idle_settings import Program
from gpu_tracker.idle.decision import Start
from gpu_tracker.idle.config.idle_settings import GpuId
from gpu_tracker.idle.keeper import GuardedPrograms
from gpu_tracker.idle.state import WatchedGpu

logging.basicConfig(stream=sys.stdout, format='%(levelname)s %(message)s', level=logging.INFO)
PROGRAM = "trap '' TERM; setsid sh -c 'setsid sleep 3600 & sleep 3601' & wait"

async def main(order, number):
    gone = asyncio.Event()
    def ended(name, end):
        print(name, end.text, flush=True)
        print('left:', count_left(), flush=True)
        gone.set()
    keeper = GuardedPrograms(logging.getLogger(), ended, timeout=0.2)
    program = Program('process-a', (GpuId(0),), ('sh', '-c', PROGRAM), '/')
    keeper.start(Start(program, (WatchedGpu(GpuId(0)),), 'GPU 0 idle'))
    (guardian,) = keeper.roots
    if order == 'stopped at once':
        keeper.stop('process-a', 'GPU 0 used', 5)
    # It may be there before its guardian has told so.
    while order != 'stopped at once' and (count_left() < 2 or not keeper.pids):
        await asyncio.sleep(0.005)
    if order == 'stopped':
        keeper.stop('process-a', 'GPU 0 used', 2)  # the guardian is stopped well before that is over
    os.kill(guardian, number)
    await gone.wait()
    assert not keeper.pids

def count_left():
    return sum(map(is_left, filter(str.isdecimal, os.listdir('/proc'))))

def is_left(pid):
    try:
        with open(f'/proc/{pid}/environ', 'rb') as environ, open(f'/proc/{pid}/cmdline', 'rb') as line:
            is_sleep = line.read().startswith(b'sleep')
            return is_sleep and b'MARK_OF_A_TEST=' + os.environb[b'MARK_OF_A_TEST'] in environ.read().split(b'\\0')
    except OSError:
        return False

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@pytest.fixture
def told():
    """Return what tells what a keeper says."""
    marked = Marked()

    def told(order: str, number: signal.Signals) -> list[str]:
        words = [sys.executable, '-c', KEEPER, order, str(int(number))]
        options = {'stdout': subprocess.PIPE, 'text': True, 'env': marked.environment, 'timeout': TIMEOUT}
        text = subprocess.run(words, check=True, **options).stdout
        assert marked.processes(GUARDIAN_MARK) == []
        return re.sub(r'\bpid \d+', 'pid N', text).splitlines()

    return told


def test_one_that_does_not_do_what_it_was_told_is_killed_and_nothing_is_left(told):
    assert told('stopped', signal.SIGSTOP) == [
        'INFO process-a runs: pid N',
        'WARNING process-a: killing the guardian process of the program (pid N), which does not respond',
        'process-a has ended with its guardian',
        'left: 0',
    ]


def test_the_end_of_a_program_is_told_when_nothing_is_left_that_its_guardian_had(told):
    assert told('runs', signal.SIGKILL) == [
        'INFO process-a runs: pid N',
        'process-a has ended: its guardian was ended from outside',
        'left: 0',
    ]


# Instead of a guardian: takes an order, tells that SIGKILL does not help, and does nothing more.
STUCK = """#!/bin/sh
read order < /proc/self/fd/$7
echo '{"event": "stuck", "left": "sh (pid 7)"}' > /proc/self/fd/$8
exec sleep 3600
"""

KEEPER_OF_STUCK = """
import asyncio, logging, os, signal, sys
from gpu_tracker.idle.config.idle_settings import Program
from gpu_tracker.idle.decision import Start
from gpu_tracker.idle.config.idle_settings import GpuId
from gpu_tracker.idle.keeper import GuardedPrograms
from gpu_tracker.idle.state import WatchedGpu

class Stuck(logging.Handler):
    def emit(self, record):
        if 'SIGKILL' in record.getMessage():
            stuck.set()

stuck, gone = asyncio.Event(), asyncio.Event()
logging.basicConfig(stream=sys.stdout, format='%(levelname)s %(message)s', level=logging.INFO)
logging.getLogger().addHandler(Stuck())

async def main():
    def ended(name, end):
        print(name, end.text, flush=True)
        gone.set()
    keeper = GuardedPrograms(logging.getLogger(), ended, timeout=0)
    program = Program('process-a', (GpuId(0),), ('true',), '/')
    keeper.start(Start(program, (WatchedGpu(GpuId(0)),), 'GPU 0 idle'))
    (guardian,) = keeper.roots
    keeper.stop('process-a', 'GPU 0 used', 3600)
    await stuck.wait()
    keeper.kill()
    for _ in range(5):
        await asyncio.sleep(0)
    os.kill(guardian, signal.SIGKILL)
    await gone.wait()

sys.executable = sys.argv[1]
asyncio.run(main())
"""


def test_one_whose_program_nothing_ends_is_not_called_disobedient(tmp_path):
    guardian = tmp_path / 'guardian'
    guardian.write_text(STUCK)
    guardian.chmod(0o755)
    words = [sys.executable, '-c', KEEPER_OF_STUCK, str(guardian)]
    options = {'stdout': subprocess.PIPE, 'text': True, 'env': Marked().environment, 'timeout': TIMEOUT}
    assert subprocess.run(words, check=True, **options).stdout.splitlines() == [
        'WARNING process-a: still running after SIGKILL: sh (pid 7)',
        'process-a has ended: its guardian was ended from outside',
    ]


def test_one_that_was_stopped_before_it_was_started_could_be_started(told):
    assert told('stopped at once', signal.SIGCONT) == ['process-a was stopped before it was started', 'left: 0']
