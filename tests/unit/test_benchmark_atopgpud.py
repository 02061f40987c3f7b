"""The tables of the daemon that atop reads, made from given figures."""

import pytest
from benchmarks.arithmetic import percentile
from benchmarks.atopgpud import FLOOR, GREEDY, PACED, PART
from benchmarks.atopgpud_tables import atopgpud_tables
from benchmarks.peers import OURS
from benchmarks.report import text_of
from benchmarks.results import Gap, Results

NO_CLIENT, ONE_CLIENT = PACED[0].name, PACED[1].name
AT_ONCE = GREEDY[0].name


def results_of(row, ours, floor=()):
    """Return results with the figures of each round."""
    results = Results(versions={OURS.name: '6'})
    for peer, rounds in ((OURS.name, ours), (FLOOR, floor)):
        for number, figures in enumerate(rounds):
            results.add(PART, row, peer, number, figures)
    return results


@pytest.mark.parametrize(
    ('values', 'percent', 'value'),
    [([3.0, 1.0, 2.0], 50, 2.0), ([1.0, 2.0], 50, 1.0), ([1.0, 2.0], 99, 2.0), ([5.0], 50, 5.0), ([5.0], 0, 5.0)],
)
def test_a_percentile_is_one_of_the_values(values, percent, value):
    assert percentile(values, percent) == value


def test_a_percentile_of_many_values_is_that_of_the_nearest_rank():
    values = [float(number) for number in range(1, 1001)]
    assert percentile(values, 50) == 500
    assert percentile(values, 99) == 990


def test_answers_are_compared_in_the_same_rounds():
    ours = [{'cpu': 0.5, 'answers': 1000.0, 'cpu an answer': 50e-6}, {'cpu': 0.5, 'answers': 500.0}]
    floor = [{'cpu': 0.5, 'answers': 2000.0, 'cpu an answer': 20e-6}, {'cpu': 0.5, 'answers': 1500.0}]
    table = atopgpud_tables(results_of(AT_ONCE, ours, floor))[0]
    assert table.columns == ['clients', 'answers', 'CPU (µs)', 'asyncio: answers', 'asyncio: CPU (µs)', 'rounds']
    assert table.rows == [
        ['1 connection, abstract socket', '750', '50.0', '1,750 (2.50)', '20.0 (0.400)', '2'],
    ]


def test_latencies_are_milliseconds_of_loads_with_clients():
    results = results_of(ONE_CLIENT, [{'cpu': 0.1, 'p50': 0.0002, 'p99': 0.004}], [{'p50': 0.0001, 'p99': 0.001}])
    results.add(PART, NO_CLIENT, OURS.name, 0, {'cpu': 0.01})
    table = atopgpud_tables(results)[1]
    assert table.columns == ['clients', 'p50', 'p99', 'asyncio: p50', 'asyncio: p99', 'rounds']
    assert table.rows == [['1 client', '0.200', '4.00', '0.100 (0.500)', '1.00 (0.250)', '1']]


def test_the_floor_is_compared_with_what_the_daemon_uses_without_the_driver():
    ours = {'cpu': 0.010, 'driver cpu': 0.006, 'own cpu': 0.004, 'driver calls': 64.0, 'rss': 30e6, 'pss': 20e6}
    floor = {'cpu': 0.001, 'driver cpu': 0.0, 'own cpu': 0.001, 'driver calls': 0.0, 'rss': 15e6, 'pss': 15e6}
    _, _, cpu, memory = atopgpud_tables(results_of(NO_CLIENT, [ours], [floor]))
    assert cpu.columns == ['clients', 'all', 'simulated driver', 'without it', 'driver calls', 'asyncio', 'rounds']
    assert cpu.rows == [['no client', '10.0', '6.00', '4.00', '64.0', '1.00 (0.250)', '1']]
    assert memory.columns == ['clients', 'RSS', 'PSS', 'asyncio: RSS', 'asyncio: PSS', 'rounds']
    assert memory.rows == [['no client', '30.0', '20.0', '15.0 (0.500)', '15.0 (0.750)', '1']]


def test_what_has_failed_has_dashes_and_the_reason_once():
    results = results_of(ONE_CLIENT, [], [{'cpu': 0.001, 'p50': 0.001, 'p99': 0.001}])
    results.gaps.append(Gap(PART, ONE_CLIENT, OURS.name, 'the reason'))
    _, latencies, cpu, _ = atopgpud_tables(results)
    assert latencies.rows == [['1 client', '—', '—', '1.00', '1.00', '1']]
    assert latencies.notes == ['— gpu-tracker, 1 client: the reason']
    assert cpu.rows == [['1 client', '—', '—', '—', '—', '1.00', '1']]
    assert cpu.notes == []


def test_the_report_has_the_tables_only_where_there_are_figures():
    assert 'atopgpud' not in text_of(results_of(NO_CLIENT, []))
    text = text_of(results_of(NO_CLIENT, [{'cpu': 0.01, 'rss': 30e6}]))
    assert '**atopgpud: memory (MB)**' in text
    assert '**atopgpud: answers a second**' not in text


def test_no_two_loads_have_the_same_name():
    names = [load.name for load in (*PACED, *GREEDY)]
    assert len(names) == len(set(names))
