"""The names that keep a second monitor away: real names of the kernel's, which no other test has."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import socket
import subprocess
import sys
import uuid

import pytest

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.idle.gpu_claims import Taken, WatchNames
from gpu_tracker.system.sockets import Peer
from gpu_tracker.system.users import user_name
from support.tracked_program import environment
from support.waiting import TIMEOUT, eventually

ME = Peer(os.getpid(), os.geteuid())
MY_NAME = user_name(os.geteuid())

HOLDER = """
import sys
from gpu_tracker.idle.gpu_claims import WatchNames
names = WatchNames(sys.argv[1])
print(names.claim(sys.argv[2:]), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def prefix() -> str:
    return f'gpu-tracker-test/{uuid.uuid4()}/'


@pytest.fixture
def names(prefix):
    names = WatchNames(prefix)
    yield names
    names.close()


@pytest.fixture
def others(prefix):
    others = WatchNames(prefix)
    yield others
    others.close()


def bound(name: str) -> socket.socket:
    """Have a name without listening."""
    holder = socket.socket(socket.AF_UNIX)
    try:
        holder.bind(f'\0{name}')
    except OSError:
        holder.close()
        raise
    return holder


def test_the_name_is_what_other_versions_will_look_for():
    identity = f'test {uuid.uuid4()}'
    names = WatchNames()
    assert names.claim([identity]) == ()
    try:
        with pytest.raises(OSError, match='in use'):
            bound(f'gpu-tracker-idle/{identity}')
    finally:
        names.close()


def test_what_is_free_is_held_and_what_another_has_is_told_with_its_holder(names, others):
    assert names.claim(['char 195:0', 'char 195:1']) == ()
    assert others.claim(['char 195:1', 'char 195:2', 'char 195:0']) == (
        Taken('char 195:1', ME),
        Taken('char 195:0', ME),
    )
    assert (names.held, others.held) == ({'char 195:0', 'char 195:1'}, {'char 195:2'})


def test_what_is_held_may_be_claimed_again_and_the_same_twice(names):
    assert names.claim(['GPU-a', 'GPU-a']) == ()
    assert names.claim(['GPU-b', 'GPU-a']) == ()
    assert names.held == {'GPU-a', 'GPU-b'}


def test_what_is_released_is_free_at_once(names, others):
    names.claim(['file 2049:123', 'file 2049:124'])
    names.release(['file 2049:123', 'never held'])
    assert names.held == {'file 2049:124'}
    assert [taken.identity for taken in others.claim(['file 2049:123', 'file 2049:124'])] == ['file 2049:124']
    names.close()
    assert names.held == frozenset()
    assert others.claim(['file 2049:124']) == ()


def test_a_holder_of_another_process_that_is_killed_gives_its_names_back(prefix, names):
    words = [sys.executable, '-c', HOLDER, prefix, 'char 195:0', 'char 195:1']
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout.readline() == '()\n'
        (taken,) = names.claim(['char 195:0', 'char 195:7'])
        assert taken == Taken('char 195:0', Peer(process.pid, ME.user_id))
        assert taken.in_words() == f'another idle monitor (pid {process.pid}, {MY_NAME})'
        process.send_signal(signal.SIGKILL)
        process.wait(TIMEOUT)
        assert names.claim(['char 195:0', 'char 195:1', 'char 195:7']) == ()


def test_a_holder_that_cannot_be_asked_is_one_all_the_same(prefix, names):
    with bound(f'{prefix}GPU-a'):
        (taken,) = names.claim(['GPU-a'])
    assert taken == Taken('GPU-a', None)
    assert taken.in_words() == 'another idle monitor'


def test_one_that_is_asked_again_and_again_can_still_be_asked_when_it_has_claimed_again(prefix, names):
    others = WatchNames(prefix, monotonic=itertools.count(0.0, 10.0).__next__)
    names.claim(['GPU-a'])
    askers = []
    while others.claim(['GPU-a']) == (Taken('GPU-a', ME),):
        askers.append(1)
        assert len(askers) < 10_000
    assert others.claim(['GPU-a']) == (Taken('GPU-a', None),)
    names.claim(['GPU-a'])
    assert others.claim(['GPU-a']) == (Taken('GPU-a', ME),)


def test_who_has_a_name_is_believed_for_ten_seconds_as_long_as_somebody_has_it(prefix):
    now = 100.0
    names = WatchNames(prefix, monotonic=lambda: now)
    with bound(f'{prefix}GPU-a') as holder:
        holder.listen(1)
        holder.settimeout(0)
        assert names.claim(['GPU-a']) == (Taken('GPU-a', ME),)
        holder.accept()[0].close()
        now = 109.9
        assert names.claim(['GPU-a']) == (Taken('GPU-a', ME),)
        with pytest.raises(BlockingIOError):
            holder.accept()
        now = 110.0
        assert names.claim(['GPU-a']) == (Taken('GPU-a', ME),)
        holder.accept()[0].close()
    assert names.claim(['GPU-a']) == ()
    names.close()


def test_a_process_without_descriptors_is_an_error_in_words(prefix, names):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(GpuTrackerError) as error:
            names.claim(['GPU-a'])
        assert str(error.value) == (
            f'cannot reserve the socket name @{prefix}GPU-a: too many open files. '
            'The name prevents a second monitor on the same GPU'
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_holder_in_a_container_whose_process_is_not_to_be_seen():
    taken = Taken('GPU-a', Peer(None, 17))
    assert taken.in_words(name_of={17: 'alice'}.__getitem__) == 'another idle monitor (alice)'


def test_a_name_that_the_system_does_not_take_is_an_error_in_words(names):
    with pytest.raises(
        GpuTrackerError, match=r'^cannot reserve the socket name @gpu-tracker-test/.*x: af_unix path too long\.'
    ):
        names.claim(['x' * 100])
    assert names.held == frozenset()


def test_no_program_that_is_started_takes_a_name_along(prefix, names, others):
    names.claim(['GPU-a'])
    with subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE, close_fds=False):
        names.close()
        # The kernel closes what a program does not take along a moment after it counts as started.
        eventually(lambda: others.claim(['GPU-a']) == ())
