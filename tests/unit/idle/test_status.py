"""The document that the running monitor tells of itself: its keys are part of the documented interface."""

from __future__ import annotations

import json
from datetime import UTC, timedelta, timezone

import pytest

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.idle.status import (
    ActiveUserStatus,
    GpuStatus,
    MonitorStatus,
    ProcessStatus,
    ProgramStatus,
    Status,
    from_json,
    iso_time,
    seconds_since_1970,
    to_json,
    wall_clock,
)

MONITOR = MonitorStatus(
    pid=123,
    version='6.1.0',
    config_path='/home/alice/.config/gpu_mon.conf',
    started='2027-01-15T08:00:00+00:00',
    interval_seconds=10.0,
    dry_run=False,
    user='alice',
)

STATUS = Status(
    MONITOR,
    (ActiveUserStatus('bob', 'pts/3', 12.5),),
    (
        GpuStatus(
            gpu='0',
            state='busy',
            uuid='GPU-1',
            since='2027-01-15T08:30:00+00:00',
            by=(ProcessStatus(17, 'python', 'bob'), ProcessStatus(18, 'a\udc80b')),
            reason='used by python (pid 17, bob)',
            restarts=2,
            idle_seconds_used=61.25,
        ),
        GpuStatus(gpu='1:0', state='idle', since='2027-01-15T08:00:01+00:00', program='fold', program_pid=99),
    ),
    (
        ProgramStatus(
            name='fold',
            gpus='0,1:0',
            state='resting',
            since='2027-01-15T08:59:00+00:00',
            reason='it has failed',
            restarts=4,
            failures=2,
            seconds_run=9.5,
            next_start='2027-01-15T09:04:00+00:00',
            last_end='exit code 1',
        ),
    ),
)

STATUS_AS_JSON = {
    'monitor': {
        'pid': 123,
        'version': '6.1.0',
        'config_path': '/home/alice/.config/gpu_mon.conf',
        'started': '2027-01-15T08:00:00+00:00',
        'interval_seconds': 10.0,
        'dry_run': False,
        'user': 'alice',
    },
    'active_users': [{'user': 'bob', 'terminal': 'pts/3', 'idle_seconds': 12.5}],
    'gpus': [
        {
            'gpu': '0',
            'state': 'busy',
            'uuid': 'GPU-1',
            'since': '2027-01-15T08:30:00+00:00',
            'by': [
                {'pid': 17, 'program': 'python', 'user': 'bob'},
                {'pid': 18, 'program': 'a\udc80b', 'user': None},
            ],
            'reason': 'used by python (pid 17, bob)',
            'program': None,
            'program_pid': None,
            'restarts': 2,
            'idle_seconds_used': 61.25,
        },
        {
            'gpu': '1:0',
            'state': 'idle',
            'uuid': None,
            'since': '2027-01-15T08:00:01+00:00',
            'by': [],
            'reason': None,
            'program': 'fold',
            'program_pid': 99,
            'restarts': 0,
            'idle_seconds_used': 0.0,
        },
    ],
    'programs': [
        {
            'name': 'fold',
            'gpus': '0,1:0',
            'state': 'resting',
            'since': '2027-01-15T08:59:00+00:00',
            'pid': None,
            'reason': 'it has failed',
            'restarts': 4,
            'failures': 2,
            'seconds_run': 9.5,
            'next_start': '2027-01-15T09:04:00+00:00',
            'last_end': 'exit code 1',
        }
    ],
}


def test_every_key_of_the_document_and_what_it_holds():
    assert json.loads(to_json(STATUS)) == STATUS_AS_JSON


def test_the_json_is_one_line_of_ascii_whatever_the_names():
    text = to_json(STATUS)
    assert text.isascii()
    assert '\n' not in text


def test_what_is_read_is_what_was_written():
    assert from_json(to_json(STATUS)) == STATUS
    assert from_json(to_json(Status(MONITOR))) == Status(MONITOR)


def test_keys_of_a_newer_monitor_are_passed_over_and_those_an_older_one_has_not_are_unknown():
    document = {
        'monitor': {**STATUS_AS_JSON['monitor'], 'mood': 'good'},
        'active_users': [],
        'gpus': [{'gpu': '0', 'state': 'idle', 'colour': 'green'}],
        'programs': [{'name': 'fold', 'gpus': 'ALL', 'state': 'waiting'}],
        'weather': None,
    }
    assert from_json(json.dumps(document)) == Status(
        MONITOR, gpus=(GpuStatus('0', 'idle'),), programs=(ProgramStatus('fold', 'ALL', 'waiting'),)
    )


@pytest.mark.parametrize(
    'text',
    [
        '',
        'hello',
        '[]',
        '3',
        '{}',
        '{"monitor": 3, "active_users": [], "gpus": [], "programs": []}',
        '{"monitor": {}, "active_users": [], "gpus": [], "programs": []}',
        json.dumps({**STATUS_AS_JSON, 'gpus': 7}),
        json.dumps({**STATUS_AS_JSON, 'gpus': ['0']}),
    ],
)
def test_what_is_no_such_document_is_an_error_in_words(text):
    with pytest.raises(GpuTrackerError, match='the answer is not a status of an idle monitor'):
        from_json(text)


def test_moments_have_their_zone():
    assert iso_time(1_800_000_000.9, UTC) == '2027-01-15T08:00:00+00:00'
    assert iso_time(1_800_000_000, timezone(timedelta(hours=-3, minutes=-30))) == '2027-01-15T04:30:00-03:30'
    assert seconds_since_1970('2027-01-15T04:30:00-03:30') == 1_800_000_000
    assert seconds_since_1970(iso_time(1_800_000_000)) == 1_800_000_000  # in the zone of this machine


def test_monotonic_times_are_told_by_the_clock_on_the_wall():
    moment = wall_clock(500.0, 1_800_000_000.0, UTC)
    assert moment(500.0) == '2027-01-15T08:00:00+00:00'
    assert moment(440.0) == '2027-01-15T07:59:00+00:00'
    assert moment(800.0) == '2027-01-15T08:05:00+00:00'
