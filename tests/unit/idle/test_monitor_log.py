"""Lines of the monitor's log, to pipes and terminals that somebody reads, or nobody."""

from __future__ import annotations

import contextlib
import os
import re
import threading

import pytest

from gpu_tracker.idle import monitor_log
from gpu_tracker.idle.monitor_log import flush, open_log
from support.waiting import TIMEOUT


@pytest.fixture(params=[os.pipe, os.openpty], ids=['pipe', 'terminal'])
def ends(request):
    """Return where lines are read, and where they are written to."""
    ends = request.param()
    yield ends
    for end in ends:
        os.close(end)


def received(reading: int, text: str) -> str:
    """Return what comes, up to some text."""
    found = b''
    while text.encode() not in found:
        found += os.read(reading, 65536).replace(b'\r', b'')
    return found.decode()


def test_a_line_is_out_before_what_it_tells_of(ends, monkeypatch):
    monkeypatch.setattr(monitor_log, '_TIMEOUT', TIMEOUT)  # the thread that writes it may be late
    log = open_log(verbose=False, handle=ends[1])
    log.info('%s runs: pid %d', 'process-a', 17)
    log.debug('a detail')
    os.write(ends[1], b'it runs\n')
    assert re.fullmatch(
        r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d INFO process-a runs: pid 17\nit runs\n', received(ends[0], 'it runs\n')
    )


def fill(writing: int) -> None:
    """Write empty lines until there is no room for more."""
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b'\n' * 4096)
    os.set_blocking(writing, True)


def test_lines_that_nobody_reads_keep_nobody_waiting_and_are_counted(ends):
    fill(ends[1])  # else the thread that writes could catch up meanwhile, and count twice
    log = open_log(verbose=False, handle=ends[1])

    def write_many() -> None:
        for number in range(5000):
            log.info('line %d', number)

    writer = threading.Thread(target=write_many, daemon=True)
    writer.start()
    writer.join(TIMEOUT)
    assert not writer.is_alive()
    lines = [line.split(' ', 3)[2:] for line in received(ends[0], 'before\n').split('\n') if line]
    told = [text for level, text in lines if level == 'INFO']
    assert told == [f'line {number}' for number in range(len(told))]
    assert lines[-1] == ['WARNING', f'{5000 - len(told)} lines left out here: nobody has read those before']
    assert 1000 <= len(told) < 5000
    log.info('more')
    assert received(ends[0], 'more\n').endswith(' INFO more\n')


def test_a_descriptor_that_does_not_wait_gets_whole_lines(ends):
    os.set_blocking(ends[1], False)
    log = open_log(verbose=False, handle=ends[1])
    for number in range(50):
        log.info('%d %s', number, 'x' * 3000)
    found = received(ends[0], ' 49 ' + 'x' * 3000)
    assert [line.split()[3] for line in found.splitlines()] == list(map(str, range(50)))


def test_who_has_gone_is_written_to_no_more(ends):
    log = open_log(verbose=False, handle=ends[1])
    os.dup2(os.open(os.devnull, os.O_RDONLY), ends[0])
    log.info('nobody reads this')
    flush(log)


def test_strangers_text_commands_no_terminal_and_a_line_is_not_without_end():
    reading, writing = os.pipe()
    log = open_log(verbose=True, handle=writing)
    log.debug('\x1b[2J %s', 'x' * 9000)
    line = os.read(reading, 65536)
    assert line[19:].startswith(b' DEBUG ?[2J xxx')
    assert len(line) == 4001
    os.close(reading)
    os.close(writing)
