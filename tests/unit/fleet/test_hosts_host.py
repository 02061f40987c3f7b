"""How a host is, by what it reports and when it does not."""

import pytest

from gpu_tracker.fleet.hosts.host import HostState, host_as_json, stale_age
from gpu_tracker.fleet.hosts.report import GpuReport, HostReport

NEW = HostState('0', 'node01')
GPUS = (GpuReport(key='GPU-1'),)


def report(gpus=GPUS, *, age=0.5, interval=2.0, driver_problem=None):
    return HostReport('node01', 'gpu-tracker 6.0.0', gpus, driver_problem, age=age, interval=interval)


def test_a_host_waits_until_it_is_asked():
    assert (NEW.state, NEW.error, NEW.last_seen, NEW.report) == ('waiting', None, None, None)


def test_a_host_that_reports_is_up():
    state = NEW.reported(report(), now=100.0)
    assert (state.state, state.error, state.last_seen, state.report) == ('up', None, 100.0, report())


def test_a_host_that_fails_keeps_what_it_has_reported():
    state = NEW.reported(report(), now=100.0).failed('cannot connect: connection refused')
    assert (state.state, state.error) == ('down', 'cannot connect: connection refused')
    assert (state.last_seen, state.report) == (100.0, report())


def test_a_host_that_comes_back_has_no_error():
    state = NEW.failed('cannot connect').reported(report(), now=100.0)
    assert (state.state, state.error) == ('up', None)


def test_a_host_whose_driver_hangs_is_stale_since_its_reading():
    state = NEW.reported(report(age=40.0), now=100.0)
    assert (state.state, state.error) == ('stale', 'its GPUs have not been read for 40 s')
    assert (state.last_seen, state.report) == (60.0, report(age=40.0))


def test_a_host_whose_driver_fails_keeps_its_last_figures():
    broken = report(None, driver_problem='the driver is gone')
    state = NEW.reported(report(), now=100.0).reported(broken, now=105.0)
    assert (state.state, state.error, state.last_seen, state.report) == ('stale', 'the driver is gone', 100.0, report())


def test_a_host_whose_driver_has_never_worked_says_so():
    broken = report(None, driver_problem='the driver is gone')
    state = NEW.reported(broken, now=105.0)
    assert (state.state, state.error, state.last_seen, state.report) == ('stale', 'the driver is gone', None, broken)


def test_an_agent_that_tells_no_age_is_believed():
    assert NEW.reported(report(age=None, interval=None), now=1.0).state == 'up'


@pytest.mark.parametrize(('interval', 'seconds'), [(None, 10.0), (0.1, 10.0), (2.0, 10.0), (5.0, 15.0)])
def test_a_reading_is_old_after_three_intervals_and_not_before_ten_seconds(interval, seconds):
    assert stale_age(interval) == seconds


def test_a_reading_at_the_limit_is_not_old():
    assert NEW.reported(report(age=10.0), now=1.0).state == 'up'


def test_a_held_gpu_is_idle_since_its_first_idle_report():
    def at(host, now, status, utilization):
        return host.reported(report((GpuReport('GPU-1', status=status, utilization_percent=utilization),)), now)

    def idle_since(host):
        return host.report.gpus[0].idle_since

    busy = at(NEW, 100.0, 'in_use', 97.0)
    idle = at(busy, 105.0, 'in_use', 0.0)
    later = at(idle, 110.0, 'claimed', 0.9)
    assert [idle_since(host) for host in (busy, idle, later)] == [None, 105.0, 105.0]
    assert host_as_json(later)['gpus'][0]['idle_since'] == 105.0
    assert idle_since(at(later, 115.0, 'in_use', 1.0)) is None
    assert idle_since(at(later, 115.0, 'in_use', None)) is None
    assert idle_since(at(later, 115.0, 'free', 0.0)) is None
    assert idle_since(at(later.failed('no answer'), 115.0, 'in_use', 0.0)) == 115.0
    assert idle_since(at(later, 115.0, 'in_use_unseen', 0.0)) == 105.0
