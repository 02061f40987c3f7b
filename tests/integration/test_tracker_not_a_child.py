"""The sampler is no child of the measured program, and where it becomes one nobody notices."""

from __future__ import annotations

import subprocess
import sys

from support.tracked_program import BURN, Samplers, answer, as_root, run
from support.waiting import TIMEOUT

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


# The program becomes the one to which orphans are handed, and so the sampler's parent.
ADOPTING = """
import ctypes
PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
"""

ADOPTED = (
    BURN
    + WAIT_FOR_ALL
    + """
import json, os, sys
import gpu_tracker as gput

with gput.Tracker(sleep_time=0.001, time_unit='seconds') as tracker:
    burn(0.2)
    with open('/proc/self/task/%d/children' % os.getpid()) as children:
        adopted = len(children.read().split())
usage = tracker.resource_usage
try:
    gput.Tracker(gpu_uuids=['GPU-unknown']).start()
except ValueError:
    pass
descendants = usage.cpu_utilization.descendants
print(json.dumps({
    'adopted': adopted,
    'left': wait_for_all(),
    'rss': usage.max_ram.descendants.total_rss,
    'threads': usage.cpu_utilization.descendants_n_threads,
    'cpu': descendants.mean_sum_percent,
}))
"""
)
NOTHING_SEEN = {'adopted': 1, 'left': [], 'rss': 0.0, 'threads': 0, 'cpu': 0.0}


def test_a_program_that_adopts_orphans_sees_nothing_of_the_sampler():
    assert answer(ADOPTING + ADOPTED) == NOTHING_SEEN


@as_root
def test_a_program_that_is_process_1_sees_nothing_of_the_sampler():
    assert answer(ADOPTED, words=('unshare', '--pid', '--fork', '--mount-proc')) == NOTHING_SEEN


@as_root
def test_a_program_that_is_process_1_and_ends_without_a_stop_leaves_no_sampler():
    samplers = Samplers()
    program = 'import os\nimport gpu_tracker as gput\ngput.Tracker().start()\nos._exit(3)'
    words = ['unshare', '--pid', '--fork', '--mount-proc', sys.executable, '-c', program]
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
