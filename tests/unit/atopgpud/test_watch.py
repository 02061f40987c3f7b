from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.atopgpud.watch import Watch, start_of
from gpu_tracker.gpus.model import GpuProcess
from support.cli_program import state_of
from support.gpus.gpu_machine import NO_SUCH_PROCESS
from support.gpus.gpu_readings import monitored
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

OFTEN = 0.005
ONCE = 3600


class Monitor:
    """Answers with what it is told, as soon as ``may_answer`` is set."""

    def __init__(self) -> None:
        self.answer = monitored(utilization=1)
        self.gpu = self.answer.gpu
        self.failure = None
        self.looks = 0
        self.may_answer = threading.Event()
        self.may_answer.set()

    def read(self, *, accounts):
        assert accounts
        self.looks += 1
        self.may_answer.wait(TIMEOUT)
        if self.failure is not None:
            raise self.failure
        return self.answer


class Watched:
    """A monitor that is watched, and what is delivered."""

    def __init__(self) -> None:
        self.monitor = Monitor()
        self.readings = []
        self.asked = []
        self.living = {}

    def watch(self, interval) -> Watch:
        self.watch = Watch(self.monitor, interval, time.monotonic(), self._deliver, self._start_of)
        self.watch.start()
        return self.watch

    def _deliver(self, activity, starts) -> None:
        self.readings.append((activity, starts))

    def _start_of(self, pid):
        self.asked.append(pid)
        return self.living.get(pid)


@pytest.fixture
def watched() -> Iterator[Watched]:
    found = Watched()
    yield found
    found.monitor.may_answer.set()
    found.watch.stop()
    assert found.watch.has_ended(TIMEOUT)


def test_the_first_look_is_at_once_and_the_next_an_interval_later(watched):
    watched.watch(ONCE)
    eventually(lambda: watched.readings)
    assert watched.readings == [(monitored(utilization=1), {})]
    assert watched.monitor.looks == 1


def test_looks_go_on_until_they_are_stopped(watched):
    watch = watched.watch(OFTEN)
    eventually(lambda: len(watched.readings) >= 5)
    assert not watch.has_ended(0)
    watch.stop()
    assert watch.has_ended(TIMEOUT)
    # What a look finds that was under way at the stop is not delivered.
    assert watched.monitor.looks - len(watched.readings) in {0, 1}


def test_a_stop_does_not_wait_for_the_next_look(watched):
    watch = watched.watch(ONCE)
    eventually(lambda: watched.readings)
    watch.stop()
    assert watch.has_ended(TIMEOUT)


def test_a_look_that_fails_is_a_reading_with_a_problem_and_the_next_one_follows(watched):
    watched.monitor.failure = ValueError('of all things')
    watched.watch(OFTEN)
    eventually(lambda: len(watched.readings) >= 2)
    assert watched.readings[0] == (monitored(problem='cannot be read: ValueError: of all things'), {})
    watched.monitor.failure = None
    eventually(lambda: watched.readings[-1] == (monitored(utilization=1), {}))


def test_a_process_is_known_by_its_start_until_it_has_ended(watched):
    def delivered(*pids):
        watched.monitor.answer = monitored(processes=tuple(GpuProcess(pid) for pid in pids))
        looks = watched.monitor.looks
        eventually(lambda: len(watched.readings) >= looks + 2)
        return watched.readings[-1][1]

    watched.living = {7: 100.0, 8: 200.0}
    watched.monitor.answer = monitored(processes=())
    watched.watch(OFTEN)
    assert delivered(7, 8, 9) == {7: 100.0, 8: 200.0, 9: None}
    assert watched.asked.count(7) == 1
    assert delivered(8) == {7: 100.0, 8: 200.0}
    watched.monitor.answer = monitored()  # who is on the GPU is not known
    assert delivered(8) == {7: 100.0, 8: 200.0}
    watched.living[7] = 300.0  # of another process
    assert delivered(8) == {8: 200.0}
    assert delivered(8, 7) == {8: 200.0, 7: 300.0}
    assert watched.asked.count(8) == 1


def test_what_a_look_finds_that_was_stopped_meanwhile_is_not_delivered(watched):
    watched.monitor.may_answer.clear()
    watch = watched.watch(ONCE)
    eventually(lambda: watched.monitor.looks)
    watch.stop()
    assert not watch.has_ended(0)
    watched.monitor.may_answer.set()
    assert watch.has_ended(TIMEOUT)
    assert not watch.go_on()
    assert watched.readings == []


def test_a_stop_can_be_taken_back_while_a_look_hangs(watched):
    watched.monitor.may_answer.clear()
    watch = watched.watch(OFTEN)
    eventually(lambda: watched.monitor.looks)
    watch.stop()
    assert watch.go_on()
    watched.monitor.may_answer.set()
    eventually(lambda: len(watched.readings) >= 2)


def test_the_start_of_a_process():
    fields = Path('/proc/self/stat').read_text().rpartition(')')[2].split()
    assert start_of(os.getpid()) == int(fields[19])
    assert start_of(NO_SUCH_PROCESS) is None


def test_a_process_that_has_ended_and_is_not_waited_for_has_no_start():
    with subprocess.Popen(['true']) as ended:
        eventually(lambda: state_of(ended.pid) == 'Z')
        assert start_of(ended.pid) is None


def test_of_processes_that_have_left_a_gpu_the_last_are_remembered(watched):
    watched.living = dict.fromkeys(range(1, 2001), 5.0)
    watched.monitor.answer = monitored(processes=tuple(map(GpuProcess, watched.living)))
    watched.watch(OFTEN)
    eventually(lambda: watched.readings)
    watched.monitor.answer = monitored(processes=())
    eventually(lambda: len(watched.readings[-1][1]) < 2000)
    assert watched.readings[-1][1] == dict.fromkeys(range(977, 2001), 5.0)
