"""All hosts, and who is told of changes."""

import asyncio

import pytest

from gpu_tracker.fleet.hosts.fleet import Fleet
from gpu_tracker.fleet.hosts.history import History
from gpu_tracker.fleet.hosts.host import HostState
from gpu_tracker.fleet.hosts.report import GpuReport, HostReport

FIRST, SECOND = HostState('0', 'first'), HostState('1', 'second')


def report(utilization=5.0, age=0.1):
    return HostReport(
        'node', 'gpu-tracker', (GpuReport(key='GPU-1', utilization_percent=utilization),), age=age, interval=2.0
    )


@pytest.fixture
def fleet():
    return Fleet([FIRST, SECOND], interval=5.0, history=History())


def test_hosts_stay_in_order(fleet):
    fleet.put(FIRST.failed('gone'))
    assert [state.id for state in fleet.states()] == ['0', '1']
    assert fleet.state('0').error == 'gone'
    assert fleet.state('7') is None


def test_only_what_has_changed_since_is_told(fleet):
    before = fleet.version
    fleet.put(SECOND.reported(report(), 100.0))
    assert [state.id for state in fleet.changed_since(before)] == ['1']
    assert fleet.changed_since(fleet.version) == []
    assert [state.id for state in fleet.changed_since(0)] == ['0', '1']


def test_a_report_of_the_same_figures_is_no_change(fleet):
    fleet.put(FIRST.reported(report(age=0.1), 100.0))
    before = fleet.version
    fleet.put(fleet.state('0').reported(report(age=0.3), 105.0))
    assert fleet.version == before
    assert fleet.state('0').last_seen == 105.0


def test_other_figures_are_a_change(fleet):
    fleet.put(FIRST.reported(report(), 100.0))
    before = fleet.version
    fleet.put(fleet.state('0').reported(report(utilization=6.0), 105.0))
    assert fleet.version > before


def test_reports_are_recorded_and_failures_are_not(fleet):
    fleet.put(FIRST.reported(report(utilization=50.0), 100.0))
    fleet.put(fleet.state('0').failed('gone'))
    assert fleet.history.past('0', 10).gpus['GPU-1'].utilization == [50.0]


def test_a_removed_host_is_not_told_of_any_more(fleet):
    fleet.remove('0')
    fleet.remove('0')
    assert [state.id for state in fleet.states()] == ['1']
    assert fleet.removals == 1


def test_who_waits_is_told_of_a_change(fleet):
    async def waiting():
        waiter = asyncio.create_task(fleet.change(fleet.version))
        await asyncio.sleep(0)
        assert not waiter.done()
        fleet.put(FIRST.failed('gone'))
        await asyncio.wait_for(waiter, 60)

    asyncio.run(waiting())


def test_who_has_missed_a_change_does_not_wait(fleet):
    fleet.put(FIRST.failed('gone'))
    asyncio.run(asyncio.wait_for(fleet.change(1), 60))


def test_who_waits_goes_on_when_the_fleet_is_closed(fleet):
    async def closing():
        waiters = [asyncio.create_task(fleet.change(fleet.version)) for _ in range(3)]
        await asyncio.sleep(0)
        fleet.close()
        await asyncio.wait_for(asyncio.gather(*waiters, fleet.change(fleet.version)), 60)

    asyncio.run(closing())
    assert fleet.is_closed


def test_one_who_gives_up_does_not_keep_others_from_being_told(fleet):
    async def giving_up():
        impatient = asyncio.create_task(fleet.change(fleet.version))
        patient = asyncio.create_task(fleet.change(fleet.version))
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.sleep(0)
        fleet.put(FIRST.failed('gone'))
        await asyncio.wait_for(patient, 60)

    asyncio.run(giving_up())


def test_how_often_a_host_is_read_is_shown_to_nobody(fleet):
    fleet.put(FIRST.reported(report(), 1.0))
    version = fleet.version
    fleet.put(FIRST.reported(report()._replace(interval=2.5), 2.0))
    assert fleet.version == version
