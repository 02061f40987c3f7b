from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.idle.running import GUARDIAN_MARK
from support.cli_program import state_of, text_of
from support.idle.guarded_program import Guarded
from support.tracked_program import cpu_seconds, status_of
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from support.cli_program import Marked

FOR_EVER = 3600
QUICK = 0.2
"""Seconds of grace for those that ignore SIGTERM."""

IGNORING = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('ready', flush=True)
while True:
    signal.pause()
"""

# A daemon as they are made: a session of its own, and a parent that has ended.
DAEMON = """
import os, signal, sys, time
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        if sys.argv[1] == 'ignores':
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print('ready', flush=True)
        os.write(writing, b'.')
        time.sleep(3600)
    os._exit(0)
os.wait()
os.read(reading, 1)
if sys.argv[2] == 'stays':
    time.sleep(3600)
"""

# Forks and ends at once, again and again, each time in a session of its own. It lasts longer than a test.
COMET = f"""
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('ready', flush=True)
end = time.monotonic() + {FOR_EVER}
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    os.setsid()
"""

# Four processes that start others all the time, each four at once at most. They last longer than a test.
BOMB = f"""
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork()
os.fork()
os.write(1, b'ready\\n')  # in one piece, among four
end = time.monotonic() + {FOR_EVER}
children = 0
while time.monotonic() < end:
    if os.fork() == 0:
        if children % 2:
            os.setsid()
        time.sleep(0.01)
        os._exit(0)
    children += 1
    while children and os.waitpid(-1, os.WNOHANG if children < 4 else 0)[0]:
        children -= 1
"""


def ready(log: Path, times: int = 1) -> None:
    eventually(lambda: text_of(log).count('ready\n') == times)


def test_a_program_that_obeys_is_gone_at_once(marked: Marked) -> None:
    with Guarded(['sleep', '3600'], stop_grace=FOR_EVER) as guarded:
        started = guarded.started()
        assert started.unmeasured is None
        assert guarded.running.program_pid == started.pid
        guarded.running.stop('GPU 0 used by python (pid 17, alice)', FOR_EVER)
        ended = guarded.ended()
        assert (ended.code, ended.signal, ended.ending) == (None, signal.SIGTERM, 'killed by SIGTERM')
        assert ended.reason == 'GPU 0 used by python (pid 17, alice)'
        assert guarded.running.final == ended
        assert guarded.running.read() == []
        eventually(guarded.running.has_ended)


def test_a_program_ends_by_itself(marked: Marked) -> None:
    begun = time.monotonic()
    with Guarded(['sh', '-c', 'exit 7']) as guarded:
        guarded.started()
        ended = guarded.ended()
        assert (ended.code, ended.signal, ended.reason, ended.left_behind) == (7, None, None, 0)
        assert 0 < ended.seconds < time.monotonic() - begun


def test_a_program_that_ignores_sigterm_is_killed_after_its_grace(marked: Marked, log: Path) -> None:
    with Guarded([IGNORING], log=str(log)) as guarded:
        guarded.started()
        ready(log)
        ordered = time.monotonic()
        guarded.running.stop('enough', QUICK)
        ended = guarded.ended()
        assert ended.signal == signal.SIGKILL
        assert time.monotonic() - ordered >= QUICK


def test_a_second_order_shortens_the_grace(marked: Marked, log: Path) -> None:
    with Guarded([IGNORING], log=str(log)) as guarded:
        guarded.started()
        ready(log)
        guarded.running.stop('enough', FOR_EVER)
        guarded.running.kill()
        ended = guarded.ended()
        assert (ended.signal, ended.reason) == (signal.SIGKILL, 'enough')


def test_a_longer_grace_comes_too_late(marked: Marked, log: Path) -> None:
    with Guarded([IGNORING], log=str(log)) as guarded:
        guarded.started()
        ready(log)
        guarded.running.stop('enough', QUICK)
        guarded.running.stop('more than enough', FOR_EVER)
        assert guarded.ended().reason == 'enough'


def test_a_program_gets_sigterm_once(marked: Marked, log: Path) -> None:
    program = (
        'import os, signal, time\n'
        "signal.signal(signal.SIGTERM, lambda *_: os.write(1, b'told\\n'))\n"
        "print('ready', flush=True)\n"
        'while True:\n    signal.pause()\n'
    )
    with Guarded([program], log=str(log)) as guarded:
        guarded.started()
        ready(log)
        guarded.running.stop('enough', FOR_EVER)
        eventually(lambda: 'told\n' in text_of(log))
        before = _switches(guarded.running.pid)
        eventually(lambda: _switches(guarded.running.pid) > before + 3)  # it looks at what is left again and again
        guarded.running.kill()
        guarded.ended()
        assert text_of(log).count('told\n') == 1


def test_what_a_program_starts_to_clean_up_gets_no_sigterm(marked: Marked, log: Path) -> None:
    script = "trap 'sleep 0.3; echo clean; exit 5' TERM; echo ready; while :; do sleep 0.01; done"
    with Guarded(['sh', '-c', script], log=str(log)) as guarded:
        guarded.started()
        ready(log)
        guarded.running.stop('enough', FOR_EVER)
        assert guarded.ended().code == 5
        assert 'clean\n' in text_of(log)


def test_a_stopped_program_is_continued_so_that_it_can_obey(marked: Marked, log: Path) -> None:
    script = "trap 'echo obeyed; exit 3' TERM; echo ready; while :; do sleep 0.01; done"
    with Guarded(['sh', '-c', script], log=str(log)) as guarded:
        program = guarded.started().pid
        ready(log)
        os.kill(program, signal.SIGSTOP)
        eventually(lambda: state_of(program) == 'T')
        guarded.running.stop('enough', FOR_EVER)
        assert guarded.ended().code == 3


def test_grandchildren_of_a_wrapper_end_with_it(marked: Marked, log: Path) -> None:
    with Guarded(['sh', '-c', 'sh -c "echo ready; sleep 3600; true"; true'], log=str(log)) as guarded:
        guarded.started()
        ready(log)
        guarded.running.stop('enough', FOR_EVER)
        assert guarded.ended().left_behind == 0
        assert marked.processes('sleep') == []


@pytest.mark.parametrize(('daemon', 'grace'), [('obeys', FOR_EVER), ('ignores', QUICK)])
def test_daemons_of_a_program_end_with_it(marked: Marked, log: Path, daemon: str, grace: float) -> None:
    with Guarded([DAEMON, daemon, 'stays'], log=str(log)) as guarded:
        guarded.started()
        ready(log)
        guarded.running.stop('enough', grace)
        guarded.ended()
        assert marked.processes('argv[1]') == []


@pytest.mark.parametrize(('daemon', 'grace'), [('obeys', FOR_EVER), ('ignores', QUICK)])
def test_what_a_program_leaves_behind_is_ended(marked: Marked, log: Path, daemon: str, grace: float) -> None:
    with Guarded([DAEMON, daemon, 'ends'], log=str(log), stop_grace=grace) as guarded:
        guarded.started()
        ended = guarded.ended()
        assert (ended.code, ended.reason, ended.left_behind) == (0, None, 1)
        assert 'ready\n' in text_of(log)
        assert marked.processes('argv[1]') == []
    assert '; exit code 0; 1 process that it had left behind was ended; 0.0' in text_of(log)


def test_who_forks_and_ends_all_the_time_is_caught(marked: Marked, log: Path) -> None:
    with Guarded([COMET], log=str(log), stop_grace=QUICK) as guarded:
        guarded.started()
        ready(log)
        guarded.ended()


def test_who_starts_others_all_the_time_is_caught(marked: Marked, log: Path) -> None:
    with Guarded([BOMB], log=str(log)) as guarded:
        guarded.started()
        ready(log, 4)
        guarded.running.stop('enough', QUICK)
        guarded.ended()


def test_sigterm_to_the_guardian_stops_the_program(marked: Marked) -> None:
    with Guarded(['sleep', '3600']) as guarded:
        guarded.started()
        os.kill(guarded.running.pid, signal.SIGTERM)
        assert guarded.ended().reason == 'its guardian got SIGTERM'


def test_a_guardian_costs_nothing_while_nothing_happens(marked: Marked) -> None:
    with Guarded(['sleep', '3600']) as guarded:
        guarded.started()
        eventually(lambda: state_of(guarded.running.pid) == 'S')
        before = (cpu_seconds(guarded.running.pid), _switches(guarded.running.pid))
        end = time.monotonic() + 0.5
        eventually(lambda: time.monotonic() > end)
        assert (cpu_seconds(guarded.running.pid), _switches(guarded.running.pid)) == before


def test_a_guardian_is_known_by_its_mark_and_leads_a_session(marked: Marked) -> None:
    with Guarded(['sleep', '3600']) as guarded:
        program = guarded.started().pid
        guardian = guarded.running.pid
        assert marked.processes(GUARDIAN_MARK) == [guardian]
        assert os.getsid(guardian) == guardian
        assert (os.getsid(program), os.getpgid(program)) == (program, program)


def _switches(pid: int) -> int:
    """Return how often a process has slept: what wakes up for nothing is seen here at once."""
    return status_of(pid, 'voluntary_ctxt_switches')
