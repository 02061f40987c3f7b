"""The last half hour of a whole fleet."""

from __future__ import annotations

import pytest

from gpu_tracker.fleet.hosts.fleet import Fleet
from gpu_tracker.fleet.hosts.history import FleetHistory, FleetMoment, FleetPast
from gpu_tracker.fleet.hosts.host import HostState
from gpu_tracker.fleet.hosts.report import GpuReport, HostReport
from gpu_tracker.fleet.hosts.totals import totals_of


class Clock:
    def __init__(self, seconds=1000.0):
        self.seconds = seconds

    def __call__(self):
        return self.seconds


def gpu(key, utilization=None, used=None, status='in_use'):
    return GpuReport(
        key=key, status=status, utilization_percent=utilization, memory_total_bytes=200, memory_used_bytes=used
    )


def host(*gpus, host_id='0', state='up'):
    return HostState(host_id, 'n', state=state, report=HostReport('n', 'gpu-tracker', gpus))


def recorded(*entries, interval=5.0):
    """Record ``(seconds, hosts)``, and return the history, at the time of the last."""
    clock = Clock()
    history = FleetHistory(clock, now=lambda: clock.seconds + 1e9, interval=interval)
    for seconds, hosts in entries:
        clock.seconds = seconds
        history.record(totals_of(hosts))
    return history, clock


def test_a_step_has_the_mean_of_its_rounds_and_the_counts_of_the_last():
    history, _ = recorded(
        (1000.0, [host(gpu('a', 10.0, used=20), gpu('b', 30.0, used=60))]),
        (1005.0, [host(gpu('a', 50.0, used=100))]),
    )
    assert history.past(10) == FleetPast(10.0, 1e9 + 1010.0, [35.0], [35.0], [1], [1])


def test_a_gpu_that_is_not_known_is_not_in_the_mean():
    lost = host(gpu('c', 100.0, used=200), host_id='1', state='down')
    history, _ = recorded((1000.0, [host(gpu('a', 40.0, used=20), gpu('b'), gpu('x', status='unreadable')), lost]))
    past = history.past(10)
    assert (past.utilization, past.memory, past.gpus, past.hosts_up) == ([40.0], [10.0], [2], [1])


def test_a_time_without_a_known_gpu_is_a_gap_and_not_nought():
    idle, down = host(gpu('a', 0.0, used=0)), host(gpu('a', 70.0, used=20), state='down')
    history, _ = recorded((1000.0, [idle]), (1010.0, [down]), (1020.0, [idle]), (1020.1, [down]))
    past = history.past(30)
    assert past.utilization == past.memory == [0.0, None, 0.0]
    assert past.hosts_up == [1, 0, 0]


def test_a_time_without_a_round_is_unknown_up_to_now():
    history, clock = recorded((1000.0, [host(gpu('a', 10.0))]), (1020.0, [host(gpu('a', 30.0))]))
    clock.seconds = 1045.0
    past = history.past(60)
    assert past.utilization == [None, 10.0, None, 30.0, None, None]
    assert past.gpus == past.hosts_up == [None, 1, None, 1, None, None]
    assert past.end == 1e9 + 1050.0


def test_half_an_hour_is_kept_and_no_more():
    history, _ = recorded(*((1000.0 + 10 * number, [host(gpu('a', number % 100))]) for number in range(400)))
    assert history.past(1e9).utilization == [number % 100 for number in range(220, 400)]
    assert history.past(0.1).utilization == [99.0]


@pytest.mark.parametrize('interval', [10.0, 25.0, 60.0])
def test_where_rounds_come_less_often_steps_are_as_long(interval):
    rounds = [(1000.0 + number * interval + number % 3, [host(gpu('a', number))]) for number in range(60)]
    past = recorded(*rounds, interval=interval)[0].past(10 * interval)
    assert (past.step, past.utilization) == (interval, list(range(50, 60)))


def test_what_somebody_else_has_kept_comes_before_the_first_totals():
    history, clock = recorded((1000.0, [host(gpu('a', 10.0, used=20))]))
    times = [1e9 + seconds for seconds in (-9000.0, 975.0, 984.0, 989.9, 999.9, 1000.1, 1500.0)]
    history.recall(FleetMoment(time, 50.0 + place, None) for place, time in enumerate(times))
    clock.seconds = 1015.0
    past = history.past(60)
    assert past.utilization == [None, 51.0, 52.5, 54.0, 10.0, None]
    assert past.memory == [None, None, None, None, 10.0, None]
    assert past.hosts_up == past.gpus == [None, None, None, None, 1, None]


def test_totals_go_on_after_what_was_recalled():
    clock = Clock()
    history = FleetHistory(clock, now=clock)
    history.recall([FleetMoment(1000.0 - 10 * number, 5.0, 7.0) for number in range(-3, 500)])
    assert history.past(1e9).utilization == [5.0] * 180
    clock.seconds = 1010.0
    history.record(totals_of([host(gpu('a', 90.0))]))
    assert history.past(30).utilization == [5.0, 5.0, 90.0]
    assert len(history.past(1e9).utilization) == 180


def test_a_fleet_records_its_totals_as_they_are_now():
    clock = Clock()
    fleet = Fleet([host(gpu('a', 20.0, used=50))], interval=5.0, totals_history=FleetHistory(clock, now=clock))
    fleet.end_round()
    fleet.put(host(gpu('a', 60.0, used=50)))
    fleet.end_round()
    clock.seconds += 10
    fleet.put(host(gpu('a', 60.0, used=50)).failed('gone'))
    fleet.end_round()
    assert fleet.rounds == 3
    past = fleet.totals_history.past(20)
    assert (past.utilization, past.memory, past.gpus, past.hosts_up) == ([40.0, None], [25.0, None], [1, 0], [1, 0])
    fleet.remove('0')
    assert fleet.totals().hosts == 0
