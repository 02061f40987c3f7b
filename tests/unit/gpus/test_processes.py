from __future__ import annotations

import os
import pwd
import subprocess
import time
from pathlib import Path

import pytest

from gpu_tracker.gpus.model import GpuProcess
from gpu_tracker.gpus.processes import ProcessLookup
from support.waiting import eventually

NOBODY_HERE = 2**22 + 1  # above every process ID that Linux gives


def seen_running(*words: str, computes: bool = True) -> GpuProcess:
    """Return a process of this test as it is seen when its program runs: before that, it has no command line."""
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        try:
            line = Path(f'/proc/{process.pid}/cmdline')
            eventually(lambda: line.read_bytes().decode().split('\0')[:-1] == list(words))
            (seen,) = ProcessLookup(is_certain=True).describe([GpuProcess(process.pid, 5, computes=computes)])
        finally:
            process.kill()
    return seen


def test_a_process_is_looked_up() -> None:
    before = time.time()
    seen = seen_running('sleep', '1000', computes=False)
    assert seen._replace(started=None) == GpuProcess(
        seen.pid, 5, pwd.getpwuid(os.geteuid()).pw_name, None, 'sleep 1000', 'sleep 1000', computes=False
    )
    assert before - 0.1 <= seen.started <= time.time() + 0.1
    assert seen.is_seen


def test_words_are_quoted() -> None:
    seen = seen_running('sh', '-c', 'read line; :')
    assert seen.command == "sh -c 'read line; :'"


def test_a_zombie_has_its_name() -> None:
    process = subprocess.Popen(['true'])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    (seen,) = ProcessLookup(is_certain=True).describe([GpuProcess(process.pid, 1)])
    process.wait()
    assert (seen.command, seen.program) == ('true', 'true')


def test_the_name_of_a_user_is_asked_for_once() -> None:
    asked: list[int] = []

    def name_of(user_id: int) -> str:
        asked.append(user_id)
        return 'ann'

    lookup = ProcessLookup(is_certain=True, name_of=name_of)
    with subprocess.Popen(['cat'], stdin=subprocess.PIPE) as process:
        described = lookup.describe([GpuProcess(os.getpid(), 1), GpuProcess(process.pid, 1)])
        described += lookup.describe([GpuProcess(process.pid, 2)])
    assert [seen.user for seen in described] == ['ann'] * 3
    assert asked == [os.geteuid()]


def test_a_process_has_started_when_it_did_however_long_its_user_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    later = [0.0]
    now, monotonic = time.time, time.clock_gettime
    monkeypatch.setattr(time, 'time', lambda: now() + later[0])
    monkeypatch.setattr(time, 'clock_gettime', lambda clock: monotonic(clock) + later[0])

    def name_of(_: int) -> str:
        later[0] += 3600
        return 'ann'

    (before,) = ProcessLookup(is_certain=True, name_of=str).describe([GpuProcess(os.getpid(), 1)])
    (seen,) = ProcessLookup(is_certain=True, name_of=name_of).describe([GpuProcess(os.getpid(), 1)])
    assert seen.started == pytest.approx(before.started, abs=60)


def test_a_command_line_is_cut_where_it_is_long() -> None:
    seen = seen_running('sh', '-c', 'read line', 'x' * 20_000)
    assert (len(seen.command), seen.command[:20], seen.command[-2:]) == (4000, "sh -c 'read line' xx", 'x…')
    assert (len(seen.program), seen.program[-2:]) == (200, 'x…')
    whole = seen_running('sh', '-c', 'read line', 'x' * 3982)
    assert (len(whole.command), whole.command[-1]) == (4000, 'x')


def test_a_process_that_is_not_there_cannot_be_seen() -> None:
    (unseen,) = ProcessLookup(is_certain=True).describe([GpuProcess(NOBODY_HERE, 5)])
    assert unseen == GpuProcess(NOBODY_HERE, 5)
    assert not unseen.is_seen


def test_in_a_container_a_process_without_cuda_is_not_taken_for_the_one_that_the_driver_means() -> None:
    (unseen,) = ProcessLookup(is_certain=False).describe([GpuProcess(os.getpid(), 5)])
    assert unseen == GpuProcess(os.getpid(), 5)


def test_a_process_in_two_instances_has_the_sum_of_its_memory() -> None:
    lookup = ProcessLookup(is_certain=True)
    described = lookup.describe(
        [
            GpuProcess(NOBODY_HERE + 1, 7, gpu_instance=1, compute_instance=0),
            GpuProcess(NOBODY_HERE, 5, gpu_instance=1, compute_instance=0),
            GpuProcess(NOBODY_HERE + 1, 8, gpu_instance=2, compute_instance=0, computes=False),
        ]
    )
    assert described == (GpuProcess(NOBODY_HERE, 5), GpuProcess(NOBODY_HERE + 1, 15))
    (unknown,) = lookup.describe(
        [
            GpuProcess(NOBODY_HERE, 5, gpu_instance=1, compute_instance=0),
            GpuProcess(NOBODY_HERE, None, gpu_instance=2, compute_instance=0),
        ]
    )
    assert unknown.memory is None


def test_nothing_on_a_gpu() -> None:
    assert ProcessLookup(is_certain=True).describe([]) == ()
