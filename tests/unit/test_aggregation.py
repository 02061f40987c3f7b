from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.aggregation import SHORTEST_WINDOW, Aggregator, MaximalRate
from gpu_tracker.sources.reading import CpuReading, RamReading, Resident, SystemReading, larger


def ram(main: Resident, descendants: Resident, combined: Resident, upper=(None, None, None)):
    return RamReading(main, descendants, combined, upper)


def test_maxima_are_kept_for_each_field_by_itself():
    aggregator = Aggregator()
    idle = CpuReading(0.0, 0.0, 1, 0)
    aggregator.add(0.0, ram(Resident(10, 7, 3), Resident(0, 0, 0), Resident(10, 7, 3)), idle, SystemReading(100, 0.0))
    aggregator.add(1.0, ram(Resident(12), Resident(5), Resident(16)), idle, SystemReading(90, 0.5))
    aggregator.add(2.0, ram(Resident(8, 2, 6), Resident(4, 4, 0), Resident(11, 6, 5)), idle, SystemReading(None, 1.0))
    assert aggregator.totals()['ram'] == {
        'main': [12, 7, 6],
        'descendants': [5, 4, 0],
        'combined': [16, 7, 5],
        'system': 100,
        'lower': {'main': [12, None, None], 'descendants': [5, None, None], 'combined': [16, None, None]},
        'upper': {'main': None, 'descendants': None, 'combined': None},
        'beside_descendants': 16,
    }


def test_a_peak_between_two_samples_counts_and_the_bounds_are_kept():
    aggregator = Aggregator()
    main = Resident(10)
    main.peak = 500
    aggregator.add(
        0.0, ram(main, Resident(0), Resident(10), (500, 0, 500)), CpuReading(0, 0, 1, 0), SystemReading(1, 0)
    )
    aggregator.add(
        1.0, ram(Resident(9), Resident(0), Resident(9), (500, 0, 500)), CpuReading(0, 0, 1, 0), SystemReading(1, 0)
    )
    totals = aggregator.totals()['ram']
    assert totals['main'] == [500, None, None]
    assert totals['upper'] == {'main': 500, 'descendants': 0, 'combined': 500}


def test_what_was_never_known_stays_unknown():
    aggregator = Aggregator()
    unknown = ram(Resident(None), Resident(None), Resident(None))
    aggregator.add(0.0, unknown, CpuReading(0.0, 0.0, 0, 0), SystemReading(None, None))
    totals = aggregator.totals()
    assert totals['ram']['main'] == [None, None, None]
    assert totals['ram']['system'] is None
    assert totals['cpu']['system'] == [None, None]
    assert totals['cpu']['main'] == [0.0, None]


def test_a_group_that_never_had_a_process_is_unknown_until_the_end():
    aggregator = Aggregator()
    aggregator.add(0.0, ram(Resident(5), Resident(0, 0, 0), Resident(5)), CpuReading(0, 0, 1, 0), SystemReading(1, 0))
    totals = aggregator.totals()['ram']
    assert totals['descendants'] == totals['lower']['descendants'] == [None, None, None]
    assert totals['beside_descendants'] is None


def counted(main: Resident, descendants: Resident, combined: Resident, given_back: int = 0):
    reading = ram(main, descendants, combined)
    reading.is_exact = True
    reading.given_back = given_back
    return reading


def estimated(size: int) -> Resident:
    """Return a size of which nothing is certain."""
    resident = Resident(size)
    resident.lower = None
    return resident


def folded(*readings: RamReading):
    aggregator = Aggregator()
    for reading in readings:
        aggregator.add_ram(reading)
    return aggregator.totals()['ram']


def test_an_estimate_stands_until_pages_are_counted():
    totals = folded(
        counted(Resident(5, 5, 0), Resident(10, 8, 2), Resident(15, 13, 2)),
        ram(Resident(5), estimated(40), estimated(45)),
    )
    assert totals['descendants'] == [40, 8, 2]
    assert totals['combined'] == [45, 13, 2]
    assert totals['lower']['descendants'] == [10, 8, 2]


def test_an_estimate_that_the_next_counting_does_not_explain_is_cut():
    totals = folded(
        counted(Resident(5, 5, 0), Resident(10, 8, 2), Resident(15, 13, 2)),
        ram(Resident(5), estimated(40), estimated(45)),
        counted(Resident(5, 5, 0), Resident(12, 9, 3), Resident(17, 14, 3)),
    )
    assert totals['descendants'] == [12, 9, 3]
    assert totals['combined'] == [17, 14, 3]


def test_an_estimate_stands_as_far_as_what_was_given_back_explains_it():
    totals = folded(
        ram(Resident(5), estimated(40), estimated(45)),
        counted(Resident(5, 5, 0), Resident(12, 9, 3), Resident(17, 14, 3), given_back=20),
    )
    assert totals['descendants'] == [32, 9, 3]
    assert totals['combined'] == [37, 14, 3]
    assert totals['lower']['descendants'] == [12, 9, 3]


def test_what_was_counted_once_is_never_taken_back():
    totals = folded(
        counted(Resident(5, 5, 0), Resident(30, 28, 2), Resident(35, 33, 2)),
        ram(Resident(5), estimated(40), estimated(45)),
        counted(Resident(5, 5, 0), Resident(12, 9, 3), Resident(17, 14, 3)),
    )
    assert totals['descendants'] == [30, 28, 3]
    assert totals['combined'] == [35, 33, 3]


def test_only_what_is_certain_of_a_peak_is_a_lower_bound():
    descendants = Resident(10, 8, 2)
    descendants.peak, descendants.lower = 60, 50
    totals = folded(ram(Resident(5), descendants, Resident(15)))
    assert totals['descendants'] == [60, 8, 2]
    assert totals['lower']['descendants'] == [50, None, None]


def test_what_was_there_at_once_with_the_most_of_the_descendants_is_remembered():
    combined = Resident(20)
    combined.peak = 26
    readings = [
        ram(Resident(15), Resident(5), Resident(20)),
        ram(Resident(10), Resident(9), combined),
        ram(Resident(90), Resident(8), Resident(98)),
    ]
    assert [folded(*readings[:count])['beside_descendants'] for count in (1, 2, 3)] == [20, 26, 26]


def test_the_same_reading_is_taken_in_once():
    reading = ram(Resident(5), Resident(3), Resident(8), (5, 3, 8))
    assert folded(reading, reading) == folded(reading)


def test_a_moment_without_processes_does_not_hide_that_the_split_of_others_is_unknown():
    aggregator = Aggregator()
    for moment, descendants in enumerate([Resident(0, 0, 0), Resident(7), Resident(0, 0, 0)]):
        reading = ram(Resident(5, 4, 1), descendants, Resident(12))
        aggregator.add(float(moment), reading, CpuReading(0, 0, 1, 0), SystemReading(1, 0))
    assert aggregator.totals()['ram']['descendants'] == [7, None, None]


def test_threads_are_the_most_of_any_one_sample():
    aggregator = Aggregator()
    nothing = ram(Resident(1), Resident(0), Resident(1))
    for moment, (main, descendants) in enumerate([(1, 5), (4, 0), (2, 3)]):
        aggregator.add(float(moment), nothing, CpuReading(0.0, 0.0, main, descendants), SystemReading(1, 0.0))
    assert aggregator.totals()['cpu']['threads'] == [4, 5, 6]


def test_the_largest_rate_is_that_of_the_busiest_window():
    rate = MaximalRate()
    for moment, count in [(0.0, 0.0), (1.0, 0.25), (2.0, 1.25), (3.0, 1.25)]:
        rate.add(moment, count)
    assert rate.largest() == 1.0
    assert rate.mean() == pytest.approx(1.25 / 3)
    assert rate.amount == 1.25


def test_a_window_is_never_shorter_than_half_a_second():
    rate = MaximalRate()
    for tick in range(11):  # all the work falls into one tenth of a second
        rate.add(tick / 10, 0.1 if tick >= 5 else 0.0)
    assert rate.largest() == pytest.approx(0.1 / SHORTEST_WINDOW)


def test_the_whole_span_is_the_window_where_it_is_shorter():
    rate = MaximalRate()
    rate.add(0.0, 0.0)
    rate.add(0.1, 0.05)
    assert rate.largest() == pytest.approx(0.5)


def test_a_rate_without_a_span_is_unknown():
    rate = MaximalRate()
    assert rate.amount is None
    assert rate.largest() is None
    rate.add(1.0, 3.0)
    assert rate.amount == 0.0
    assert rate.largest() is None


@given(st.lists(st.tuples(st.floats(0.01, 2.0), st.floats(0.0, 1.0)), min_size=1, max_size=60))
def test_the_largest_rate_is_never_below_the_mean_of_a_whole_number_of_windows_nor_above_the_fastest_step(steps):
    rate = MaximalRate()
    now = count = 0.0
    rate.add(now, count)
    fastest = 0.0
    for seconds, share in steps:
        now += seconds
        count += seconds * share
        fastest = max(fastest, share)
        rate.add(now, count)
    largest = rate.largest()
    assert largest is not None
    assert largest <= fastest + 1e-9


@given(st.lists(st.floats(0.001, 0.4), min_size=1, max_size=500))
def test_memory_does_not_grow_with_the_number_of_samples(pauses):
    rate = MaximalRate()
    now = 0.0
    moments = []
    for pause in pauses:
        now += pause
        moments.append(now)
        rate.add(now, now)
    within_window = sum(now - moment < SHORTEST_WINDOW for moment in moments)
    assert len(rate._samples) <= within_window + 1


def test_the_larger_of_two_values_of_which_one_is_unknown_is_the_other():
    assert larger(None, 3) == 3
    assert larger(3, None) == 3
    assert larger(None, None) is None
    assert larger(2, 3) == 3
