from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.resources.rates import SHORTEST_WINDOW, MaximalRate


def largest(samples: list[tuple[float, ...]]) -> float | None:
    rate = MaximalRate()
    for now, count, *begun in samples:
        rate.add(now, count, *begun)
    return rate.largest()


def test_a_short_burst_before_a_long_silence_is_a_part_of_one_window() -> None:
    # Nothing is sampled while all processes of a tree have ended.
    assert largest([(0.0, 0.0), (0.2, 0.2), (0.4, 0.4), (10.0, 0.4)]) == pytest.approx(0.8)


def test_a_span_shorter_than_a_window_is_taken_whole() -> None:
    assert largest([(0.0, 0.0), (0.1, 0.1), (0.2, 0.1)]) == pytest.approx(0.5)
    assert largest([(0.0, 0.0)]) is None


def test_a_sample_that_took_its_time_makes_no_rate_too_large() -> None:
    # The first was delayed after it was read: what was used meanwhile belongs to the window.
    assert largest([(0.3, 0.0, 0.0), (1.0, 1.0, 1.0), (2.0, 1.0, 2.0)]) == pytest.approx(1.0)


@given(st.lists(st.tuples(st.floats(0.01, 2), st.floats(0, 1), st.floats(0, 0.9)), min_size=2, max_size=50))
def test_never_more_than_a_core_that_is_never_more_than_busy(steps: list[tuple[float, float, float]]) -> None:
    now = count = 0.0
    samples = []
    for passed, busy, late in steps:
        # The counter was read at an unknown moment between the beginning and the end of the sample.
        samples.append((now + late * passed, count, now))
        now += passed
        count += passed * busy
    if samples[-1][0] - samples[0][0] >= SHORTEST_WINDOW:
        assert largest(samples) <= 1.0 + 1e-9


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
