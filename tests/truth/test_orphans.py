"""Daemons that come and go between two samples: the figures are marked, or unknown, as an ordinary user gets them."""

from __future__ import annotations

import pytest

from support.truth import MEGABYTE, tracked
from support.truth.figures import wrong_ram

DAEMONS = """
import os, sys
def start(is_daemon, writer):
    if os.fork() == 0:
        if is_daemon and os.fork():
            os._exit(0)
        memory = bytearray(b'1') * 30_000_000
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


@pytest.mark.parametrize('kind', ['daemons', 'children'])
def test_processes_that_nobody_has_seen_are_unknown_or_marked(kind: str) -> None:
    run = tracked(
        """
        words = [sys.executable, '-S', '-c', sys.argv[1]]
        program = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        program.stdout.readline()
        tracker = gput.Tracker(sleep_time=10, ram_unit='bytes', time_unit='seconds', process_id=program.pid)
        with tracker:
            program.stdin.write(sys.argv[2] + '\\n')
            program.stdin.flush()
            largest = int(program.stdout.readline())
            main = status(program.pid, 'VmHWM')
        program.communicate()
        report(tracker, largest=largest, main=main)
        """,
        DAEMONS,
        kind,
    )
    largest, main = run['largest'], run['main']
    assert largest > 30 * MEGABYTE
    lowest = {'main': main, 'descendants': largest, 'combined': largest}
    # Several may have been there at once.
    highest = {'main': main, 'descendants': 3 * largest, 'combined': 3 * largest + main}
    assert wrong_ram(run, lowest, highest, may_be_unknown=True) == []
