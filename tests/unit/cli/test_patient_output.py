from __future__ import annotations

import threading

from gpu_tracker.cli.output import PatientOutput
from support.waiting import TIMEOUT


class Reader:
    """Takes a line only when it is let."""

    def __init__(self):
        self.lines = []
        self.waits = threading.Event()
        self.goes_on = threading.Event()

    def take(self, line):
        self.waits.set()
        assert self.goes_on.wait(TIMEOUT)
        self.lines.append(line)


def test_lines_are_written_in_their_order_before_the_end():
    lines = []
    say = PatientOutput(lines.append)
    for number in range(100):
        say(f'line {number}')
    say.flush(TIMEOUT)
    assert lines == [f'line {number}' for number in range(100)]


def test_what_nobody_takes_keeps_nobody_waiting_and_is_counted():
    reader = Reader()
    say = PatientOutput(reader.take, most=2)
    say('first')
    assert reader.waits.wait(TIMEOUT)
    for number in range(5):
        say(f'line {number}')
    say.flush(0.001)
    assert reader.lines == []
    reader.goes_on.set()
    say.flush(TIMEOUT)
    assert reader.lines == [
        'first',
        'line 0',
        'line 1',
        '3 messages were left out: nobody took them in time',
    ]
    say('later')
    say.flush(TIMEOUT)
    assert reader.lines[4:] == ['later']


def test_the_end_waits_for_a_line_that_is_being_written():
    reader = Reader()
    say = PatientOutput(reader.take)
    say('last')
    assert reader.waits.wait(TIMEOUT)
    threading.Timer(0.01, reader.goes_on.set).start()
    say.flush(TIMEOUT)
    assert reader.lines == ['last']
