"""The benchmark of short-lived children without a process: the truth, and the tables made from given figures."""

import re

import pytest
from benchmarks import children, children_cost
from benchmarks.children import OURS_BY_COMMAND, OURS_BY_LIBRARY, PART, WAYS, random_delays
from benchmarks.children_tables import children_tables, children_targets
from benchmarks.peers import OURS, THE_OLDER
from benchmarks.report import text_of
from benchmarks.results import Gap, Results
from benchmarks.session import FailedError
from benchmarks.short_children import CASES, Case, Shared, measured_sizes, sizes_of_library, true_sizes

ALONE, EIGHT = Case(0.3, 1, 1.0), Case(0.3, 8, 1.0)
LIBRARY, COMMAND = OURS_BY_LIBRARY.name, OURS_BY_COMMAND.name
OLDER = next(way.name for way in WAYS if way.peer is THE_OLDER and not way.library)
NOTES = 'child 1000 0.300100\nchild 2000 0.300200\nstarter 100\n'


@pytest.fixture
def results():
    return Results(versions={OURS.name: '6', THE_OLDER.name: '5.0.1'})


def add_runs(results, case, way, measured, group='descendants'):
    """Add runs in which 100 bytes were true; None: the tool did not know."""
    for number, size in enumerate(measured):
        figures = {f'true {group}': 100.0, 'life': case.life}
        results.add(PART, case.row, way, number, figures | ({} if size is None else {f'measured {group}': size}))


def test_a_row_tells_lives_number_and_interval():
    assert ALONE.row == '0.3 s, one after the other, --st=1'
    assert Case(0.03, 8, 10.0).row == '0.03 s, eight at once, --st=10'
    assert children_cost.IDLE.row == 'none, a process that sleeps, --st=1'
    assert len({case.row for case in CASES}) == len(CASES) == 30


def test_children_grow_as_fast_as_two_cores_can_do():
    assert [Case(life, 1, 1).kilobytes for life in (0.03, 0.1, 0.3, 3)] == [15_000, 50_000, 150_000, 150_000]
    assert [Case(life, 8, 1).kilobytes for life in (0.03, 0.1, 0.3, 3)] == [3_000, 10_000, 30_000, 50_000]


def test_the_truth_is_the_sum_of_marks_less_what_is_in_common():
    by_command = true_sizes(NOTES, 2, Shared(descendants=1024, combined=2048), None)
    assert by_command == {
        'true descendants': 3000 * 1024 - 1024,
        'true combined': 3100 * 1024 - 2048,
        'life': 0.3002,
    }
    by_library = true_sizes(NOTES, 2, Shared(descendants=1024, combined=2048), 10_000_000.0)
    assert by_library['true descendants'] == 3100 * 1024 - 1024
    assert by_library['true combined'] == 3100 * 1024 - 2048 + 10_000_000


def test_a_run_without_all_children_has_no_truth():
    with pytest.raises(FailedError, match=r'^2 of 8 children have grown$'):
        true_sizes(NOTES, 8, Shared(0, 0), None)


def test_what_a_tool_does_not_know_is_no_size():
    assert measured_sizes(None, 0) == {'measured combined': 0.0}
    sizes, main = sizes_of_library({'descendants': 5, 'combined': None, 'main': 7})
    assert sizes == {'measured descendants': 5.0}
    assert main == 7.0


@pytest.mark.parametrize(('interval', 'width'), [(0.1, 0.1), (1.0, 1.0), (10.0, 1.0)])
def test_children_start_at_moments_that_are_spread_evenly_and_the_same_each_time(interval, width):
    case = Case(0.3, 1, interval)
    delays = random_delays(case, OURS_BY_LIBRARY, 50)
    assert delays == random_delays(case, OURS_BY_COMMAND, 50)
    assert delays != sorted(delays)
    assert [int((delay - 0.5) / width * 50) for delay in sorted(delays)] == list(range(50))


def test_a_ratio_needs_both_sizes_of_a_run():
    assert children.ratios({0: 90.0, 1: 50.0, 3: 1.0}, {0: 100.0, 1: 100.0, 2: 100.0}) == [0.5, 0.9]


def test_ratios_are_shown_from_the_smallest_to_the_largest(results):
    add_runs(results, ALONE, LIBRARY, [float(size) for size in range(50, 100)])
    add_runs(results, ALONE, COMMAND, [95.0, None, 97.0])
    add_runs(results, EIGHT, LIBRARY, [None, None])
    add_runs(results, ALONE, OLDER, [0.0, 70.0])
    results.gaps.append(Gap(PART, EIGHT.row, OLDER, 'the reason'))
    table = children_tables(results)[0]
    assert table.title == 'Peak memory of short-lived children, descendants: measured / true'
    assert table.columns == ['children that live', '--st', LIBRARY, COMMAND, OLDER]
    assert table.rows == [
        [
            *('0.3 s, one after the other', '1', '0.50 0.54 0.74 0.99', '0.95 0.95 0.96 0.97 (1 N/A)'),
            '0.00 0.00 0.35 0.70',
        ],
        ['0.3 s, eight at once', '1', 'N/A', '—', '—'],
    ]
    assert 'largest of 50 runs of ours and 2 of others' in table.text
    assert table.notes == [f'— {OLDER}, 0.3 s, eight at once, --st=1: the reason']
    assert children_tables(results)[1].rows == []


def test_children_that_were_held_up_are_noted(results):
    for number, life in enumerate([0.3, 0.4, 0.5]):
        figures = {'true combined': 100.0, 'measured combined': 99.0, 'life': life}
        results.add(PART, ALONE.row, COMMAND, number, figures)
    assert children_tables(results)[0].notes == [f'{ALONE.row}: they lived 0.4 s, since the machine was busy']
    assert children_tables(results)[1].rows == [['0.3 s, one after the other', '1', '0.99 0.99 0.99 0.99']]


def test_the_cost_is_a_share_of_a_core_with_its_range(results):
    for number, share in enumerate([0.004, 0.002, 0.003]):
        costs = {'share': share, 'own share': share, 'start': 0.05}
        results.add(children_cost.PART, children_cost.IDLE.row, COMMAND, number, costs)
    results.add(children_cost.PART, ALONE.row, LIBRARY, 0, {'share': 0.006, 'start': 0.04})
    assert children_tables(results)[2].rows == [
        ['none, a process that sleeps', '1', COMMAND, '0.300', '0.200', '0.400', '0.300', '50.0', '3'],
        ['0.3 s, one after the other', '1', LIBRARY, '0.600', '0.600', '0.600', '—', '40.0', '1'],
    ]


def test_the_worst_run_decides_on_a_target_and_an_unknown_size_is_none(results):
    add_runs(results, ALONE, LIBRARY, [95.0, 91.0])
    add_runs(results, ALONE, COMMAND, [96.0, 102.0])
    add_runs(results, ALONE, OLDER, [1.0])
    add_runs(results, EIGHT, COMMAND, [95.0, None])
    results.add(children_cost.PART, children_cost.IDLE.row, COMMAND, 0, {'share': 0.0024})
    results.add(children_cost.PART, ALONE.row, COMMAND, 0, {'share': 0.011})
    results.add(children_cost.PART, EIGHT.row, COMMAND, 0, {'share': 0.011})
    alone = 'children of 0.3 s and more, one after the other'
    assert children_targets(results) == [
        [f'smallest measured / true, {alone}', '0.010', '0.910', '—', '≥ 0.9', 'yes'],
        ['smallest measured / true, the same eight at once', '—', '0.000', '—', '≥ 0.9', '**no**'],
        ['largest measured / true of short-lived children', '0.010', '1.020', '—', '≤ 1.01', '**no**'],
        ['sampler, an idle tree at --st=1 (% of a core)', '—', '0.240', '—', '≤ 0.25', 'yes'],
        [f'sampler, {alone} (%)', '—', '1.10', '—', '≤ 1', '**no**'],
        ['sampler, other short-lived children (%)', '—', '1.10', '—', '≤ 2.5', 'yes'],
    ]
    assert '**Targets**' in text_of(results)


def test_only_rows_that_are_measured_anew_are_forgotten(results):
    add_runs(results, ALONE, LIBRARY, [90.0])
    add_runs(results, EIGHT, LIBRARY, [90.0])
    results.gaps += [Gap(PART, 'all', 'denet', 'no network'), Gap(PART, ALONE.row, 'denet', 'a reason')]
    results.forget(PART, re.compile('eight'))
    assert results.rows(PART) == [ALONE.row]
    assert results.gaps == [Gap(PART, ALONE.row, 'denet', 'a reason')]
    results.forget(PART)
    assert (results.figures, results.gaps) == ([], [])
