"""Moments by the clock of a host that goes wrong."""

import json

import pytest

from gpu_tracker.fleet.hosts.fleet import Fleet
from gpu_tracker.fleet.hosts.host import HostState, host_as_json
from gpu_tracker.fleet.hosts.report import ClaimReport, GpuReport, HostReport, ProcessReport

NOW = 1_800_000_000.0
HOUR = 3600.0
NEW = HostState('0', 'node01')


def report(behind=0.0, *, age=0.5, after=0.0, time=True):
    """Return what a host tells ``after`` seconds whose clock is ``behind``: a process runs for a minute then."""
    by_its_clock = NOW - behind
    process = ProcessReport(7, started=by_its_clock - 60)
    claim = ClaimReport(made=by_its_clock - 50, expires=by_its_clock + 100)
    part = GpuReport(key='MIG-1', processes=(process,))
    gpu = GpuReport(key='GPU-1', processes=(process,), claim=claim, mig_devices=(part,))
    taken = by_its_clock + after - age
    return HostReport('node01', 'gpu-tracker', (gpu,), age=age, interval=2.0, time=taken if time else None)


def moments(host):
    """Return how long ago the process and the claim began, and in how many seconds the claim ends."""
    (gpu,) = host.report.gpus
    (of_part,) = gpu.mig_devices[0].processes
    assert gpu.processes == (of_part,)
    return NOW - of_part.started, NOW - gpu.claim.made, gpu.claim.expires - NOW


@pytest.mark.parametrize('behind', [HOUR, -HOUR, 56 * 365 * 86_400.0, 2.5, 0.0, 1.9, -1.9])
def test_moments_are_those_of_this_machine(behind):
    host = NEW.reported(report(behind), NOW)
    assert moments(host) == pytest.approx((60, 50, 100), abs=2)
    assert host.state == 'up'


def test_a_reading_that_is_old_is_no_error_of_a_clock():
    assert NEW.reported(report(age=9.0), NOW).report == report(age=9.0)


def test_a_clock_that_is_about_right_is_taken_as_it_is():
    assert NEW.reported(report(1.9), NOW).report == report(1.9)


def test_moments_do_not_change_with_how_long_each_answer_was_under_way():
    fleet = Fleet([NEW], interval=5)
    fleet.put(NEW.reported(report(HOUR), NOW))
    seen = fleet.version
    for after, under_way in ((5.0, 0.7), (10.0, 1.5), (15.0, 0.0)):
        fleet.put(fleet.state('0').reported(report(HOUR, after=after), NOW + after + under_way))
    assert fleet.version == seen
    assert moments(fleet.state('0'))[0] == 60


def test_a_clock_that_is_set_right_is_believed():
    host = NEW.reported(report(HOUR), NOW).reported(report(after=5.0), NOW + 5)
    assert moments(host) == (60, 50, 100)


@pytest.mark.parametrize('told', [report(HOUR, time=False), report(HOUR)._replace(age=None)])
def test_who_does_not_tell_what_time_it_is_is_believed(told):
    assert NEW.reported(told, NOW).report == told


@pytest.mark.parametrize('time', [0.0, 1e300, 1.7e308])
def test_no_clock_makes_numbers_that_cannot_be_told(time):
    told = report()._replace(time=time, age=1.7e308 if time > 1e307 else 1.0)
    gpu = told.gpus[0]._replace(processes=(ProcessReport(7, started=1.7e308), ProcessReport(8, started=0.0)))
    shown = host_as_json(NEW.reported(told._replace(gpus=(gpu,)), NOW))
    json.dumps(shown, allow_nan=False)


def test_what_would_be_before_1970_is_unknown():
    told = report(-HOUR)
    gpu = told.gpus[0]._replace(processes=(ProcessReport(7, started=5.0),))
    assert NEW.reported(told._replace(gpus=(gpu,)), NOW).report.gpus[0].processes == (ProcessReport(7),)
