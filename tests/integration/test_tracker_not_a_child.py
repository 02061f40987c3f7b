"""The sampler is no child that the measured program could notice."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from support.programs import need_program
from support.tracked_program import BURN, Samplers, answer, environment, run
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_FOR_ALL = """
import os

def wait_for_all():
    found = []
    while True:
        try:
            found.append(os.wait()[0])
        except ChildProcessError:
            return found
"""


def test_a_loop_that_waits_for_all_children_sees_only_the_programs_own():
    seen, own = answer(
        WAIT_FOR_ALL
        + """
import json
import gpu_tracker as gput
own = []
def child():
    own.append(os.fork())
    if own[-1] == 0:
        os._exit(0)
child()
with gput.Tracker():
    child()
    seen = wait_for_all()
child()
seen += wait_for_all()
print(json.dumps([sorted(seen), sorted(own)]))
"""
    )
    assert seen == own


COUNTED = """
import json, os, signal, time
import gpu_tracker as gput
signals = []
signal.signal(signal.SIGCHLD, lambda number, frame: signals.append(number))
"""


def test_a_handler_of_ended_children_is_not_called():
    assert (
        answer(
            COUNTED
            + """
for _ in range(2):
    with gput.Tracker(sleep_time=0.001):
        pass
print(json.dumps(len(signals)))
"""
        )
        == 0
    )


def test_a_handler_hears_of_a_child_that_ends_while_the_tracker_starts():
    heard = answer(
        COUNTED
        + """
heard = 0
for delay in range(0, 20, 3):
    before = len(signals)
    child = os.fork()
    if child == 0:
        time.sleep(delay * 0.0005)
        os._exit(0)
    with gput.Tracker():
        deadline = time.monotonic() + 300
        while len(signals) == before and time.monotonic() < deadline:
            pass
    heard += len(signals) > before
    os.waitpid(child, 0)
print(json.dumps(heard))
"""
    )
    assert heard == 7


def test_a_blocked_signal_of_ended_children_is_pending_only_for_the_programs_own():
    assert answer("""
import json, os, signal
import gpu_tracker as gput
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
with gput.Tracker():
    before = signal.SIGCHLD in signal.sigpending()
child = os.fork()
if child == 0:
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
with gput.Tracker():
    own = signal.SIGCHLD in signal.sigpending()
os.waitpid(child, 0)
print(json.dumps([before, own]))
""") == [False, True]


def test_the_times_of_children_do_not_contain_the_samplers():
    used = answer("""
import json, os, resource, time
import gpu_tracker as gput
def used():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
before = used()
with gput.Tracker(sleep_time=0.001):
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        pass
try:
    os.wait()
except ChildProcessError:
    print(json.dumps(used() - before))
""")
    assert used < 0.005


# The program becomes the one to which orphans are handed.
ADOPTING = """
import ctypes
PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
"""


def process_1() -> tuple[str, ...]:
    """Return the words before a program that make it the first process of a PID namespace."""
    need_program('unshare')
    words = ('unshare', '-pf' if os.geteuid() == 0 else '-Urpf', '--mount-proc')
    if subprocess.run([*words, 'true'], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip('this machine lets nobody make a PID namespace')
    return words


@pytest.fixture(params=['subreaper', 'process 1'])
def adopting(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Give a function that runs an adopter of orphans, and returns its JSON."""
    if request.param == 'subreaper':
        return lambda text, *arguments, **options: answer(ADOPTING + text, *arguments, **options)
    words = process_1()
    return lambda text, *arguments, **options: answer(text, *arguments, words=words, **options)


LEFT = (
    BURN
    + WAIT_FOR_ALL
    + COUNTED
    + """
import resource, sys, threading

def states():
    found = []
    with open('/proc/self/task/%d/children' % os.getpid()) as file:
        for pid in file.read().split():
            with open('/proc/%s/stat' % pid) as stat:
                found.append(stat.read().rpartition(')')[2].split()[0])
    return found

def left():
    waited = wait_for_all()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {'waited': waited, 'states': states(), 'signals': signals, 'cpu': used.ru_utime + used.ru_stime > 0.02}
"""
)
"""Source of a function that returns what a program has left of its children and samplers."""
NOTHING = {'waited': [], 'states': [], 'signals': [], 'cpu': False}


@pytest.mark.parametrize(('reader', 'descendants'), [('proc', 0.0), ('psutil', None)])
def test_a_program_that_adopts_orphans_notices_nothing(
    adopting: Callable[..., Any], reader: str, descendants: float | None
) -> None:
    found = adopting(
        LEFT
        + """
taken = b'1' * 50_000_000
with gput.Tracker(sleep_time=0.01, time_unit='seconds', ram_unit='megabytes') as tracker:
    while_tracked = wait_for_all()
    burn(0.2)
try:
    gput.Tracker(gpu_uuids=['GPU-unknown']).start()
except ValueError:
    pass
usage = tracker.resource_usage
ram, cpu = usage.max_ram, usage.cpu_utilization
print(json.dumps({
    'waited': while_tracked,
    'left': left(),
    'main': 50 < ram.main.total_rss < 95,
    'combined': 50 < ram.combined.total_rss < 95,
    'descendants': ram.descendants.total_rss,
    'cpu': cpu.descendants.mean_sum_percent,
    'threads': [cpu.main_n_threads, cpu.descendants_n_threads],
}))
""",
        env=environment({'GPU_TRACKER_READER': reader}),
    )
    assert found == {
        'waited': [],
        'left': NOTHING,
        'main': True,
        'combined': True,
        'descendants': descendants,
        'cpu': 0.0,
        'threads': [1, 0],
    }


def test_a_program_that_adopts_orphans_waits_only_for_its_own_children(adopting: Callable[..., Any]) -> None:
    own, found, left, threads = adopting(
        LEFT
        + """
def worker():
    child = os.fork()
    if child == 0:
        burn(0.2)
        os._exit(0)
    return child

with gput.Tracker(sleep_time=0.01) as tracker:
    own = sorted(worker() for _ in range(2))
    found = sorted(wait_for_all())
signals.clear()
print(json.dumps([own, found, left(), tracker.resource_usage.cpu_utilization.descendants_n_threads]))
"""
    )
    assert found == own
    assert left == {**NOTHING, 'cpu': True}
    assert threads == 2


def test_a_program_that_adopts_orphans_may_start_trackers_while_its_threads_start_and_wait_for_children(
    adopting: Callable[..., Any],
) -> None:
    found = adopting(
        LEFT
        + """
with gput.Tracker():
    pass  # from now on a subreaper is known to be one
own, seen, measured = set(), set(), []
are_tracked = threading.Event()

def start_children():
    while not are_tracked.is_set():
        own.add(os.posix_spawn('/bin/true', ['true'], {}))
        time.sleep(0.001)

def wait_for_any():
    while spawning.is_alive() or own - seen:
        try:
            seen.add(os.wait()[0])
        except ChildProcessError:
            time.sleep(0.001)

def track():
    with gput.Tracker(sleep_time=0.01) as tracker:
        burn(0.05)
    measured.append(tracker.resource_usage.max_ram.main.total_rss > 0)

spawning = threading.Thread(target=start_children)
trackers = [threading.Thread(target=track) for _ in range(3)]
for thread in (spawning, waiting := threading.Thread(target=wait_for_any), *trackers):
    thread.start()
for thread in trackers:
    thread.join()
are_tracked.set()
waiting.join()
print(json.dumps([seen == own, measured, wait_for_all(), states()]))
"""
    )
    assert found == [True, [True, True, True], [], []]


def test_a_program_that_adopts_orphans_and_becomes_another_one_leaves_no_sampler(adopting: Callable[..., Any]) -> None:
    later = """
deadline = time.monotonic() + 300
while (found := states()) != ['Z'] and time.monotonic() < deadline:
    time.sleep(0.001)
print(json.dumps([found, wait_for_all()]))
"""
    program = "gput.Tracker(sleep_time=60).start()\nos.execv(sys.executable, [sys.executable, '-c', sys.argv[1]])"
    assert adopting(LEFT + program, LEFT + later) == [['Z'], []]


def test_without_ctypes_a_program_that_adopts_orphans_is_warned(adopting: Callable[..., Any]) -> None:
    messages, rss, left = adopting(
        LEFT
        + """
import logging
sys.modules['ctypes'] = None
messages = []
handler = logging.Handler()
handler.emit = lambda record: messages.append(record.getMessage())
logging.getLogger().addHandler(handler)
with gput.Tracker(sleep_time=0.01) as tracker:
    burn(0.1)
print(json.dumps([messages, tracker.resource_usage.max_ram.descendants.total_rss, left()]))
"""
    )
    assert messages == [
        'This program has adopted the sampler: until the tracker stops, waiting for all children does not end.'
    ]
    assert rss == 0.0
    del left['cpu'], left['signals']
    assert left == {'waited': [], 'states': []}


def test_a_program_that_adopts_no_orphans_does_not_load_ctypes() -> None:
    loaded = answer("""
import json, sys
import gpu_tracker as gput
with gput.Tracker():
    pass
print(json.dumps('ctypes' in sys.modules))
""")
    assert not loaded


def test_a_program_that_is_process_1_and_ends_without_a_stop_leaves_no_sampler():
    samplers = Samplers()
    program = 'import os\nimport gpu_tracker as gput\ngput.Tracker().start()\nos._exit(3)'
    words = [*process_1(), sys.executable, '-c', program]
    assert subprocess.run(words, env=samplers.environment, timeout=TIMEOUT, check=False).returncode == 3
    assert samplers.none_left()


def test_an_adopting_program_that_waits_for_all_children_itself_does_not_disturb_the_stop():
    assert (
        run(
            ADOPTING
            + WAIT_FOR_ALL
            + """
import signal
import gpu_tracker as gput
tracker = gput.Tracker(disable_logs=True)
tracker.start()
os.kill(tracker._run.session.pid, signal.SIGKILL)
wait_for_all()
tracker.stop()
print(tracker.state.name, tracker.resource_usage.max_ram.main.total_rss > 0)
"""
        ).stdout
        == 'STOPPED True\n'
    )
