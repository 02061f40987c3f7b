"""Errors that the tracker raises for bad parameters; tests/unit/running/test_options.py checks most of them."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest

import gpu_tracker as gput
from support.tracked_program import Samplers

NO_PROCESS = 2**22 + 1
"""Above the largest process id that Linux gives."""
BYTES = 'bytes, kilobytes, megabytes, gigabytes or terabytes, or short as GB or GiB'


@pytest.mark.parametrize(
    ('parameter', 'value', 'accepted'),
    [
        ('sleep_time', 0, 'a positive number of seconds'),
        ('sleep_time', -1, 'a positive number of seconds'),
        ('sleep_time', math.nan, 'a positive number of seconds'),
        ('sleep_time', math.inf, 'a positive number of seconds'),
        ('sleep_time', 'x', 'a positive number of seconds'),
        ('sleep_time', True, 'a positive number of seconds'),
        ('ram_unit', 'gigabits', BYTES),
        ('gpu_ram_unit', 'Gi', BYTES),
        ('time_unit', 'weeks', 'seconds, minutes, hours or days, or short as s or min'),
        ('n_expected_cores', 0, "a whole number of at least 1, or 'allowed'"),
        ('n_expected_cores', math.nan, "a whole number of at least 1, or 'allowed'"),
        ('gpu_uuids', [], 'at least one UUID of a GPU'),
        ('process_id', NO_PROCESS, 'the id of a process that exists'),
        ('n_join_attempts', 0, 'a whole number of at least 1'),
        ('n_join_attempts', math.inf, 'a whole number of at least 1'),
        ('join_timeout', 0.0, 'a positive number of seconds'),
        ('join_timeout', -math.inf, 'a positive number of seconds'),
        ('gpu_brand', 'voodoo', 'one or more of nvidia, amd, intel, drm, separated by commas'),
    ],
)
def test_the_error_names_the_parameter_what_is_accepted_and_the_value(parameter, value, accepted):
    with pytest.raises(ValueError, match=parameter) as caught:
        gput.Tracker(**{parameter: value})
    assert str(caught.value).partition('. See ')[0] == f'{parameter} must be {accepted}, not {value!r}'


def test_an_unknown_uuid_is_refused_also_without_a_gpu(monkeypatch):
    samplers = Samplers()
    monkeypatch.setenv('MARK_OF_A_TEST', samplers.environment['MARK_OF_A_TEST'])
    with pytest.raises(ValueError, match=r'^gpu_uuids must be .*, not \[\'GPU-unknown\'\]\. '):
        gput.Tracker(gpu_uuids=['GPU-unknown'])
    assert samplers.none_left()


@pytest.mark.parametrize(
    ('parameter', 'name'),
    [('tracking_file', 'run.db'), ('tracking_file', 'new.csv'), ('resource_usage_file', 'usage.json')],
)
def test_the_check_of_uuids_touches_no_file(tmp_path, parameter, name):
    with gput.Tracker(tracking_file=tmp_path / 'run.db'):
        pass
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=r'^gpu_uuids must be '):
        gput.Tracker(gpu_uuids=['GPU-unknown'], overwrite=True, **{parameter: tmp_path / name})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize('name', ['tracking_file', 'resource_usage_file', 'job_folder'])
def test_a_path_with_a_null_byte_is_refused(name):
    with pytest.raises(ValueError, match=f'^{name} must be a path without null bytes, not '):
        gput.Tracker(**{name: 'a\0b'})


def test_a_process_that_ends_before_the_start_is_refused_by_start():
    with subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE) as process:
        tracker = gput.Tracker(process_id=process.pid)
    with pytest.raises(ValueError, match='process_id') as caught:
        tracker.start()
    assert str(caught.value) == (
        f'process_id must be the id of a process that exists, not {process.pid}. '
        'See "gpu-tracker explain no-such-process".'
    )


def test_a_millisecond_is_a_sleep_time():
    with gput.Tracker(sleep_time=0.001) as tracker:
        pass
    assert tracker.resource_usage.max_ram.main.total_rss > 0


def test_whole_seconds_and_path_objects_are_taken(tmp_path):
    with gput.Tracker(sleep_time=1, join_timeout=1, resource_usage_file=tmp_path / 'usage.json') as tracker:
        pass
    assert tracker.resource_usage.compute_time.time > 0
    assert os.listdir(tmp_path) == ['usage.json']
