"""The tracker in programs whose greenlets take turns, where the system calls that wait were replaced."""

from __future__ import annotations

import pytest

from support.tracked_program import answer, run

PATCHED = """
from gevent import monkey
monkey.patch_all()
import json, os, signal
import gevent
import gevent.os
import gpu_tracker as gput
"""


def test_a_program_that_gevent_has_patched_is_tracked():
    assert (
        run(f"""{PATCHED}
with gput.Tracker(ram_unit='bytes') as tracker:
    data = b'x' * 50_000_000
print(tracker.resource_usage.max_ram.main.total_rss > 50_000_000)
""").stdout
        == 'True\n'
    )


def test_gevent_watches_no_process_of_the_tracker():
    """It would do so for ever, since the process was waited for without it."""
    assert (
        answer(f"""{PATCHED}
with gput.Tracker():
    gevent.sleep()
print(json.dumps(gevent.os._watched_children))
""")
        == {}
    )


def test_greenlets_are_tracked_beside_each_other_and_let_others_run():
    seen, turns = answer(f"""{PATCHED}
turns = 0

def take_turns():
    global turns
    while True:
        turns += 1
        gevent.sleep()

def track():
    with gput.Tracker(ram_unit='bytes') as tracker:
        gevent.sleep()
    return tracker.resource_usage.max_ram.main.total_rss > 0

gevent.spawn(take_turns)
greenlets = [gevent.spawn(track) for _ in range(3)]
gevent.joinall(greenlets, raise_error=True)
print(json.dumps([[greenlet.value for greenlet in greenlets], turns]))
""")
    assert seen == [True, True, True]
    assert turns > 10


def test_a_thread_of_gevent_is_tracked():
    """Its own functions that start processes work in the main thread alone."""
    assert (
        run(f"""{PATCHED}
def track():
    with gput.Tracker(ram_unit='bytes') as tracker:
        pass
    return tracker.resource_usage.max_ram.main.total_rss > 0

print(gevent.get_hub().threadpool.apply(track))
""").stdout
        == 'True\n'
    )


def test_a_greenlet_that_is_killed_while_the_tracker_starts_leaves_it_as_it_was():
    assert (
        run(f"""{PATCHED}
gevent.sleep(0.001)  # gevent opens what it needs itself
handles = os.listdir('/proc/self/fd')
tracker = gput.Tracker()
starting = gevent.spawn(tracker.start)
gevent.sleep()
starting.kill()
with gevent.Timeout(10):
    while os.listdir('/proc/self/fd') != handles:  # gevent closes descriptors on one of its next turns
        gevent.sleep()
print(repr(tracker))
""").stdout
        == 'State: NEW\n'
    )


@pytest.mark.parametrize(
    ('signal_name', 'problem'),
    [
        ('SIGKILL', 'The sampler was ended from outside; '),
        ('SIGSTOP', 'The sampler has not answered for 0.2 s and was ended; '),
    ],
)
def test_a_sampler_that_is_ended_or_stopped_under_gevent(signal_name: str, problem: str):
    log, seen = answer(f"""{PATCHED}
import logging, time
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
records = []
handler = logging.Handler(logging.WARNING)
handler.emit = records.append
logging.getLogger().addHandler(handler)

def state_of(pid):
    try:
        with open(f'/proc/{{pid}}/stat') as file:
            return file.read().rpartition(')')[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return 'Z'  # init has waited for it already

with gput.Tracker(ram_unit='bytes', n_join_attempts=2, join_timeout=0.1) as tracker:
    sampler = tracker._run.session.pid
    os.kill(sampler, signal.{signal_name})
    while state_of(sampler) not in 'ZT':
        gevent.sleep(0.001)
print(json.dumps([[record.getMessage() for record in records], tracker.resource_usage.max_ram.main.total_rss > 0]))
""")
    assert log == [f'{problem}the result is what it had measured until then.']
    assert seen


@pytest.mark.parametrize('when', ['before', 'after'])
def test_a_program_that_takes_poll_away_as_eventlet_does_is_tracked_and_waits_no_longer_than_asked(when: str):
    removal = 'import select\ndel select.poll, select.epoll\n'
    imported = 'import gpu_tracker.sampler.session\n'
    assert (
        run(f"""{removal + imported if when == 'before' else imported + removal}
import os, signal
import gpu_tracker as gput
with gput.Tracker(ram_unit='bytes') as tracker:
    pass
with gput.Tracker(n_join_attempts=1, join_timeout=0.1, disable_logs=True) as stopped:
    os.kill(stopped._run.session.pid, signal.SIGSTOP)
print(tracker.resource_usage.max_ram.main.total_rss > 0, stopped.state.name)
""").stdout
        == 'True STOPPED\n'
    )
