"""The last half hour of each GPU, against a plain list of all that was recorded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.fleet.hosts.history import HALF_AN_HOUR, STEP, History, Series
from gpu_tracker.fleet.hosts.report import GpuReport, HostReport

LENGTH = 180


class Clock:
    def __init__(self, seconds=1000.0):
        self.seconds = seconds

    def __call__(self):
        return self.seconds


def report(*gpus):
    return HostReport('n', 'gpu-tracker', gpus)


def gpu(percent, key='GPU-1', used=None, **fields):
    return GpuReport(key=key, utilization_percent=percent, memory_total_bytes=200, memory_used_bytes=used, **fields)


def recorded(*entries, clock=None, interval=5.0):
    """Record ``(seconds, report)``, and return the history, at the time of the last."""
    clock = clock or Clock()
    history = History(clock, now=lambda: clock.seconds + 1e9, interval=interval)
    for seconds, entry in entries:
        clock.seconds = seconds
        history.record('0', entry)
    return history


def test_a_step_has_the_mean_of_its_reports():
    history = recorded((1000.0, report(gpu(10.0, used=20))), (1005.0, report(gpu(21.0, used=40))))
    past = history.past('0', 10)
    assert past.gpus == {'GPU-1': Series([15.5], [15.0])}
    assert (past.step, past.end) == (10.0, 1e9 + 1010.0)


def test_a_step_without_a_report_is_a_gap():
    history = recorded((1000.0, report(gpu(10.0))), (1025.0, report(gpu(30.0))))
    assert history.past('0', 40).gpus['GPU-1'].utilization == [None, 10.0, None, 30.0]


def test_unknown_is_a_gap_and_not_nought():
    history = recorded((1000.0, report(gpu(None))), (1010.0, report(gpu(0.0))))
    assert history.past('0', 20).gpus['GPU-1'] == Series([None, 0.0], [None, None])


def test_all_gpus_of_a_host_have_as_many_values():
    history = recorded((1000.0, report(gpu(1.0))), (1010.0, report(gpu(2.0), gpu(3.0, key='GPU-2'))))
    assert {key: series.utilization for key, series in history.past('0', 20).gpus.items()} == {
        'GPU-1': [1.0, 2.0],
        'GPU-2': [None, 3.0],
    }


def test_a_host_that_has_gone_leaves_a_gap_up_to_now():
    clock = Clock()
    history = recorded((1000.0, report(gpu(10.0))), clock=clock)
    clock.seconds = 1020.0
    assert history.past('0', 30).gpus['GPU-1'].utilization == [10.0, None, None]


def test_mig_devices_have_a_past_of_their_own():
    history = recorded((1000.0, report(gpu(None, mig_devices=(gpu(None, key='MIG-1', used=50),)))))
    assert history.past('0', 10).gpus['MIG-1'].memory == [25.0]


def test_a_host_without_reports_has_no_past():
    assert recorded().past('0', 100).gpus == {}


def test_a_gpu_that_is_gone_for_half_an_hour_is_forgotten():
    history = recorded((1000.0, report(gpu(1.0))), (1000.0 + LENGTH * STEP, report(gpu(1.0, key='GPU-2'))))
    assert list(history.past('0', 100).gpus) == ['GPU-2']


def test_no_more_than_half_an_hour_is_kept():
    history = recorded(*((1000.0 + 10 * number, report(gpu(number % 100))) for number in range(500)))
    values = history.past('0', 1e9).gpus['GPU-1'].utilization
    assert values == [number % 100 for number in range(320, 500)]


@pytest.mark.parametrize('interval', [10.0, 25.0, 60.0, 700.0])
def test_where_reports_come_less_often_steps_are_as_long(interval):
    late = [0.0, 1.5, 0.1, 0.9, 1.4, 0.0]
    times = [1000.0 + number * interval + late[number % len(late)] for number in range(60)]
    history = recorded(*((seconds, report(gpu(number))) for number, seconds in enumerate(times)), interval=interval)
    past = history.past('0', 1e9)
    values = past.gpus['GPU-1'].utilization
    assert (past.step, len(values)) == (interval, -(-HALF_AN_HOUR // interval))
    assert [value for value in values if value is not None] == list(range(60))[-len(values) :]
    assert None not in values[-60:]
    assert times[-1] < past.end - 1e9 < times[-1] + interval


def test_a_host_whose_gpus_have_new_names_each_time_does_not_fill_the_memory():
    many = (report(*(gpu(1.0, key=f'{look}-{number}') for number in range(256))) for look in range(6))
    history = recorded(*((1000.0 + look, entry) for look, entry in enumerate(many)))
    assert len(history.past('0', 10).gpus) == 1024


@given(
    st.lists(
        st.tuples(st.floats(0, 900), st.none() | st.floats(0, 100)),
        min_size=1,
        max_size=30,
    )
)
def test_the_ring_says_what_a_list_of_everything_says(entries):
    clock = Clock(0.0)
    history = History(clock, now=clock)
    steps = {}
    for pause, percent in entries:
        clock.seconds += pause
        history.record('0', report(gpu(percent)))
        if percent is not None:
            steps.setdefault(int(clock.seconds // STEP), []).append(percent)
    now = int(clock.seconds // STEP)
    values = history.past('0', LENGTH * STEP).gpus['GPU-1'].utilization
    assert len(values) == LENGTH
    for step, value in zip(range(now - LENGTH + 1, now + 1), values, strict=True):
        if step in steps:
            assert abs(value - sum(steps[step]) / len(steps[step])) <= 0.0501
        else:
            assert value is None
