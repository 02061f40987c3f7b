from __future__ import annotations

import copy
from typing import Any

from gpu_tracker.result.sampling import record_of

BETWEEN = 'processes may have used more between two samples'
IGNORED = 'a process ignores SIGCHLD'
TOTALS = {
    'samples': 11,
    'record': {'late': 1, 'skipped': 2, 'mean_interval': 0.125, 'cpu_seconds': 0.25},
    'lower_bounds': {},
}


def totals(**changes: object) -> dict[str, Any]:
    return copy.deepcopy(TOTALS) | changes


def test_the_samples_and_what_they_cost() -> None:
    record = record_of(TOTALS)
    assert (record.samples, record.late, record.skipped) == (11, 1, 2)
    assert (record.mean_interval, record.cpu_seconds, record.lower_bounds) == (0.125, 0.25, {})
    assert str(record) == 'Sampling: 11 samples, 1 late, 2 skipped, mean interval 0.1250 s, 0.2500 CPU seconds'


def test_each_reason_has_a_line_with_the_figures_that_may_be_too_low() -> None:
    bounds = {
        'max_ram.descendants.total_rss': BETWEEN,
        'cpu_utilization.combined.mean_sum_percent': IGNORED,
        'max_ram.combined.total_rss': BETWEEN,
    }
    record = record_of(totals(lower_bounds=bounds))
    assert record.lower_bounds == bounds
    assert str(record).splitlines()[1:] == [
        f'At least, because {BETWEEN}: max_ram.descendants.total_rss, max_ram.combined.total_rss',
        f'At least, because {IGNORED}: cpu_utilization.combined.mean_sum_percent',
    ]


def test_the_record_keeps_its_lower_bounds_if_the_totals_change() -> None:
    changing = totals(lower_bounds={'max_ram.main.total_rss': BETWEEN})
    record = record_of(changing)
    changing['lower_bounds'].clear()
    assert record.lower_bounds == {'max_ram.main.total_rss': BETWEEN}


def test_a_run_that_was_never_on_the_grid_has_no_mean_interval() -> None:
    brief = totals(record=TOTALS['record'] | {'mean_interval': None})
    assert 'mean interval unknown, ' in str(record_of(brief))


def test_totals_of_older_versions_have_no_lower_bounds() -> None:
    older = totals(record=TOTALS['record'] | {'early': 31, 'postponed': 4, 'cpu_is_lower_bound': True})
    del older['lower_bounds']
    assert record_of(older) == record_of(TOTALS)
