"""The fleet in a few figures."""

import pytest

from gpu_tracker.fleet.hosts.host import HostState
from gpu_tracker.fleet.hosts.report import GpuReport, HostReport
from gpu_tracker.fleet.hosts.totals import Totals, totals_of


def gpu(status='free', **fields):
    return GpuReport(key='k', status=status, **fields)


def host(*gpus, state='up'):
    return HostState('0', 'n', state=state, report=HostReport('n', 'gpu-tracker', gpus))


def kinds(*gpus):
    totals = totals_of([host(*gpus)])
    return totals.free, totals.in_use, totals.unseen, totals.unknown


def test_no_host_has_no_figures():
    assert totals_of([]) == Totals(0, 0, 0, 0, 0, 0, 0, None, None, None)


def test_figures_are_added_over_hosts_that_are_up():
    one = host(
        gpu('free', memory_total_bytes=100, memory_used_bytes=10, utilization_percent=0.0),
        gpu('in_use', memory_total_bytes=100, memory_used_bytes=90, utilization_percent=90.0),
    )
    other = host(gpu('claimed', memory_total_bytes=50, memory_used_bytes=0, utilization_percent=30.0))
    assert totals_of([one, other]) == Totals(2, 2, 3, 1, 2, 0, 0, 250, 100, 40.0)


@pytest.mark.parametrize(('used', 'percent'), [(40, 20.0), (202, 100.0)])
def test_no_more_than_all_of_the_memory_is_in_use(used, percent):
    """An exporter may read the size and the use of a memory at two times."""
    one = gpu(memory_total_bytes=200, memory_used_bytes=used)
    assert (one.memory_used_percent, totals_of([host(one)]).memory_used_percent) == (percent, percent)


@pytest.mark.parametrize('state', ['down', 'stale', 'waiting'])
def test_gpus_of_a_host_that_tells_nothing_of_now_are_unknown(state):
    lost = host(gpu('free', memory_total_bytes=100, memory_used_bytes=10, utilization_percent=50.0), state=state)
    assert totals_of([lost]) == Totals(1, 0, 1, 0, 0, 0, 1, None, None, None)


def test_gpus_of_hosts_of_which_none_has_told_its_gpus_are_unknown():
    unseen = HostState('0', 'n', state='down')
    driverless = HostState('1', 'm', state='stale', report=HostReport('m', 'gpu-tracker', None, 'it fails'))
    nothing = Totals(2, 0, None, None, None, None, None, None, None, None)
    assert totals_of([unseen, driverless]) == nothing
    assert totals_of([unseen, driverless, host()]) == Totals(3, 1, 0, 0, 0, 0, 0, None, None, None)


def test_a_host_that_was_never_seen_has_no_gpus():
    assert totals_of([host(gpu('free')), HostState('1', 'n', state='down')]).gpus == 1


@pytest.mark.parametrize(
    ('status', 'expected'),
    [
        ('free', (1, 0, 0, 0)),
        ('in_use', (0, 1, 0, 0)),
        ('claimed', (0, 1, 0, 0)),
        ('in_use_unseen', (0, 0, 1, 0)),
        ('unknown', (0, 0, 0, 1)),
        ('unreadable', (0, 0, 0, 1)),
        ('split', (0, 0, 0, 1)),
    ],
)
def test_each_status_counts_as_one_thing(status, expected):
    assert kinds(gpu(status)) == expected


@pytest.mark.parametrize(
    ('parts', 'expected'),
    [
        (['in_use', 'free'], (1, 0, 0, 0)),
        (['in_use_unseen', 'in_use'], (0, 1, 0, 0)),
        (['unknown', 'in_use_unseen'], (0, 0, 1, 0)),
    ],
)
def test_a_split_gpu_counts_once_as_the_best_of_its_parts(parts, expected):
    assert kinds(gpu('split', mig_devices=tuple(gpu(part) for part in parts))) == expected


def test_a_gpu_that_is_reached_in_several_ways_counts_once():
    one = gpu('free', uuid='GPU-a', memory_total_bytes=100, memory_used_bytes=10, utilization_percent=50.0)
    two = one._replace(uuid='GPU-b')
    assert totals_of([host(one, state='down'), host(one), host(one, two)]) == Totals(3, 2, 2, 2, 0, 0, 0, 200, 20, 50.0)
    assert totals_of([host(one, state='down'), host(one, state='stale')]).unknown == 1
    assert totals_of([host(gpu()), host(gpu())]).free == 2


def test_memory_counts_only_where_both_figures_are_known():
    totals = totals_of([host(gpu(memory_total_bytes=100), gpu(memory_total_bytes=70, memory_used_bytes=7))])
    assert (totals.memory_total_bytes, totals.memory_used_bytes) == (70, 7)


def seen_by(*states_and_statuses):
    """Return how a GPU counts of which several hosts tell, each in a state and with a status."""
    hosts = [
        HostState(str(place), 'n', state=state, report=HostReport('n', 'gpu-tracker', (gpu(status, uuid='GPU-1'),)))
        for place, (state, status) in enumerate(states_and_statuses)
    ]
    totals = totals_of(hosts)
    assert totals == totals_of(reversed(hosts))
    return totals.free, totals.in_use, totals.unseen, totals.unknown


def test_a_gpu_that_somebody_sees_in_use_is_not_free():
    assert seen_by(('up', 'free'), ('up', 'in_use')) == (0, 1, 0, 0)
    assert seen_by(('up', 'free'), ('up', 'in_use_unseen')) == (0, 0, 1, 0)


def test_a_gpu_that_somebody_can_read_is_known():
    assert seen_by(('up', 'unreadable'), ('up', 'free')) == (1, 0, 0, 0)
    assert seen_by(('down', 'in_use'), ('up', 'free')) == (1, 0, 0, 0)
    assert seen_by(('down', 'in_use'), ('stale', 'free')) == (0, 0, 0, 1)
