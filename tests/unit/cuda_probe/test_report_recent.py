"""The rates of the last moment, from two reports of all the time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.cuda_probe.report_text import recent
from support.cuda.cuda_reports import TRAINING, device, process, report


def seen(launches, seconds, *, used_cores=None, busy=None, **more):
    """Return the figures of a program that was looked at for so long."""
    return {'seconds': seconds, **on_gpu(launches, seconds, used_cores=used_cores, busy=busy, **more)}


def on_gpu(launches, seconds, *, used_cores=None, busy=None, **more):
    """Return the figures of one of its GPUs."""
    return {
        'launches': launches,
        'launches_per_second': launches / seconds,
        'used_cores': used_cores,
        'launch_to_sync_seconds': busy,
        'active_percent': None if busy is None else 100 * busy / seconds,
        **more,
    }


def rates(shown):
    return [(used.launches_per_second, used.active_percent, used.used_cores) for used in shown]


def test_rates_and_shares_are_those_of_the_time_between():
    before = report(process(7, **seen(1000, 10.0, used_cores=30.0, busy=1.0)), seconds=10.0)
    now = report(
        process(7, **seen(1600, 12.0, used_cores=50.0, busy=2.5, memory_max=7, mean_threads=9.0)), seconds=12.0
    )
    (shown,) = recent(before, now).processes
    assert rates([shown]) == [(300.0, 75.0, 150.0)]
    assert (shown.launches, shown.memory_max, shown.mean_threads) == (1600, 7, 9.0)


def test_each_gpu_has_its_own_and_a_new_one_those_of_all_its_time():
    first = device(0, **on_gpu(10, 10.0, busy=0.0, used_cores=6.0))
    devices = device(0, **on_gpu(30, 12.0, busy=1.0, used_cores=10.0)), device(3, **on_gpu(8, 2.0, busy=0.5))
    before = report(process(7, seconds=10.0, devices=(first,)), seconds=10.0)
    now = report(process(7, seconds=12.0, devices=devices), seconds=12.0)
    (shown,) = recent(before, now).processes
    assert rates(shown.devices) == [(10.0, 50.0, 30.0), (4.0, 25.0, None)]


def test_a_program_that_has_ended_does_nothing_any_more():
    ended = process(7, **seen(1000, 10.0, used_cores=30.0, busy=1.0), ended=True)
    (shown,) = recent(report(ended, seconds=10.0), report(ended, seconds=11.0)).processes
    assert rates([shown]) == [(0.0, 0.0, 0.0)]


def test_a_program_that_came_by_exec_is_another_one():
    shell = process(7, run=1, **seen(5, 10.0), ended=True)
    program = process(7, run=2, **seen(40, 2.0))
    shown = recent(report(shell, seconds=10.0), report(shell, program, seconds=12.0)).processes
    assert rates(shown) == [(0.0, None, None), (20.0, None, None)]


def test_a_process_that_was_not_there_before_has_the_rates_of_all_its_time():
    now = report(process(7, **seen(40, 2.0, busy=1.0)), seconds=12.0)
    assert recent(report(seconds=10.0), now) == now


def test_the_first_report_stays_as_it_is():
    assert recent(None, TRAINING) is TRAINING
    assert recent(TRAINING, TRAINING) is TRAINING


def test_what_is_not_known_stays_unknown():
    before, now = (report(process(7, **seen(10, 5.0)), seconds=seconds) for seconds in (5.0, 6.0))
    assert rates(recent(before, now).processes) == [(0.0, None, None)]


def test_a_program_that_has_launched_nothing_used_no_core():
    before, now = (report(process(7, **seen(0, 5.0, used_cores=0.0)), seconds=seconds) for seconds in (5.0, 6.0))
    assert rates(recent(before, now).processes) == [(0.0, None, 0.0)]


totals = st.tuples(
    st.integers(min_value=0, max_value=10**12),
    st.floats(min_value=0, max_value=1e6),
    st.floats(min_value=0, max_value=1e6),
)


@given(totals, totals, st.floats(min_value=0.001, max_value=1e6))
def test_no_share_is_below_nothing_or_above_all(before, now, seconds):
    first, second = (
        report(
            process(7, **seen(launches, length, used_cores=cores, busy=min(busy, length)), streams=1), seconds=length
        )
        for (launches, cores, busy), length in ((before, 1.0), (now, 1.0 + seconds))
    )
    ((rate, active, cores),) = rates(recent(first, second).processes)
    assert rate >= 0
    assert 0 <= active <= 100
    assert cores >= 0


@pytest.mark.parametrize('seconds', [9.0, 10.0])
def test_a_clock_that_does_not_go_on_changes_nothing(seconds):
    now = report(process(7, **seen(40, 2.0)), seconds=seconds)
    assert recent(report(process(7, **seen(10, 2.0)), seconds=10.0), now) is now
