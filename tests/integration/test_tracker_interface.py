"""The documented interface of the tracker: its states, their messages, and the shape of the result."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time

import pytest

import gpu_tracker as gput
from support.waiting import eventually


@pytest.fixture(scope='module')
def finished() -> gput.Tracker:
    with gput.Tracker() as tracker:
        pass
    return tracker


def test_the_states_are_new_started_and_stopped():
    tracker = gput.Tracker()
    assert repr(tracker) == 'State: NEW'
    assert tracker.state is gput.Tracker.State.NEW
    tracker.start()
    assert repr(tracker) == 'State: STARTED'
    assert tracker.state is gput.Tracker.State.STARTED
    tracker.stop()
    assert repr(tracker) == 'State: STOPPED'
    assert tracker.state is gput.Tracker.State.STOPPED


def test_stopping_before_the_start_says_so():
    with pytest.raises(RuntimeError, match=r'^This tracker has not been started; call start\(\) first\.$'):
        gput.Tracker().stop()


def test_starting_twice_says_so():
    message = r'^This tracker was started already \(it is STARTED\); make a new one for another run\.$'
    with gput.Tracker() as tracker, pytest.raises(RuntimeError, match=message):
        tracker.start()


def test_starting_after_the_end_says_so(finished: gput.Tracker):
    message = r'^This tracker was started already \(it is STOPPED\); make a new one for another run\.$'
    with pytest.raises(RuntimeError, match=message):
        finished.start()


def test_stopping_twice_says_so(finished: gput.Tracker):
    with pytest.raises(RuntimeError, match=r'^This tracker was stopped already\.$'):
        finished.stop()


def test_what_was_used_so_far_is_known_while_the_run_goes_on():
    with gput.Tracker(sleep_time=0.05, ram_unit='bytes') as tracker:
        before = tracker.so_far()
        data = b'x' * 50_000_000
        eventually(lambda: tracker.so_far().max_ram.main.total_rss >= before.max_ram.main.total_rss + 49_000_000)
        del data
        found = tracker.so_far()
        assert repr(tracker) == 'State: STARTED'
    assert found.max_ram.unit == 'bytes'
    assert {'max_ram.main.total_rss', 'compute_time.time'} <= {*found.lower_bounds}
    assert not [path for path in found.lower_bounds if '.mean_' in path]
    assert tracker.resource_usage.max_ram.main.total_rss >= found.max_ram.main.total_rss
    assert tracker.resource_usage.lower_bounds == ()


def test_nothing_is_known_so_far_without_a_run(finished: gput.Tracker):
    message = r'^This tracker does not run \(it is {}\); so_far\(\) needs one between start and stop\.$'
    with pytest.raises(RuntimeError, match=message.format('NEW')):
        gput.Tracker().so_far()
    with pytest.raises(RuntimeError, match=message.format('STOPPED')):
        finished.so_far()


@pytest.mark.parametrize('ask', [str, gput.Tracker.to_json, lambda tracker: tracker.resource_usage])
def test_asking_for_the_result_before_the_end_says_what_to_do(ask):
    tracker = gput.Tracker()
    message = r'^There is no result yet \(the tracker is NEW\); call start\(\) and stop\(\) first\.$'
    with pytest.raises(RuntimeError, match=message):
        ask(tracker)
    message = r'^There is no result yet \(the tracker is STARTED\); call stop\(\) or leave the block first\.$'
    with tracker, pytest.raises(RuntimeError, match=message):
        ask(tracker)


def test_an_exception_in_the_block_passes_and_leaves_the_full_result():
    tracker = gput.Tracker(time_unit='seconds')
    with pytest.raises(KeyError, match='its own'), tracker:
        raise KeyError('its own')
    assert tracker.state is gput.Tracker.State.STOPPED
    assert tracker.resource_usage.max_ram.main.total_rss > 0
    assert tracker.resource_usage.compute_time.time > 0
    assert tracker.resource_usage.cpu_utilization.main_n_threads >= 1


def test_leaving_the_block_after_an_explicit_stop_does_nothing():
    with gput.Tracker(time_unit='seconds') as tracker:
        tracker.stop()
        before = str(tracker)
        end = time.monotonic() + 0.01
        while time.monotonic() < end:
            pass
    assert str(tracker) == before


def test_an_explicit_stop_does_not_mask_the_exception_of_the_block():
    with pytest.raises(KeyError, match='its own'), gput.Tracker() as tracker:  # noqa: PT012 - what a block does
        tracker.stop()
        raise KeyError('its own')


def test_the_json_has_exactly_the_documented_fields_in_their_order(finished: gput.Tracker):
    rss = ['total_rss', 'private_rss', 'shared_rss']
    percentages = ['max_sum_percent', 'max_hardware_percent', 'mean_sum_percent', 'mean_hardware_percent']
    expected = {
        'max_ram': {
            'unit': None,
            'system_capacity': None,
            'system': None,
            'main': rss,
            'descendants': rss,
            'combined': rss,
        },
        'max_gpu_ram': ['unit', 'system_capacity', 'system', 'main', 'descendants', 'combined'],
        'cpu_utilization': {
            'system_core_count': None,
            'n_expected_cores': None,
            'system': percentages,
            'main': percentages,
            'descendants': percentages,
            'combined': percentages,
            'main_n_threads': None,
            'descendants_n_threads': None,
            'combined_n_threads': None,
        },
        'gpu_utilization': {'system_gpu_count': None, 'n_expected_gpus': None, 'gpu_percentages': percentages},
        'compute_time': ['unit', 'time'],
    }
    found = finished.to_json()
    found.pop('lower_bounds', None)  # only if there are some
    assert_fields(found, expected)


def test_the_dictionary_is_what_json_writes_and_reads(finished: gput.Tracker):
    usage = finished.to_json()
    assert json.loads(json.dumps(usage, indent=1)) == usage
    assert usage['max_ram']['main']['total_rss'] == finished.resource_usage.max_ram.main.total_rss


def assert_fields(found: object, expected: object) -> None:
    if expected is None:
        assert not isinstance(found, (dict, list))
        return
    assert list(found) == list(expected)
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert_fields(found[name], value)


def test_the_defaults_are_gigabytes_hours_and_all_cores(finished: gput.Tracker):
    usage = finished.resource_usage
    assert usage.max_ram.unit == 'gigabytes'
    assert usage.max_gpu_ram.unit == 'gigabytes'
    assert usage.compute_time.unit == 'hours'
    assert usage.cpu_utilization.system_core_count == os.cpu_count()
    assert usage.cpu_utilization.n_expected_cores == os.cpu_count()


def test_the_positions_of_the_parameters_are_those_documented():
    positional = gput.Tracker(0.001, 'bytes', 'kilobytes', 'days', 3, None, True, os.getpid(), None, 2, 0.5, 'nvidia')
    with positional:
        pass
    usage = positional.resource_usage
    assert usage.max_ram.unit == 'bytes'
    assert usage.max_gpu_ram.unit == 'kilobytes'
    assert usage.compute_time.unit == 'days'
    assert usage.cpu_utilization.n_expected_cores == 3


def test_the_result_is_made_of_the_public_classes(finished: gput.Tracker):
    usage = finished.resource_usage
    assert type(usage) is gput.ResourceUsage
    assert type(usage.max_ram) is gput.MaxRAM
    assert type(usage.max_ram.main) is gput.RSSValues
    assert type(usage.max_gpu_ram) is gput.MaxGPURAM
    assert type(usage.cpu_utilization) is gput.CPUUtilization
    assert type(usage.cpu_utilization.system) is gput.ProcessingUnitPercentages
    assert type(usage.gpu_utilization) is gput.GPUUtilization
    assert type(usage.compute_time) is gput.ComputeTime
    assert gput.__version__ == '6.0.0'


def test_the_text_begins_with_the_ram_and_ends_with_the_time(finished: gput.Tracker):
    lines = str(finished).splitlines()
    assert lines[:2] == ['Max RAM:', '   Unit: gigabytes']
    assert lines[4] == '   Main:'
    assert lines[5].startswith('      Total RSS: ')
    assert lines[-3:-1] == ['Compute time:', '   Unit: hours']


def test_a_handler_of_the_log_that_raises_leaves_a_tracker_that_can_be_stopped() -> None:
    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError(record.getMessage())

    log, handler = logging.getLogger('gpu_tracker'), Failing()
    log.addHandler(handler)
    before = log.level
    log.setLevel(logging.INFO)
    tracker = gput.Tracker()
    try:
        with contextlib.suppress(RuntimeError):  # where the sampler has something to say, such as that there is no GPU
            tracker.start()
        assert tracker.state is gput.Tracker.State.STARTED
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
    tracker.stop()
    assert tracker.resource_usage.max_ram.main.total_rss > 0
