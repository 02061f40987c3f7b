from __future__ import annotations

import time

import pytest

from gpu_tracker.idle.running import guardian_protocol
from gpu_tracker.idle.wording import duration_in_words, ending_in_words, line_at, usage_in_words


@pytest.mark.parametrize(
    ('seconds', 'words'),
    [
        (None, 'N/A'),
        (0, '0.0 s'),
        (9.94, '9.9 s'),
        (9.96, '10 s'),
        (59.4, '59 s'),
        (59.6, '1 min 0 s'),
        (303, '5 min 3 s'),
        (3600, '1 h 0 min'),
        (10_920, '3 h 2 min'),
        (183_600, '2 d 3 h'),
    ],
)
def test_durations_are_told_in_two_units_at_most(seconds: float | None, words: str) -> None:
    assert duration_in_words(seconds) == words


@pytest.mark.parametrize(
    ('code', 'number', 'words'),
    [
        (0, None, 'exit code 0'),
        (None, 15, 'killed by SIGTERM'),
        (None, 40, 'killed by signal 40'),
        (None, None, 'exit code N/A'),
    ],
)
def test_ends_are_told_by_code_or_signal(code: int | None, number: int | None, words: str) -> None:
    assert ending_in_words(code, number) == words


@pytest.mark.parametrize(
    ('left_behind', 'words'),
    [
        (1, 'exit code 3; 1 process that it had left behind was ended'),
        (2, 'exit code 3; 2 processes that it had left behind were ended'),
    ],
)
def test_what_was_left_behind_is_told_with_the_end(left_behind: int, words: str) -> None:
    assert guardian_protocol.Ended(3, None, 1.0, None, guardian_protocol.Usage(), left_behind).ending == words


def test_use_is_told_with_its_units() -> None:
    usage = {
        'max_ram_bytes': 3.14e9,
        'cpu_seconds': 9000.0,
        'max_gpu_ram_bytes': 512e6,
        'gpu_utilization_percent': 86.6,
    }
    assert usage_in_words(5220, 2, usage) == (
        '2.9 GPU hours, GPU utilization 87 %, GPU RAM 512.0 MB at most, RAM 3.1 GB at most, CPU 2 h 30 min'
    )


def test_unknown_use_is_not_zero() -> None:
    ended = guardian_protocol.Ended(None, 9, 36.0, None, guardian_protocol.Usage())
    assert ended.used(1) == '0.0100 GPU hours, GPU utilization N/A, GPU RAM N/A, RAM N/A, CPU N/A'
    assert ended.ending == 'killed by SIGKILL'


def test_a_line_begins_with_local_time_and_cannot_command_a_terminal() -> None:
    moment = time.mktime((2026, 11, 21, 23, 1, 2, 0, 0, -1))
    assert line_at(moment, 'stopped\x1b[31m\nby') == '2026-11-21 23:01:02 gpu-tracker: stopped?[31m?by\n'


@pytest.mark.parametrize(
    ('line', 'message'),
    [
        (b'{"event": "started", "pid": 7, "unmeasured": null}', guardian_protocol.Started(7)),
        (b'{"event": "not_started", "reason": "why"}', guardian_protocol.NotStarted('why')),
        (
            b'{"event": "not_started", "reason": "why", "stopped": true}',
            guardian_protocol.NotStarted('why', stopped=True),
        ),
        (b'{"event": "stuck", "left": "python (pid 7)"}', guardian_protocol.Stuck('python (pid 7)')),
        (b'{"event": "lost", "reason": "why"}', guardian_protocol.Lost('why')),
        (
            b'{"event":"ended","code":0,"signal":null,"seconds":1.5,"reason":null,"usage":{"cpu_seconds":1}}',
            guardian_protocol.Ended(0, None, 1.5, None, guardian_protocol.Usage(cpu_seconds=1)),
        ),
    ],
)
def test_lines_of_guardians_are_understood(line: bytes, message: guardian_protocol.Message) -> None:
    assert guardian_protocol.parse(line) == message
