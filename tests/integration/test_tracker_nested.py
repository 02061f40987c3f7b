"""Trackers inside trackers: no sampler is ever counted, neither alive nor in anybody's times."""

from __future__ import annotations

from support.tracked_program import BURN, Samplers, answer, start

STARTING = 0.02
"""CPU seconds that the short-lived process which starts a sampler may have used: it is a child of the program."""

DESCENDANTS = (
    BURN
    + """
import json, os, sys
import gpu_tracker as gput

def descendants(tracker):
    usage = tracker.resource_usage
    cpu = usage.cpu_utilization
    return {
        'rss': usage.max_ram.descendants.total_rss,
        'threads': cpu.descendants_n_threads,
        'cpu': cpu.descendants.mean_sum_percent / 100 * tracker._run.totals['seconds'],
    }
"""
)


def assert_idle(descendants: dict) -> None:
    assert descendants['rss'] == 0.0
    assert descendants['threads'] == 0
    assert descendants['cpu'] < STARTING


def test_a_tracker_inside_a_tracked_block_is_not_counted():
    found = answer(
        DESCENDANTS
        + """
with gput.Tracker(sleep_time=0.01, time_unit='seconds') as outer:
    with gput.Tracker(sleep_time=0.001, time_unit='seconds') as inner:
        burn(0.2)
    burn(0.1)
print(json.dumps([descendants(outer), descendants(inner)]))
"""
    )
    for descendants in found:
        assert_idle(descendants)


def test_two_trackers_side_by_side_are_not_counted():
    found = answer(
        DESCENDANTS
        + """
first = gput.Tracker(sleep_time=0.001, time_unit='seconds')
second = gput.Tracker(sleep_time=0.001, time_unit='seconds')
first.start()
second.start()
burn(0.1)
first.stop()
burn(0.1)
second.stop()
print(json.dumps([descendants(first), descendants(second)]))
"""
    )
    for descendants in found:
        assert_idle(descendants)


def test_trackers_of_a_program_that_adopts_orphans_are_not_counted():
    found = answer(
        DESCENDANTS
        + """
import ctypes
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
with gput.Tracker(sleep_time=0.001, time_unit='seconds') as outer:
    with gput.Tracker(sleep_time=0.1, time_unit='seconds') as inner:
        burn(0.2)
    burn(0.1)
print(json.dumps([descendants(outer), descendants(inner)]))
"""
    )
    for descendants in found:
        assert_idle(descendants)


CHILD = """
def child(body):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        with gput.Tracker(sleep_time=0.001, time_unit='seconds') as tracker:
            body(writing)
        os._exit(0)
    os.close(writing)
    return pid, reading
"""


def test_a_tracker_in_a_child_of_a_tracked_program_is_not_counted():
    found, used = answer(
        DESCENDANTS
        + CHILD
        + """
import resource
with gput.Tracker(sleep_time=0.01, ram_unit='bytes', time_unit='seconds') as tracker:
    pid, _ = child(lambda _: burn(0.2))
    os.waitpid(pid, 0)
usage = tracker.resource_usage
children = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = usage.cpu_utilization.descendants.mean_sum_percent / 100 * tracker._run.totals['seconds']
rest = children.ru_utime + children.ru_stime - seconds
print(json.dumps([descendants(tracker), rest]))
"""
    )
    assert found['threads'] == 1
    assert abs(used) < 0.05


def test_a_tracker_in_a_child_that_runs_at_the_end_is_not_counted():
    found, child_rss, alive = answer(
        DESCENDANTS
        + CHILD
        + """
import signal, time

def idle(writing):
    os.write(writing, b'tracked')
    signal.pause()

with gput.Tracker(sleep_time=0.01, ram_unit='bytes', time_unit='seconds') as tracker:
    pid, reading = child(idle)
    os.read(reading, 7)
    burn(0.2)
    with open(f'/proc/{pid}/statm') as statm:
        rss = int(statm.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')
alive = os.waitpid(pid, os.WNOHANG) == (0, 0)
os.kill(pid, signal.SIGKILL)
os.wait()
print(json.dumps([descendants(tracker), rss, alive]))
"""
    )
    assert alive
    assert found['threads'] == 1
    assert found['rss'] <= child_rss * 1.02
    assert found['cpu'] < 0.1


def test_a_tracker_that_is_started_by_a_tracked_program_is_not_counted_from_outside():
    samplers = Samplers()
    with start(
        DESCENDANTS
        + """
with gput.Tracker(sleep_time=0.001, time_unit='seconds'):
    print('ready', flush=True)
    input()
""",
        env=samplers.environment,
        stdin=-1,
    ) as program:
        assert program.stdout.readline() == 'ready\n'
        sampler = samplers.only()
        found = answer(
            DESCENDANTS
            + """
with gput.Tracker(process_id=int(sys.argv[1]), sleep_time=0.01, time_unit='seconds') as tracker:
    burn(0.2)
print(json.dumps(descendants(tracker)))
""",
            program.pid,
        )
        assert samplers.alive() == [sampler]
        program.communicate('\n')
    assert_idle(found)
    assert samplers.none_left()
