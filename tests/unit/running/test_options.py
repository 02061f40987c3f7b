from __future__ import annotations

import inspect
import math
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest

from gpu_tracker.errors import GpuError, ParameterError
from gpu_tracker.running.options import OPTIONS, Options
from gpu_tracker.tracker import Tracker

GOOD = {
    'sleep_time': 1.0,
    'ram_unit': 'gigabytes',
    'gpu_ram_unit': 'gigabytes',
    'time_unit': 'hours',
    'n_expected_cores': None,
    'gpu_uuids': None,
    'disable_logs': False,
    'process_id': None,
    'resource_usage_file': None,
    'n_join_attempts': 5,
    'join_timeout': 10.0,
    'gpu_brand': None,
    'max_overhead_percent': None,
    'cuda': False,
}
NO_PROCESS = 2**22 + 1  # above the largest pid that Linux gives


def test_defaults_are_filled_in():
    parameters = Options(**GOOD)
    assert parameters.process_id == os.getpid()
    assert parameters.gpu_brand is None
    assert Options(gpu_brand='AMD, nvidia').gpu_brand == ('amd', 'nvidia')


@pytest.mark.parametrize(
    ('name', 'value', 'message'),
    [
        ('sleep_time', 0, 'sleep_time must be a positive number of seconds, not 0'),
        ('sleep_time', -1.5, 'sleep_time must be a positive number of seconds, not -1.5'),
        ('sleep_time', math.nan, 'sleep_time must be a positive number of seconds, not nan'),
        ('sleep_time', math.inf, 'sleep_time must be a positive number of seconds, not inf'),
        ('sleep_time', '1', "sleep_time must be a positive number of seconds, not '1'"),
        ('sleep_time', True, 'sleep_time must be a positive number of seconds, not True'),
        (
            'max_overhead_percent',
            0,
            'max_overhead_percent must be a percentage of one core, above 0 and at most 100, not 0',
        ),
        (
            'max_overhead_percent',
            100.5,
            'max_overhead_percent must be a percentage of one core, above 0 and at most 100, not 100.5',
        ),
        ('join_timeout', 0.0, 'join_timeout must be a positive number of seconds, not 0.0'),
        ('join_timeout', math.nan, 'join_timeout must be a positive number of seconds, not nan'),
        (
            'ram_unit',
            'pages',
            "ram_unit must be bytes, kilobytes, megabytes, gigabytes or terabytes, or short as GB or GiB, not 'pages'",
        ),
        (
            'gpu_ram_unit',
            None,
            'gpu_ram_unit must be bytes, kilobytes, megabytes, gigabytes or terabytes, or short as GB or GiB, not None',
        ),
        ('cuda', 'yes', "cuda must be True or False, not 'yes'"),
        ('disable_logs', 'no', "disable_logs must be True or False, not 'no'"),
        ('disable_logs', 0, 'disable_logs must be True or False, not 0'),
        ('cuda', 1, 'cuda must be True or False, not 1'),
        ('cuda', None, 'cuda must be True or False, not None'),
        ('sections', ['io', 'disk'], "sections must be 'cuda', 'io', 'energy' or 'gpu_activity', not 'disk'"),
        ('sections', [3], "sections must be 'cuda', 'io', 'energy' or 'gpu_activity', not 3"),
        (
            'sections',
            'io',
            "sections must be a sequence of names, each 'cuda', 'io', 'energy' or 'gpu_activity', not 'io'",
        ),
        (
            'sections',
            None,
            "sections must be a sequence of names, each 'cuda', 'io', 'energy' or 'gpu_activity', not None",
        ),
        (
            'time_unit',
            'ms',
            "time_unit must be seconds, minutes, hours or days, or short as s or min, not 'ms'",
        ),
        ('n_expected_cores', 0, "n_expected_cores must be a whole number of at least 1, or 'allowed', not 0"),
        ('n_expected_cores', 1.5, "n_expected_cores must be a whole number of at least 1, or 'allowed', not 1.5"),
        ('n_join_attempts', 0, 'n_join_attempts must be a whole number of at least 1, not 0'),
        ('n_join_attempts', math.nan, 'n_join_attempts must be a whole number of at least 1, not nan'),
        ('gpu_uuids', [], 'gpu_uuids must be at least one UUID of a GPU, not []'),
        ('gpu_uuids', [''], "gpu_uuids must be at least one UUID of a GPU, not ['']"),
        ('gpu_uuids', 'GPU-1', "gpu_uuids must be a sequence of UUIDs of GPUs, not 'GPU-1'"),
        (
            'gpu_brand',
            'voodoo',
            "gpu_brand must be one or more of nvidia, amd, intel, drm, separated by commas, not 'voodoo'",
        ),
        (
            'process_id',
            NO_PROCESS,
            (
                f'process_id must be the id of a process that exists, not {NO_PROCESS}. '
                'See "gpu-tracker explain no-such-process".'
            ),
        ),
        ('process_id', 0, 'process_id must be the id of a process that exists, not 0'),
        ('process_id', '1', "process_id must be the id of a process that exists, not '1'"),
        (
            'resource_usage_file',
            '/nowhere/usage.json',
            (
                'resource_usage_file must be the path of a file in a folder that can be written, not '
                """'/nowhere/usage.json'. See "gpu-tracker explain cannot-write"."""
            ),
        ),
    ],
)
def test_a_wrong_value_is_named_with_its_parameter_and_what_is_accepted(name, value, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        Options(**{**GOOD, name: value})
    assert str(caught.value) == message


def test_a_very_short_sleep_time_is_accepted():
    assert Options(**{**GOOD, 'sleep_time': 0.001}).sleep_time == 0.001


class Scalar:
    """A number like numpy's, which is neither an int nor a float."""

    def __index__(self) -> int:
        return 3

    __float__ = __index__


def test_numbers_of_other_kinds_are_accepted():
    parameters = Options(**{**GOOD, 'sleep_time': Fraction(1, 4), 'n_expected_cores': Scalar()})
    assert (parameters.sleep_time, parameters.n_expected_cores) == (0.25, 3)


def test_the_truth_values_of_numpy_are_accepted():
    assert Options(**{**GOOD, 'disable_logs': np.bool_(1)}).disable_logs is True
    assert Options(**{**GOOD, 'cuda': np.bool_(0)}).cuda is False


@pytest.mark.parametrize(
    ('wanted', 'sections'),
    [
        ({}, ()),
        ({'cuda': True}, ('cuda',)),
        ({'sections': ['io', 'io']}, ('io',)),
        ({'sections': iter(['io', 'cuda'])}, ('cuda', 'io')),
        ({'sections': {'io'}, 'cuda': True}, ('cuda', 'io')),
    ],
)
def test_sections_are_kept_once_each_and_in_one_order(wanted, sections):
    assert Options(**{**GOOD, **wanted}).sections == sections


def test_uuids_may_be_any_sequence_and_count_once(tmp_path):
    assert Options(**{**GOOD, 'gpu_uuids': iter(['b', 'a', 'b'])}).gpu_uuids == ('b', 'a')


def test_the_resource_usage_file_does_not_follow_a_later_change_of_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Options(**{**GOOD, 'resource_usage_file': 'usage.json'}).resource_usage_file == str(tmp_path / 'usage.json')


@pytest.mark.parametrize('error', [ParameterError('sleep_time', 0, 'more'), GpuError('It is lost.', 'lost')])
def test_errors_survive_pickling(error):
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_the_tracker_has_all_options_of_the_table_with_their_defaults() -> None:
    documented = {name: found.default for name, found in inspect.signature(Tracker).parameters.items()}
    assert documented == {option.name: option.default for option in OPTIONS}
    assert set(Options.__annotations__) == documented.keys()


def test_a_check_uses_options_above_it_only() -> None:
    names = [option.name for option in OPTIONS]
    for earlier, later in [
        ('job', 'resource_usage_file'),
        ('process_id', 'resource_usage_file'),
        ('process_id', 'n_expected_cores'),
        ('cuda', 'sections'),
        ('overwrite', 'tracking_file'),
        ('resource_usage_file', 'tracking_file'),
        ('tracking_file', 'job_folder'),
        ('job_folder', 'per_process'),
    ]:
        assert names.index(earlier) < names.index(later)
