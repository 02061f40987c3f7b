from __future__ import annotations

import copy
from typing import Any

from gpu_tracker.sampling import Bounds, RAMBounds, record_of

TOTALS = {
    'samples': 11,
    'ram': {
        'lower': {
            'main': [914_000_000, 700_000_000, 160_600_000],
            'descendants': [0, 0, 0],
            'combined': [914_000_000, None, None],
        },
        'upper': {'main': 914_000_000, 'descendants': 0, 'combined': None},
    },
    'record': {
        'late': 1,
        'skipped': 2,
        'early': 31,
        'postponed': 4,
        'mean_interval': 0.125,
        'cpu_seconds': 0.25,
        'cpu_is_lower_bound': False,
    },
}


def totals(**changes: object) -> dict[str, Any]:
    found = copy.deepcopy(TOTALS)
    for group, (lower, upper) in changes.items():
        found['ram']['lower'][group] = lower
        found['ram']['upper'][group] = upper
    return found


def test_the_record_tells_the_samples_and_what_they_cost() -> None:
    record = record_of(TOTALS, 'megabytes')
    assert (record.samples, record.late, record.skipped, record.early, record.postponed) == (11, 1, 2, 31, 4)
    assert (record.mean_interval, record.cpu_seconds, record.unit) == (0.125, 0.25, 'megabytes')


def test_the_record_tells_the_bounds_of_each_peak_and_of_its_parts() -> None:
    record = record_of(TOTALS, 'megabytes')
    assert record.main_ram == RAMBounds(914.0, 914.0, Bounds(700.0, 914.0), Bounds(160.6, 914.0))
    assert record.descendants_ram == RAMBounds(0.0, 0.0, Bounds(0.0, 0.0), Bounds(0.0, 0.0))
    assert record.combined_ram == RAMBounds(914.0, None, Bounds(None, None), Bounds(None, None))


def test_the_record_as_text() -> None:
    assert str(record_of(TOTALS, 'megabytes')) == (
        'Sampling: 11 samples, 1 late, 2 skipped, 31 early, 4 postponed, '
        'mean interval 0.1250 s, 0.2500 CPU seconds\n'
        'Peak RAM of main: exactly 914 megabytes '
        '(private between 700 and 914 megabytes; shared between 160.6 and 914 megabytes)\n'
        'Peak RAM of descendants: exactly 0 megabytes\n'
        'Peak RAM of combined: at least 914 megabytes'
    )


def test_descendants_that_nobody_has_seen_as_text() -> None:
    unseen = totals(descendants=([None, None, None], None), combined=([None, None, None], 2_000_000))
    lines = str(record_of(unseen, 'megabytes')).splitlines()
    assert lines[2:] == ['Peak RAM of descendants: unknown', 'Peak RAM of combined: at most 2 megabytes']


def test_a_run_that_was_never_on_the_grid_has_no_mean_interval() -> None:
    brief = copy.deepcopy(TOTALS)
    brief['record']['mean_interval'] = None
    assert 'mean interval unknown, ' in str(record_of(brief, 'megabytes'))


def test_the_record_says_so_where_more_cpu_time_may_have_been_used() -> None:
    assert not record_of(TOTALS, 'megabytes').cpu_is_lower_bound
    more = copy.deepcopy(TOTALS)
    more['record']['cpu_is_lower_bound'] = True
    assert record_of(more, 'megabytes').cpu_is_lower_bound
    assert str(record_of(more, 'megabytes')).splitlines()[-1] == 'CPU utilization: at least what is reported'
