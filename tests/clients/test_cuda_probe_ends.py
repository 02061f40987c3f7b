"""However a probe ends, nothing of it is left, and the program goes on as if it had never been."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from support.cuda.cuda_comparison import assert_agree
from support.cuda.probe_traces import has_breakpoint, objects_of
from support.cuda.probed_program import opened, probing
from support.cuda_stand_in import stand_in
from support.cuda_stand_in.running import started
from support.tracked_program import environment
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from support.cuda_stand_in import Running

SCRIPT = 'wait; launches 50 axpy default 1 1 1 32 1 1; alloc a 100; wait; launches 70 axpy default 1 1 1 32 1 1; free a'
TESTS = {'PYTHONPATH': os.pathsep.join(path for path in sys.path if path)}
FOLLOWS = """
import sys
from gpu_tracker.cuda_probe.probe_session import Probe

probe = Probe(libraries=[sys.argv[2]])
probe.open()
probe.follow(int(sys.argv[1]))
probe.start()
print('waiting', flush=True)
if sys.stdin.readline() == 'close\\n':
    probe.close()
"""


@contextlib.contextmanager
def another_probe(pid: int) -> Iterator[subprocess.Popen[bytes]]:
    """Give a process that probes ``pid``."""
    command = [sys.executable, '-c', FOLLOWS, str(pid), str(stand_in().runtime)]
    with started(command, environment(TESTS)) as probe:
        probe.wait_until_waiting()
        yield probe.process


def is_probed(pid: int, function: str = 'cudaLaunchKernel') -> bool:
    return has_breakpoint(pid, stand_in().runtime, function)


def end(probe: subprocess.Popen[bytes], how: str) -> None:
    if how == 'killed':
        probe.kill()
    elif how == 'terminated':
        probe.terminate()
    elif how == 'interrupted':
        probe.send_signal(signal.SIGINT)
    else:
        probe.stdin.write(f'{how}\n'.encode())
        probe.stdin.flush()
    probe.wait(TIMEOUT)


@pytest.mark.parametrize('how', ['killed', 'terminated', 'close', 'exit without closing'])
def test_nothing_is_left_in_the_program_nor_in_the_kernel(how: str) -> None:
    with stand_in().started(SCRIPT) as running:
        running.wait_until_waiting()
        assert not is_probed(running.pid)
        with another_probe(running.pid) as probe:
            assert is_probed(running.pid)
            left = objects_of(probe.pid)
            assert {found.kind for found in left} == {'prog_id', 'map_id', 'link_id'}
            assert all(found.exists for found in left)
            running.go_on()
            running.wait_until_waiting()
            end(probe, how)
        eventually(lambda: not is_probed(running.pid))
        eventually(lambda: not any(found.exists for found in left))
        running.go_on()
        ran = running.finish()
    assert (ran.returncode, ran.truth.device.launches, ran.truth.leaked) == (0, 120, 0)


class Gate:
    """Where a program waits inside cudaStreamSynchronize until it is let go."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / 'gate'
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.settimeout(TIMEOUT)
        self._listening.bind(str(self.path))
        self._listening.listen()
        self._inside: socket.socket | None = None

    def wait_until_inside(self) -> None:
        self._inside, _ = self._listening.accept()

    def let_go(self) -> None:
        self._inside.close()

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    with contextlib.closing(Gate(tmp_path)) as gate:
        yield gate


AT_GATE = (
    'wait; launch axpy default 1 1 1 32 1 1; sync default; wait; alloc a 5; launch axpy default 1 1 1 32 1 1; wait'
)


@contextlib.contextmanager
def at_gate(gate: Gate) -> Iterator[Running]:
    with stand_in().started(AT_GATE, environment={'CUDA_STAND_IN_GATE': str(gate.path)}) as running:
        running.wait_until_waiting()
        yield running


@pytest.mark.parametrize('how', ['killed', 'close'])
def test_a_probe_that_ends_in_the_middle_of_a_call_lets_the_call_return(gate: Gate, how: str) -> None:
    with at_gate(gate) as running:
        with another_probe(running.pid) as probe:
            running.go_on()
            gate.wait_until_inside()
            assert is_probed(running.pid, 'cudaStreamSynchronize')
            end(probe, how)
        eventually(lambda: not is_probed(running.pid, 'cudaStreamSynchronize'))
        gate.let_go()
        for _ in range(2):
            running.wait_until_waiting()
            running.go_on()
        ran = running.finish()
    assert (ran.returncode, ran.truth.device.launches, ran.truth.device.synchronisations) == (0, 2, 1)


def test_a_call_that_began_before_the_probe_is_not_counted_and_the_next_is(gate: Gate) -> None:
    with at_gate(gate) as running:
        running.go_on()
        gate.wait_until_inside()
        with opened() as probe:
            probe.follow(running.pid)
            gate.let_go()
            running.wait_until_waiting()
            running.go_on()
            running.wait_until_waiting()
            (process,) = probe.report().processes
            running.go_on()
            assert running.finish().returncode == 0
    assert (process.synchronisations, process.launches, process.memory_current) == (0, 1, 5)


def test_a_program_that_forks_all_the_time_is_let_go() -> None:
    script = 'repeat 300 { fork { launches 10 axpy default 1 1 1 1 1 1; alloc a 5 } }; reap'
    with probing(script) as (probe, running):
        running.go_on()
        eventually(lambda: len(probe.report().processes) > 20)
        probe.close()
        seen = probe.report().processes
        ran = running.finish()
    assert ran.returncode == 0
    assert [(truth.device.launches, truth.leaked) for truth in ran.children] == [(10, 5)] * 300
    assert max(process.launches for process in seen) == 10
    assert max(process.memory_max for process in seen) == 5


def test_probes_that_come_and_go_and_look_at_the_same_program_do_not_disturb_each_other() -> None:
    with stand_in().started('wait; launches 2000 axpy default 1 1 1 1 1 1; wait; alloc a 5') as running:
        running.wait_until_waiting()
        with opened() as first:
            first.follow(running.pid)
            for _ in range(3):
                with opened() as another:
                    another.follow(running.pid)
            with opened() as last:
                last.follow(running.pid)
                running.go_on()
                running.wait_until_waiting()
            assert is_probed(running.pid)
            running.go_on()
            ran = running.finish()
        first.close()
    assert_agree(first.report(), ran.processes)
    (process,) = last.report().processes
    assert (process.launches, process.allocations) == (2000, 0)
    assert last.report().processes == (process,)
