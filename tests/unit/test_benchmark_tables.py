"""The pure parts of the benchmarks: their arithmetic, their tables, and where the tables go."""

import json
import re

import pytest
from benchmarks import before, cost, effect, inventory, listings, report
from benchmarks.arithmetic import mean_interval, median_interval, median_of, ratio_of
from benchmarks.comparison_page import replace_block
from benchmarks.inventory_tables import fastest_rows, inventory_tables
from benchmarks.listings import PICK, SHOW, Machine, commands
from benchmarks.peers import BEFORE, OURS, THE_OLDER, Report, Run
from benchmarks.results import Gap, Results
from benchmarks.session import FailedError, Session
from benchmarks.tables import Table, fraction, number
from benchmarks.targets import target_table

MACHINE = Machine(gpus=3, free=frozenset({0, 2}), pids=frozenset({41, 42}))
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


@pytest.mark.parametrize(
    ('number_', 'interval'), [(5, None), (6, (1, 6)), (8, (1, 8)), (9, (2, 8)), (10, (2, 9)), (20, (6, 15))]
)
def test_the_interval_of_a_median_is_that_of_the_sign_test(number_, interval):
    assert median_interval([*range(number_, 0, -1)]) == interval


def test_a_row_is_worse_only_where_the_whole_interval_is():
    results = Results(versions={BEFORE.name: 'abc1234'})
    for row, ratios in {
        'faster': [0.9, 0.8, 0.7, 0.9, 1.0, 1.04],
        'slower': [1.1, 1.2, 1.3, 1.06, 1.4, 1.5],
        'noisy': [1.0, 1.0, 1.0, 1.0, 1.0, 1.2],
        'too few': [1.0, 3.0],
    }.items():
        for number_, ratio in enumerate(ratios):
            results.add(before.PART, row, BEFORE.name, number_, {'cpu a sample': 0.001})
            results.add(before.PART, row, OURS.name, number_, {'cpu a sample': 0.001 * ratio})
    results.gaps.append(Gap(before.PART, 'noisy', OURS.name, 'a reason'))
    table = before.before_table(results)
    assert table.title == 'CPU milliseconds a sample, abc1234 and this checkout'
    assert table.rows == [
        ['faster', '1.00', '0.900', '0.900', '0.700 to 1.040', 'no', '6'],
        ['slower', '1.00', '1.25', '1.250', '1.060 to 1.500', '**yes**', '6'],
        ['noisy', '1.00', '1.00', '1.000', '1.000 to 1.200', 'unclear', '6'],
        ['too few', '1.00', '2.00', '2.000', '—', '—', '2'],
    ]
    assert table.notes == ['— gpu-tracker, noisy: a reason']


def test_the_period_of_a_run_has_one_interval_less_than_samples():
    assert Report(samples=11, seconds_sampled=2.0).period == pytest.approx(0.2)
    assert Report(samples=1, seconds_sampled=0.0).period is None


@pytest.mark.parametrize(('interval', 'seconds'), [('0.1000 s', 0.4), ('unknown', None)])
def test_the_record_of_the_sampling_is_read(tmp_path, interval, seconds):
    usage = {
        'max_ram': {'descendants': {'total_rss': None}, 'combined': {'total_rss': 7}},
        'cpu_utilization': {'combined': {'mean_sum_percent': 50}},
        'compute_time': {'time': 3},
    }
    (tmp_path / 'result.json').write_text(json.dumps(usage))
    record = f'Sampling: 5 samples, 0 late, 0 skipped, mean interval {interval}, 0.0250 CPU seconds\n'
    report_ = OURS.report(Run([], 0.1, tmp_path), record)
    assert report_ == Report(7, None, 1.5, 0.025, 5, None if seconds is None else pytest.approx(seconds))


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


def inventory_of(row, **seconds):
    """Return results of two rounds with the seconds of ours, of rivals and of floors, by a part of their names."""
    results = Results(versions={OURS.name: '6'})
    for word, values in seconds.items():
        (command,) = [command for command in commands(row) if word.rstrip('_') in command.name]
        results.add(inventory.PART, row, command.name, 0, {'driver calls': 7})
        for number_, value in enumerate(values):
            results.add(inventory.PART, row, command.name, number_, {'seconds': value, 'cpu': value / 2})
    return results


def test_commands_are_compared_with_ours_in_the_same_rounds():
    results = inventory_of(PICK, tracker=[0.1, 0.2], nvisel=[0.2, 0.8])
    results.gaps.append(Gap(inventory.PART, 'all', 'nvgpu 0.9.0', 'no network'))
    table = inventory_tables(results)[1]
    assert table.columns == ['command', 'time', 'CPU time', 'driver calls', 'rounds']
    assert table.rows == [
        ['gpu-tracker available', '150', '75.0', '7', '2'],
        ['nvgpu available', '—', '—', '—', '—'],
        ['nvisel', '500 (3.00)', '250 (3.00)', '7', '2'],
        ['nvidia-smi -L; nvidia-smi (the stand-in)', '—', '—', '—', '—'],
    ]
    assert table.notes == ['— nvgpu 0.9.0: no network']


def test_a_command_that_has_failed_once_has_no_figures():
    results = inventory_of(SHOW, tracker=[0.1, 0.1], gpustat=[0.01], nvgpu=[0.5, 0.5])
    results.gaps.append(Gap(inventory.PART, SHOW, 'gpustat --json', 'no GPUs as JSON'))
    table = inventory_tables(results)[0]
    assert table.rows[1] == ['gpustat --json', '—', '—', '—', '—']
    assert table.notes == ['— gpustat --json: no GPUs as JSON']
    assert fastest_rows(results)[0] == [
        *('time of gpu-tracker gpus --json (ms)', '—', '100', '—', '< 500 (nvgpu list)', 'yes')
    ]


def test_ours_has_to_be_faster_than_the_fastest_that_competes():
    results = inventory_of(PICK, tracker=[0.1, 0.1], nvisel=[0.09, 0.09], nvgpu=[0.5, 0.5], import_=[0.01, 0.01])
    assert [row[2:] for row in fastest_rows(results)] == [
        ['100', '—', '< 90.0 (nvisel)', '**no**'],
        ['50.0', '—', '< 45.0 (nvisel)', '**no**'],
    ]


GPUS = [{'index': 0, 'pids': [41]}, {'index': 1}, {'index': 2, 'pids': [42]}]


@pytest.mark.parametrize(
    ('check', 'answer'),
    [
        (listings.check_json, json.dumps({'gpus': GPUS})),
        (listings.check_table, '0 [ ]\n1 \x1b[34m[~]\x1b[0m 41,42\n2 [ ]'),
        (listings.check_free, '2,0\n'),
        (listings.check_nothing, ''),
    ],
)
def test_a_right_answer_passes(check, answer):
    check(answer, MACHINE)


@pytest.mark.parametrize(
    ('check', 'answer', 'reason'),
    [
        (listings.check_json, 'Traceback', 'no GPUs as JSON'),
        (listings.check_json, '[]', 'no GPUs as JSON'),
        (listings.check_json, '{"gpus": []}', 'GPUs none'),
        (listings.check_json, json.dumps({'gpus': GPUS[:2]}), 'GPUs 0,1'),
        (listings.check_json, json.dumps({'gpus': [*GPUS[:2], {'index': 2}]}), '1 of 2 processes are not there'),
        (listings.check_table, '0 [ ]\n1 [~] 41,42\n2 [~]', '1 GPUs are free'),
        (listings.check_table, '0 [ ]\n2 [ ] 41,42', '0 GPUs are in use'),
        (listings.check_free, '\n', 'GPUs none'),
        (listings.check_free, '0\n', 'GPUs 0'),
        (listings.check_list, 'GPU 0: NVIDIA H100 (UUID: GPU-1)', 'GPUs 0'),
        (listings.check_nothing, 'something\n', 'something'),
    ],
)
def test_a_wrong_answer_is_no_figure(check, answer, reason):
    with pytest.raises(FailedError, match=f'its answer is wrong: {reason}'):
        check(answer, MACHINE)


def test_measures_alternate_and_one_that_fails_is_left_out():
    taken = []

    def measure(name):
        taken.append(name)
        if name == 'b' and len(taken) > 2:
            raise FailedError('a reason')
        return {'seconds': 1.0}

    session = Session([], {}, Results(), None, quick=False)
    measures = {name: (lambda name=name: measure(name)) for name in 'abc'}
    assert session.take_turns('part', 'row', 3, measures) == ['a', 'c']
    assert ''.join(taken) == 'abc' + 'bca' + 'ac'
    assert session.results.gaps == [Gap('part', 'row', 'b', 'a reason')]
    assert session.results.rounds('part', 'row', 'b', 'seconds') == {0: 1.0}


def test_only_rows_that_were_asked_for_are_wanted():
    assert Session([], {}, Results(), None, quick=False).wants('any')
    session = Session([], {}, Results(), None, quick=False, rows=re.compile('st=1$'))
    assert [row for row in ('a, --st=1', 'a, --st=10', 'a, --st=0.1') if session.wants(row)] == ['a, --st=1']
