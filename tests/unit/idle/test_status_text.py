"""The status as a table, letter by letter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_tracker.idle.status import (
    ActiveUserStatus,
    GpuStatus,
    MonitorStatus,
    ProcessStatus,
    ProgramStatus,
    Status,
)
from gpu_tracker.idle.status_text import status_text
from gpu_tracker.idle.wording import duration

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00+00:00
MONITOR = MonitorStatus(123, '6.1.0', '/etc/gpu_mon.conf', '2027-01-15T05:57:00+00:00', 10.0, False, 'alice')
BUSY = GpuStatus(
    '0',
    'busy',
    'GPU-a',
    '2027-01-15T08:57:00+01:00',
    (ProcessStatus(17, 'python', 'bob'), ProcessStatus(18, '?')),
    'used by python (pid 17, bob), ? (pid 18)',
    restarts=12,
    idle_seconds_used=90061,
)
OURS = GpuStatus(
    '1', 'idle', 'GPU-b', '2027-01-15T07:59:48+00:00', program='fold', program_pid=99, idle_seconds_used=12
)
LOST = GpuStatus('2:0', 'unavailable', reason='is lost')
FOLD = ProgramStatus(
    'fold', '1', 'running', '2027-01-15T07:59:48+00:00', 99, 'GPU 1 is idle', 1, 0, 7500.0, '2027-01-15T07:59:50+00:00'
)
RESTING = ProgramStatus(
    'seti',
    'ALL',
    'resting',
    None,
    None,
    'rests after 4 failures',
    3,
    4,
    8.0,
    '2027-01-15T08:02:00+00:00',
    'exit code 1',
)
SILENT = ProgramStatus('einstein', '0,2:0', 'waiting', '2027-01-11T04:00:00+00:00')


def test_all_of_it():
    status = Status(
        MONITOR,
        (ActiveUserStatus('bob', 'pts/3', 12), ActiveUserStatus('carol', 'tty1', 240)),
        (BUSY, OURS, LOST),
        (replace(FOLD, next_start=None), RESTING, SILENT),
    )
    assert (
        status_text(status, NOW)
        == """\
monitor: pid 123, running for 2 h 3 min, looks every 10 s
active users: bob at pts/3 (12 s ago), carol at tty1 (4 min ago)

GPU  state        since      used by / program                 idle time used  restarts
0    busy         3 min ago  python (pid 17, bob), ? (pid 18)  1 d 1 h               12
1    idle         12 s ago   fold (pid 99)                     12 s                   0
2:0  unavailable  N/A        is lost                           0 s                    0

program   GPUs   state    since        time run   restarts  failures
fold      1      running  12 s ago     2 h 5 min         1         0
  GPU 1 is idle
seti      ALL    resting  N/A          8 s               3         4
  rests after 4 failures; not started again for 2 min
  last end: exit code 1
einstein  0,2:0  waiting  4 d 4 h ago  0 s               0         0"""
    )


def test_no_gpu_and_no_program_in_a_dry_run_that_looks_often():
    status = Status(replace(MONITOR, dry_run=True, interval_seconds=0.5, started='2027-01-15T07:59:59+00:00'))
    assert (
        status_text(status, NOW, 80)
        == """\
monitor: pid 123, running for 1 s, looks every 0.5 s, dry run

No GPU is there to be watched.

No program is configured."""
    )


def test_a_dry_run_tells_what_would_be():
    ours = replace(OURS, program_pid=None, idle_seconds_used=None)
    would_run = ProgramStatus('fold', '1', 'running', '2027-01-15T07:59:48+00:00', seconds_run=None)
    would_stop = ProgramStatus('seti', '0', 'stopping', reason='GPU 0 is lost', seconds_run=None)
    status = Status(replace(MONITOR, dry_run=True), gpus=(ours,), programs=(would_run, would_stop))
    assert (
        status_text(status, NOW)
        == """\
monitor: pid 123, running for 2 h 3 min, looks every 10 s, dry run

GPU  state  since     used by / program  idle time used  restarts
1    idle   12 s ago  fold (would run)   N/A                    0

program  GPUs  state       since     time run  restarts  failures
fold     1     would run   12 s ago  N/A              0         0
seti     0     would stop  N/A       N/A              0         0
  GPU 0 is lost"""
    )


@pytest.mark.parametrize(
    ('next_start', 'told'),
    [
        ('2027-01-15T08:00:04+00:00', 'rests after 3 failures; not started again for 4 s'),
        ('2027-01-15T08:00:01+00:00', 'rests after 3 failures; not started again for 1 s'),
        ('2027-01-15T08:00:00+00:00', 'rests after 3 failures'),
        ('2027-01-15T07:59:59+00:00', 'rests after 3 failures'),
    ],
)
def test_a_rest_has_one_countdown_until_it_is_over(next_start, told):
    resting = replace(RESTING, reason='rests after 3 failures', next_start=next_start, last_end=None)
    assert status_text(Status(MONITOR, programs=(resting,)), NOW).splitlines()[-1] == f'  {told}'


def test_why_a_program_could_not_be_started_is_wrapped():
    end = 'could not be started: its log /var/log/folding/of/the/whole/group/fold.log cannot be opened'
    text = status_text(Status(MONITOR, programs=(replace(SILENT, last_end=end),)), NOW, 64)
    assert text.splitlines()[-2:] == [
        '  last end: could not be started: its log',
        '  /var/log/folding/of/the/whole/group/fold.log cannot be opened',
    ]


def test_in_a_narrow_terminal_who_uses_a_gpu_is_cut_and_reasons_are_wrapped():
    reason = 'GPU 0 is used by python (pid 17, bob), bash (pid 18, bob), and whatever else may be there at the time'
    status = Status(
        MONITOR,
        tuple(ActiveUserStatus(f'student{number}', f'pts/{number}', number) for number in range(4)),
        (BUSY, OURS),
        (replace(SILENT, reason=reason),),
    )
    text = status_text(status, NOW, 72)
    assert (
        text
        == """\
monitor: pid 123, running for 2 h 3 min, looks every 10 s
active users: student0 at pts/0 (0 s ago), student1 at pts/1 (1 s ago),
  student2 at pts/2 (2 s ago), student3 at pts/3 (3 s ago)

GPU  state  since      used by / program        idle time used  restarts
0    busy   3 min ago  python (pid 17, bob), …  1 d 1 h               12
1    idle   12 s ago   fold (pid 99)            12 s                   0

program   GPUs   state    since        time run  restarts  failures
einstein  0,2:0  waiting  4 d 4 h ago  0 s              0         0
  GPU 0 is used by python (pid 17, bob), bash (pid 18, bob), and
  whatever else may be there at the time"""
    )


def test_a_table_that_fits_is_not_cut_and_one_that_cannot_fit_stays_readable():
    status = Status(MONITOR, (), (BUSY,), (FOLD,))
    assert status_text(status, NOW, 82) == status_text(status, NOW, 200) == status_text(status, NOW)
    assert status_text(status, NOW, 1).splitlines()[2:4] == [
        'GPU  state  since      used by…  idle time used  restarts',
        '0    busy   3 min ago  python …  1 d 1 h               12',
    ]


def test_what_strangers_have_named_commands_no_terminal():
    evil = '\x1b[2J\n\u202egpu\t'
    status = Status(
        MONITOR,
        (ActiveUserStatus(evil, evil, 1),),
        (GpuStatus('0', 'busy', by=(ProcessStatus(1, evil, evil),), program=evil, program_pid=2),),
        (ProgramStatus(evil, 'ALL', 'waiting', reason=evil),),
    )
    for width in (None, 200):
        text = status_text(status, NOW, width)
        assert [line for line in text.splitlines() if not line.isprintable()] == []
        assert '?[2J??gpu? (pid 1, ?[2J??gpu?); ?[2J??gpu? (pid 2)' in text


def test_a_gpu_that_others_use_while_our_program_is_being_stopped_and_one_that_is_lost_under_its_user():
    busy = replace(BUSY, program='fold', by=BUSY.by[:1])
    lost = replace(LOST, by=BUSY.by[:1])
    lines = status_text(Status(MONITOR, gpus=(busy, lost)), NOW).splitlines()[3:5]
    assert lines == [
        '0    busy         3 min ago  python (pid 17, bob); fold (pid N/A)  1 d 1 h               12',
        '2:0  unavailable  N/A        is lost; python (pid 17, bob)         0 s                    0',
    ]


@pytest.mark.parametrize(
    ('seconds', 'words'),
    [
        (-5, '0 s'),
        (0.9, '0 s'),
        (12, '12 s'),
        (59.9, '59 s'),
        (60, '1 min'),
        (3599, '59 min'),
        (3600, '1 h'),
        (7500, '2 h 5 min'),
        (86399, '23 h 59 min'),
        (86400, '1 d'),
        (86400 + 3599, '1 d'),
        (3 * 86400 + 4 * 3600, '3 d 4 h'),
        (400 * 86400, '400 d'),
    ],
)
def test_lengths_of_time_in_words(seconds, words):
    assert duration(seconds) == words
