from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import termios
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.idle.running.guardian import LogWriter
from gpu_tracker.idle.running.guardian_protocol import NotStarted
from support.idle.guarded_program import Guarded
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


SIZE = 8192
"""Bytes that the pipes hold here: what a program writes does not go into the page that the first line has begun."""

# Starts a program without a log, and waits for its end.
START = """
import json, sys
from support.idle.guarded_program import Guarded
with Guarded(json.loads(sys.argv[1])) as guarded:
    guarded.started()
    guarded.ended()
"""
TELL_DESCRIPTORS = """
import json, os, sys
folder = '/proc/self/fd'
found = {name: os.readlink(f'{folder}/{name}') for name in '012' if os.path.exists(f'{folder}/{name}')}
with open(sys.argv[1], 'w') as file:
    json.dump(found, file)
"""


pytestmark = pytest.mark.usefixtures('marked')


@pytest.fixture
def unread(tmp_path: Path) -> Iterator[Path]:
    """Return a FIFO whose reader never reads."""
    path = tmp_path / 'fifo'
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, SIZE)
    yield path
    os.close(reader)


def fill(path: Path) -> None:
    with open(path, 'wb', 0) as file:
        assert file.write(b'.' * SIZE) == SIZE


def bytes_in(path: Path) -> int:
    """Return how many bytes of a FIFO wait to be read."""
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        found = fcntl.ioctl(reader, termios.FIONREAD, bytes(4))
    finally:
        os.close(reader)
    return int.from_bytes(found, sys.byteorder)


def test_a_log_that_nobody_reads_keeps_no_end_from_being_told(unread: Path) -> None:
    with Guarded(['yes'], log=str(unread), stop_grace=10) as guarded:
        guarded.started()
        eventually(lambda: bytes_in(unread) > SIZE // 2)
        guarded.running.stop('enough', 10)
        assert guarded.ended().ending == 'killed by SIGTERM'
        eventually(guarded.running.has_ended)


def test_a_log_that_takes_nothing_keeps_no_program_from_running(unread: Path) -> None:
    fill(unread)
    with Guarded(['sh', '-c', 'exit 4'], log=str(unread)) as guarded:
        guarded.started()
        assert guarded.ended().code == 4
        eventually(guarded.running.has_ended)


def test_a_log_that_takes_nothing_keeps_no_failure_from_being_told(unread: Path) -> None:
    fill(unread)
    with Guarded(['/no/such'], log=str(unread)) as guarded:
        assert guarded.next(NotStarted).reason == '/no/such does not exist'
        eventually(guarded.running.has_ended)


def test_lines_are_dropped_while_a_log_does_not_take_one() -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, SIZE)
    os.write(writing, b'.' * SIZE)
    writer = LogWriter(writing, timeout=0.01)
    writer.write('first')
    writer.write('second')
    assert os.read(reading, SIZE) == b'.' * SIZE
    assert os.read(reading, SIZE).endswith(b' gpu-tracker: first\n')
    eventually(lambda: not writer._busy.locked())
    writer.write('third')
    assert os.read(reading, SIZE).endswith(b' gpu-tracker: third\n')
    os.close(reading)
    os.close(writing)


def test_lines_go_nowhere_without_a_log() -> None:
    LogWriter().write('nobody reads this')


@pytest.mark.parametrize('closed', ['>&-', '2>&-', '<&- >&- 2>&-'])
def test_a_program_has_all_standard_descriptors_where_the_monitor_has_not(tmp_path: Path, closed: str) -> None:
    told = tmp_path / 'told'
    subprocess.run(
        [
            'sh',
            '-c',
            f'exec "$@" {closed}',
            'sh',
            sys.executable,
            '-c',
            START,
            json.dumps([TELL_DESCRIPTORS, str(told)]),
        ],
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(path for path in sys.path if path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
        timeout=TIMEOUT,
    )
    assert json.loads(told.read_text()) == {'0': '/dev/null', '1': '/dev/null', '2': '/dev/null'}
