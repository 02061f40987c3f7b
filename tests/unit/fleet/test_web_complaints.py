from __future__ import annotations

from gpu_tracker.fleet.web.service import Complaints


class Clock:
    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


def test_many_lines_are_counted_and_not_said():
    said, clock = [], Clock()
    complain = Complaints(said.append, most=2, period=60, clock=clock)
    for number in range(5):
        complain(f'line {number}')
    assert said == ['line 0', 'line 1']
    clock.time += 60
    complain('later')
    assert said[2:] == ['3 more messages of this kind were left out', 'later']


def test_few_lines_are_all_said():
    said, clock = [], Clock()
    complain = Complaints(said.append, most=2, period=60, clock=clock)
    for number in range(6):
        complain(f'line {number}')
        clock.time += 30
    assert said == [f'line {number}' for number in range(6)]


def test_what_could_command_a_terminal_and_what_is_too_long_is_not_said():
    said = []
    complain = Complaints(said.append)
    complain('\x1b[2Jnew\nline \u202e' + 'x' * 1000)
    assert said == ['?[2Jnew?line ?' + 'x' * 486]
