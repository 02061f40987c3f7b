"""What samplers announce of themselves, between real processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.processes.announced import AnnouncedSamplers
from support.truth import environment
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLER = """
import os, sys, time
from gpu_tracker.processes.announced import announce
for line in sys.stdin:
    if line == 'burn\\n':
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
    else:
        announce(int(sys.argv[1]), eval(line))
    print('done', flush=True)
"""
"""Announces what it is told to, for the tracker of a process."""


class Sampler:
    def __init__(self, owner: int) -> None:
        words = [sys.executable, '-c', SAMPLER, str(owner)]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
        )

    def do(self, what: str) -> None:
        self.process.stdin.write(f'{what}\n')
        self.process.stdin.flush()
        assert self.process.stdout.readline() == 'done\n'

    def end(self) -> None:
        self.process.communicate()


@pytest.fixture
def samplers() -> Iterator[AnnouncedSamplers]:
    found = AnnouncedSamplers(os.getpid())
    yield found
    found.close()


def test_a_sampler_counts_from_its_announcement_to_its_end(samplers: AnnouncedSamplers) -> None:
    sampler = Sampler(os.getpid())
    sampler.do('burn')
    assert samplers.seconds() == 0
    sampler.do('None')
    assert eventually(lambda: samplers.seconds() >= 0.2)  # as soon as the thread has taken what has come
    before = samplers.seconds()
    sampler.do('burn')
    assert samplers.seconds() >= before + 0.2
    sampler.do('7.5')
    assert eventually(lambda: samplers.seconds() == 7.5)  # the thread may just be taking it
    sampler.end()
    assert eventually(lambda: samplers.seconds() == 7.5)  # the thread may just be taking it


def test_a_sampler_that_is_killed_keeps_what_it_was_last_seen_with(samplers: AnnouncedSamplers) -> None:
    sampler = Sampler(os.getpid())
    sampler.do('None')
    before = eventually(samplers.seconds)
    sampler.process.kill()
    sampler.end()
    assert before > 0
    assert samplers.seconds() == before


def test_samplers_of_descendants_count_for_all_who_track_an_ancestor(samplers: AnnouncedSamplers) -> None:
    other = AnnouncedSamplers(os.getpid())
    with subprocess.Popen(['cat'], stdin=subprocess.PIPE) as owner:
        of_owner = AnnouncedSamplers(owner.pid)
        sampler = Sampler(owner.pid)
        for what in ('None', '2.5'):
            sampler.do(what)
        sampler.end()
        listeners = (samplers, other, of_owner)
        heard = eventually(lambda: [listener.seconds() for listener in listeners] == [2.5, 2.5, 2.5])
        of_owner.close()
        owner.communicate()
    other.close()
    assert heard


def test_more_announcements_than_the_kernel_keeps_are_heard(samplers: AnnouncedSamplers) -> None:
    sampler = Sampler(os.getpid())
    for number in range(600):
        sampler.do('None')
        sampler.do(str(number % 2))
    sampler.end()
    assert eventually(lambda: samplers.seconds() == 300)


def test_what_is_no_announcement_is_left_alone(samplers: AnnouncedSamplers) -> None:
    namespace = os.stat('/proc/self/ns/pid').st_ino
    taken = 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
        for message in (b'', b'x', bytes(100)):
            for number in range(4):  # an earlier listener of this process may just be leaving the first ones
                try:
                    sending.sendto(message, f'\0gpu-tracker-clocks-{namespace}-{os.getpid()}-{number}')
                except (ConnectionRefusedError, BrokenPipeError):
                    continue
                taken += 1
    assert taken >= 3
    sampler = Sampler(os.getpid())
    sampler.do('None')
    sampler.do('1.5')
    sampler.end()
    assert eventually(lambda: samplers.seconds() == 1.5)  # the thread may just be taking it


def test_nobody_listens_and_nobody_minds() -> None:
    sampler = Sampler(os.getpid())
    sampler.do('None')
    sampler.end()
    assert sampler.process.returncode == 0


def test_the_end_of_a_sampler_that_was_there_before_says_nothing(samplers: AnnouncedSamplers) -> None:
    sampler = Sampler(os.getpid())
    sampler.do('3.5')
    sampler.end()
    assert samplers.seconds() == 0
