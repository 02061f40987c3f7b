"""Parts of a guardian, and of the monitor's side of it, in states that whole ones reach by chance only."""

from __future__ import annotations

import _thread
import os
import subprocess
import sys
import threading
from collections.abc import Sequence

from gpu_tracker.idle.running.guardian import LogWriter
from gpu_tracker.idle.running.guardian_protocol import Ended
from gpu_tracker.idle.running.held_program import HeldProgram
from gpu_tracker.idle.running.measurement import Measurement
from gpu_tracker.idle.running.running_program import RunningProgram
from support.waiting import TIMEOUT

# Has as many descriptors left as its argument says, and tells how many it has less after a pipe could not be made.
WITHOUT_DESCRIPTORS = """
import os, resource, sys
from gpu_tracker.idle.running.running_program import _pipe
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
try:
    while True:
        taken.append(os.dup(0))
except OSError:
    pass
for handle in taken[:int(sys.argv[1])]:
    os.close(handle)
opened = []
try:
    _pipe(opened)
except OSError as error:
    print(error.strerror)
for handle in opened:
    os.close(handle)
left = 0
try:
    while True:
        os.dup(0)
        left += 1
except OSError:
    print(left)
"""

# A guardian's part: a program that ends at once, and another child that says that it is a sampler.
FAMILY_WITH_SAMPLER = """
import os, subprocess
from gpu_tracker.idle.running.ending import ProgramProcesses
from gpu_tracker.idle.running.guardian_events import GuardianEvents
control, _ = os.pipe()
watch = GuardianEvents(control, os.getppid(), 3600)
sampler = subprocess.Popen(['sh', '-c', 'read line', 'sh', 'gpu-tracker-sampler'], stdin=subprocess.PIPE)
program = os.posix_spawn('/bin/sh', ['sh', '-c', 'exit 7'], {}, setsid=True)
family = ProgramProcesses(program, watch, print, spares_samplers=True)
family.wait()
print(os.waitstatus_to_exitcode(family.status), family.left_behind, sampler.poll())
"""


class HeldUp(Sequence[str]):
    """UUIDs that are told only when they may be."""

    def __init__(self) -> None:
        self.allowed = threading.Event()

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: object) -> str:
        assert self.allowed.wait(TIMEOUT)
        if index == 0:
            return 'GPU-a'
        raise IndexError


def output_of(script: str, *words: str) -> str:
    environment = {**os.environ, 'PYTHONPATH': os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, '-S', '-c', script, *words]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=TIMEOUT).stdout


def test_a_pipe_that_cannot_be_made_leaves_no_descriptor_open() -> None:
    for free in ('1', '2', '3'):
        assert output_of(WITHOUT_DESCRIPTORS, free) == f'Too many open files\n{free}\n'


def test_a_sampler_that_was_started_late_is_not_waited_for_and_not_ended() -> None:
    assert output_of(FAMILY_WITH_SAMPLER) == '7 0 None\n'


def test_a_measurement_that_was_given_up_starts_no_tracker() -> None:
    uuids = HeldUp()
    exec_handle, writer = os.pipe()
    measurement = Measurement(os.getpid(), exec_handle, uuids)
    measurement.give_up()
    uuids.allowed.set()
    assert os.read(measurement.ready_handle, 1) == b''
    assert measurement._run is None
    assert measurement.problem == 'the tracker was not ready in time'
    for handle in (measurement.ready_handle, exec_handle, writer):
        os.close(handle)


def test_a_line_is_dropped_where_no_thread_can_be_started() -> None:
    reading, writing = os.pipe()
    writer = LogWriter(writing)
    before = _thread.stack_size(1 << 47)  # more than there are addresses
    try:
        writer.write('first')
    finally:
        _thread.stack_size(before)
    writer.write('second')
    assert os.read(reading, 4096).endswith(b' gpu-tracker: second\n')
    os.close(reading)
    os.close(writing)


def test_a_guardian_that_fails_after_the_end_was_told_changes_nothing() -> None:
    with subprocess.Popen(['true']) as process:
        control, status = os.pipe(), os.pipe()
        running = RunningProgram(process, control[1], status[0])
        os.write(
            status[1],
            b'{"event": "ended", "code": 0, "signal": null, "seconds": 1.5, "reason": null, "usage": {}}\n'
            b'{"event": "lost", "reason": "its guardian has failed"}\n',
        )
        (ended,) = running.read()
        assert isinstance(ended, Ended)
        assert running.final == ended
        running.close()
        os.close(control[0])
        os.close(status[1])


def test_a_held_process_keeps_nothing_open_that_is_private() -> None:
    reading, writing = os.pipe()
    program = HeldProgram(['true'], folder='/', environment={}, user=None, log=None, private=[reading, writing])
    os.close(writing)
    try:
        assert program.is_ready()
        os.set_blocking(reading, False)
        assert os.read(reading, 1) == b''
    finally:
        program.kill()
        os.waitpid(program.pid, 0)
        program.let_go()
        os.close(reading)
        os.close(program.exec_handle)
