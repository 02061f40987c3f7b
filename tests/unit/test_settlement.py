from __future__ import annotations

import copy

import pytest

from gpu_tracker.settlement import settle

MEGABYTE = 10**6
TOTALS = {
    'ram': {
        'main': [2 * MEGABYTE, None, None],
        'descendants': [0, 0, 0],
        'combined': [3 * MEGABYTE, None, None],
        'upper': [2 * MEGABYTE, 0, 2 * MEGABYTE],
    },
    'cpu': {'main': [0.4, 1.0], 'descendants': [0.35, 1.0], 'combined': [0.75, 1.0]},
    'record': {
        'cpu_before': 0.01,
        'unreaped': 0.05,
        'adopted': 0.04,
        'has_reaped': True,
        'launcher_peak': 10 * MEGABYTE,
    },
}


def settled(cpu_seconds: float, largest_peak: int, ram: dict | None = None, **record: object):
    totals = copy.deepcopy(TOTALS)
    totals['record'].update(record)
    totals['ram'].update(copy.deepcopy(ram or {}))
    settle(totals, cpu_seconds, largest_peak)
    return totals


def test_what_the_command_was_told_of_its_children_replaces_the_ticks_that_were_read():
    cpu = settled(0.727, 0)['cpu']
    assert cpu['main'][0] == 0.4
    assert cpu['descendants'][0] == pytest.approx(0.05 + 0.717 - 0.4)  # 0.05 s were used by others that still run
    assert cpu['combined'][0] == pytest.approx(0.4 + 0.05 + 0.717 - 0.4)


def test_what_the_launcher_has_reaped_replaces_what_was_seen_of_it():
    totals = copy.deepcopy(TOTALS)
    settle(totals, 0.727, 0, orphans_seconds=0.13)
    assert totals['cpu']['descendants'][0] == pytest.approx(0.05 - 0.04 + 0.13 + 0.717 - 0.4)


def test_what_only_clocks_have_counted_of_descendants_stays() -> None:
    totals = copy.deepcopy(TOTALS)
    totals['cpu']['descendants'][0] = 2.0
    totals['record']['has_clocks'] = True
    settle(totals, 0.727, 0, orphans_seconds=0.13)
    assert totals['cpu']['descendants'][0] == 2.0
    assert totals['cpu']['combined'][0] == 2.4


def test_a_command_without_children_has_used_all_of_it_itself():
    totals = settled(0.46, 0, has_reaped=False, unreaped=0.0)
    assert totals['cpu']['main'][0] == pytest.approx(0.45)


def test_a_peak_above_the_launchers_own_is_the_largest_process():
    ram = settled(0.5, 50 * MEGABYTE)['ram']
    assert ram['combined'][0] == 50 * MEGABYTE
    assert ram['main'][0] == 2 * MEGABYTE  # it may have been a child's
    assert settled(0.5, 50 * MEGABYTE, has_reaped=False)['ram']['main'][0] == 50 * MEGABYTE


def test_a_peak_below_the_launchers_own_says_nothing():
    ram = settled(0.5, 10 * MEGABYTE, has_reaped=False)['ram']
    assert ram['main'][0] == 2 * MEGABYTE
    assert ram['combined'][0] == 3 * MEGABYTE


def test_the_largest_process_limits_the_peak_of_the_command_from_above():
    unknown = {'upper': [None, 0, None]}
    assert settled(0.5, 8 * MEGABYTE, ram=unknown)['ram']['upper'] == [8 * MEGABYTE, 0, None]
    assert settled(0.5, 8 * MEGABYTE, ram=unknown, has_reaped=False)['ram']['upper'] == [8 * MEGABYTE, 0, 8 * MEGABYTE]
    assert settled(0.5, 8 * MEGABYTE)['ram']['upper'] == [2 * MEGABYTE, 0, 2 * MEGABYTE]  # its own mark is less
    with_daemon = {'descendants': [MEGABYTE, None, None], **unknown}
    with_bound = settled(0.5, 8 * MEGABYTE, ram=with_daemon, has_reaped=False)['ram']['upper']
    assert with_bound == [8 * MEGABYTE, 0, None]
    assert settled(0.5, MEGABYTE, has_reaped=False)['ram']['upper'] == [2 * MEGABYTE, 0, 2 * MEGABYTE]


def test_of_a_command_that_was_never_seen_the_bound_alone_is_known():
    unseen = {
        'main': [None, None, None],
        'descendants': [0, 0, 0],
        'combined': [None, None, None],
        'upper': [None, None, None],
    }
    ram = settled(0.5, 8 * MEGABYTE, ram=unseen, has_reaped=False)['ram']
    assert ram['main'][0] is None
    assert ram['upper'] == [8 * MEGABYTE, None, 8 * MEGABYTE]
