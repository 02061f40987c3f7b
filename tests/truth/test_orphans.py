"""The upper bounds of RAM where daemons come and go that no sample sees, beside what the daemons know of themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import gpu_tracker as gput

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != 'linux', reason='this machine does not run Linux')

PROGRAM = """
import os, sys
def start(is_daemon, writer):
    if os.fork() == 0:
        if is_daemon and os.fork():
            os._exit(0)
        memory = bytearray(b'1') * (16 << 20)
        mark = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))
        os.write(writer, mark.split()[1].encode() + b' ')
        os._exit(0)
    os.wait()
print('ready', flush=True)
for line in sys.stdin:
    reader, writer = os.pipe()
    for _ in range(3):
        start(line == 'daemons\\n', writer)
    os.close(writer)
    marks = b''
    while part := os.read(reader, 1000):
        marks += part
    print(1024 * max(map(int, marks.split())), flush=True)
"""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    monkeypatch.setenv('GPU_TRACKER_TASKSTATS', 'off')  # what an ordinary user gets
    with subprocess.Popen(
        [sys.executable, '-S', '-c', PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        yield program
        program.communicate()


def bound_of_descendants(program: subprocess.Popen[str], kind: str) -> tuple[float | None, float | None, int]:
    """Return the upper bounds of descendants and both, and the bytes that the largest of three ``kind`` had."""
    assert program.stdin is not None
    assert program.stdout is not None
    assert program.stdout.readline() == 'ready\n'
    tracker = gput.Tracker(sleep_time=10, ram_unit='bytes', process_id=program.pid)
    with tracker:
        program.stdin.write(f'{kind}\n')
        program.stdin.flush()
        largest = int(program.stdout.readline())
    record = tracker.sampling
    assert record.exit_records is None
    return record.descendants_ram.upper, record.combined_ram.upper, largest


def test_daemons_that_nobody_has_seen_leave_the_bounds_unknown(program: subprocess.Popen[str]) -> None:
    of_descendants, of_both, largest = bound_of_descendants(program, 'daemons')
    assert of_descendants is None or of_descendants >= largest
    assert of_both is None or of_both >= largest
    assert largest > 16 << 20


def test_without_any_child_the_bounds_stay_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('GPU_TRACKER_TASKSTATS', 'off')
    with subprocess.Popen([sys.executable, '-S', '-c', 'input()'], stdin=subprocess.PIPE, text=True) as alone:
        tracker = gput.Tracker(sleep_time=10, ram_unit='bytes', process_id=alone.pid)
        with tracker:
            os.waitpid(os.posix_spawn('/bin/true', ['true'], os.environ), 0)  # a stranger
        alone.communicate('\n')
    assert tracker.sampling.descendants_ram.upper == 0
    assert tracker.sampling.combined_ram.upper is not None
