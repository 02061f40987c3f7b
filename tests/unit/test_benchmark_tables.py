"""The pure parts of the benchmarks: their arithmetic, their tables, and where the tables go."""

import pytest
from benchmarks import cost, effect, report
from benchmarks.arithmetic import mean_interval, median_of, ratio_of
from benchmarks.comparison_page import replace_block
from benchmarks.peers import OURS, THE_OLDER, Report
from benchmarks.results import Gap, Results
from benchmarks.tables import Table, fraction, number
from benchmarks.targets import target_table

PAGE = 'Head\n\n.. benchmarks-begin\n\nold\n\n.. benchmarks-end\n\nTail\n'


def results_of(ours, theirs, row=cost.SMALL.name, kind='cpu a sample', part=cost.PART):
    results = Results(versions={OURS.name: '6', THE_OLDER.name: '5.0.1'})
    for number_, values in enumerate(zip(ours, theirs, strict=True)):
        for peer, value in zip((OURS, THE_OLDER), values, strict=True):
            results.add(part, row, peer.name, number_, {kind: value})
    return results


def test_a_ratio_is_the_median_of_the_ratios_of_the_same_rounds():
    assert median_of({0: 1.0, 1: 5.0, 2: 3.0}) == 3
    assert ratio_of({0: 10.0, 1: 90.0, 2: 40.0}, {0: 1.0, 1: 3.0, 2: 2.0}) == 20
    assert ratio_of({0: 10.0, 1: 7.0}, {0: 2.0}) == 5
    assert ratio_of({0: 10.0}, {}) is None


def test_an_interval_is_that_of_students_distribution():
    interval = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert interval.mean == 3
    assert interval.high - 3 == pytest.approx(2.776 * 2.5**0.5 / 5**0.5, rel=0.01)
    assert mean_interval([1.0, 2.0]) is None


@pytest.mark.parametrize(
    ('values', 'harmless'),
    [
        ([0.1, -0.1, 0.2, -0.2], True),
        ([0.2, 0.21, 0.22, 0.23], True),
        ([1.0, 1.1, 1.2, 1.3], False),
        ([-40.0, 30.0, 20.0, -10.0], None),
    ],
)
def test_added_time_is_harmless_unless_it_is_surely_there_or_unclear(values, harmless):
    assert mean_interval(values).is_harmless(0.5) is harmless


def test_the_period_of_a_run_has_one_interval_less_than_samples():
    assert Report(samples=11, seconds_sampled=2.0).period == pytest.approx(0.2)
    assert Report(samples=1, seconds_sampled=0.0).period is None


@pytest.mark.parametrize(('value', 'text'), [(1234.5, '1,234'), (123.4, '123'), (0.01234, '0.0123'), (7.0, '7.00')])
def test_a_number_has_three_digits(value, text):
    assert number(value) == text


def test_a_ratio_is_written_as_targets_are():
    assert fraction(1 / 40) == '1/40.0'
    assert fraction(1.5) == '1.50'


def test_a_table_is_a_simple_table_of_restructuredtext():
    table = Table('Title', ['what', 'ours'], [['a', '1'], ['long name', '2']], notes=['a note'])
    assert table.render().splitlines() == [
        *('**Title**', '', '=========  ===='),
        *('what       ours', '=========  ====', 'a          1', 'long name  2', '=========  ===='),
        *('', '* a note'),
    ]


def test_a_target_compares_medians_of_the_same_run():
    row = target_table(results_of([0.001, 0.001, 0.001], [0.05, 0.05, 0.05])).rows[0]
    assert row[1:] == ['50.0', '1.00', '1/50.0', '≤ 1/40.0', 'yes']
    row = target_table(results_of([0.001], [0.02])).rows[0]
    assert row[3:] == ['1/20.0', '≤ 1/40.0', '**no**']


def test_added_time_is_paired_by_round():
    results = results_of([1.1, 2.2], [1.0, 2.0], row='computes', kind='seconds', part=effect.PART)
    for number_, seconds in enumerate([1.0, 2.0]):
        results.add(effect.PART, 'computes', effect.PLAIN, number_, {'seconds': seconds})
    added = effect.added_percent(results, 'computes', OURS.name)
    assert added == {0: pytest.approx(10), 1: pytest.approx(10)}


def test_results_are_the_same_after_saving(tmp_path):
    results = results_of([1.0], [2.0])
    results.gaps.append(Gap(cost.PART, cost.SMALL.name, 'nvitop', 'a reason'))
    results.save(tmp_path / 'results')
    assert Results.load(tmp_path / 'results') == results
    assert '— nvitop: a reason' in report.text_of(results)


def test_only_the_block_of_the_page_is_replaced():
    page = replace_block(PAGE, 'new')
    assert page == PAGE.replace('old', 'new')
    assert replace_block(page, 'new') == page


@pytest.mark.parametrize('page', ['no markers', PAGE + PAGE, '.. benchmarks-end\n.. benchmarks-begin\n'])
def test_a_page_without_the_block_is_left_alone(page):
    with pytest.raises(ValueError, match='benchmarks-begin'):
        replace_block(page, 'new')
