from __future__ import annotations

import math
from array import array
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.recording.reading.figures import (
    Counter,
    Maxima,
    Steps,
    Weighted,
    edges,
    of_folded,
    of_unfinished,
    peak,
)
from gpu_tracker.recording.reading.model import Bounded

UNKNOWN = math.nan


def counter(times: list[float], values: list[float]) -> Counter:
    return Counter(array('d', times), array('d', values))


def grown(found: Counter, start: float, stop: float) -> Bounded:
    return found.between(start, stop, edges(found.times, start, stop))


@pytest.mark.parametrize(
    ('start', 'stop', 'expected'),
    [
        (1.0, 3.0, Bounded(6.0, 6.0, 6.0)),
        (0.5, 2.5, Bounded(4.0, 0.0, 8.0)),
        (2.25, 2.75, Bounded(3.0, 0.0, 6.0)),
        (2.0, 2.0, Bounded(0.0, 0.0, 0.0)),
        (2.5, 4.5, Bounded(3.0, 0.0, None)),
        (-1.0, 1.0, Bounded(2.0, 2.0, None)),
        (5.0, 6.0, Bounded(None, 0.0, None)),
        (-2.0, -1.0, Bounded(None, 0.0, None)),
    ],
)
def test_a_counter_is_read_off_between_samples_with_what_is_certain(
    start: float, stop: float, expected: Bounded
) -> None:
    assert grown(counter([0, 1, 2, 3, 4], [0, 2, 2, 8, 8]), start, stop) == Bounded(
        *(
            pytest.approx(value) if value is not None else None
            for value in (expected.value, expected.lower, expected.upper)
        )
    )


def test_one_sample_shows_no_growth() -> None:
    assert grown(counter([1.0], [5.0]), 0.0, 2.0) == Bounded(None, 0.0, None)


def test_without_samples_nothing_is_known() -> None:
    assert grown(counter([], []), 0.0, 2.0) == Bounded(None, 0.0, None)


def test_unknown_values_of_a_counter_are_not_there() -> None:
    found = counter([0, 1, 2, 3], [0, UNKNOWN, UNKNOWN, 3])
    assert list(found.times) == [0.0, 3.0]
    assert grown(found, 1.0, 2.0) == Bounded(pytest.approx(1.0), 0.0, 3.0)


def test_a_counter_that_falls_has_stood_still() -> None:
    assert grown(counter([0, 1, 2, 3], [0, 5, 4, 6]), 1.0, 3.0) == Bounded(1.0, 1.0, 1.0)


def test_counters_that_are_known_at_all_samples_share_their_times() -> None:
    times = array('d', [0, 1])
    assert Counter(times, array('d', [0, 1])).times is times


moments = st.lists(st.integers(0, 1000), min_size=1, max_size=30, unique=True).map(sorted)


@given(
    times=moments,
    growth=st.lists(st.integers(0, 50), min_size=30, max_size=30),
    cuts=st.lists(st.floats(-10, 1010), min_size=2, max_size=8),
)
def test_the_value_is_between_its_bounds_and_parts_are_not_more_than_the_whole(
    times: list[int], growth: list[int], cuts: list[float]
) -> None:
    values = list(accumulate(growth))[: len(times)]
    found = counter(list(map(float, times)), list(map(float, values)))
    cuts = sorted(cuts)
    whole = grown(found, cuts[0], cuts[-1])
    parts = [grown(found, start, stop) for start, stop in pairwise(cuts)]
    for one in (whole, *parts):
        assert one.lower is not None
        assert one.lower >= 0
        assert one.upper is None or one.lower <= one.upper
        if one.value is not None:
            assert one.lower <= one.value
            assert one.upper is None or one.value <= one.upper
    assert sum(part.lower for part in parts) <= whole.lower
    assert sum(part.value or 0 for part in parts) <= (whole.value or 0) + 1e-6
    if whole.upper is not None:
        assert all(part.upper is not None and part.upper <= whole.upper for part in parts)


@given(
    use=st.lists(st.integers(0, 9), min_size=20, max_size=20),
    sampled=st.sets(st.integers(0, 20), min_size=2),
    span=st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted),
)
def test_the_truth_is_between_the_bounds(use: list[int], sampled: set[int], span: list[int]) -> None:
    truth = [0, *accumulate(use)]
    times = sorted(sampled)
    start, stop = span
    one = grown(counter([float(t) for t in times], [float(truth[t]) for t in times]), float(start), float(stop))
    assert one.lower <= truth[stop] - truth[start]
    assert one.upper is None or truth[stop] - truth[start] <= one.upper


def test_calls_that_were_folded_have_their_share_of_the_time() -> None:
    assert of_folded(Bounded(8.0, 6.0, 10.0), 0.25) == Bounded(2.0, 0.0, 10.0)
    assert of_folded(Bounded(8.0, 6.0, 10.0), 3.0) == Bounded(8.0, 0.0, 10.0)
    assert of_folded(Bounded(None, 0.0, None), 0.25) == Bounded(None, 0.0, None)


def test_what_has_not_ended_has_a_lower_bound_only() -> None:
    assert of_unfinished(Bounded(8.0, 6.0, 10.0)) == Bounded(None, 6.0, None)


@given(
    values=st.lists(st.one_of(st.just(UNKNOWN), st.integers(-5, 1000).map(float)), max_size=300).map(
        lambda some: some * 40
    ),
    span=st.tuples(st.integers(-2, 12_100), st.integers(-2, 12_100)),
)
def test_the_largest_of_a_part_is_that_of_all_its_values(values: list[float], span: tuple[int, int]) -> None:
    first, last = span
    known = [value for value in values[max(first, 0) : max(last + 1, 0)] if not math.isnan(value)]
    assert Maxima(values).largest(first, last) == max(known, default=None)


def steps(*values: float) -> Steps:
    return Steps(array('d', range(len(values))), array('d', values))


@pytest.mark.parametrize(
    ('start', 'stop', 'expected'),
    [
        (0.0, 3.0, Weighted(pytest.approx(50.0), 1.0, 3)),
        (0.5, 1.5, Weighted(pytest.approx(50.0), 1.0, 2)),
        (1.75, 2.25, Weighted(pytest.approx(75.0), 1.0, 2)),
        (1.2, 1.4, Weighted(pytest.approx(100.0), 1.0, 1)),
        (2.0, 3.0, Weighted(pytest.approx(50.0), 1.0, 1)),
        (2.5, 4.0, Weighted(pytest.approx(50.0), pytest.approx(1 / 3), 1)),
        (-1.0, 1.0, Weighted(0.0, 0.5, 1)),
        (3.0, 4.0, Weighted(None, 0.0, 0)),
        (-2.0, 0.0, Weighted(None, 0.0, 0)),
        (1.5, 1.5, Weighted(None, 0.0, 0)),
    ],
)
def test_a_mean_is_weighted_by_the_time_that_each_value_is_of(start: float, stop: float, expected: Weighted) -> None:
    assert steps(7.0, 0.0, 100.0, 50.0).between(start, stop) == expected


def test_unknown_values_are_left_out_of_a_mean_and_said() -> None:
    assert steps(0.0, 10.0, UNKNOWN, 30.0).between(0.0, 3.0) == Weighted(20.0, pytest.approx(2 / 3), 2)
    assert steps(0.0, 10.0, UNKNOWN, 30.0).between(1.1, 1.9) == Weighted(None, 0.0, 0)
    assert steps().between(0.0, 1.0) == Weighted(None, 0.0, 0)


@given(
    values=st.lists(st.one_of(st.just(UNKNOWN), st.floats(0, 800)), min_size=1, max_size=20),
    span=st.tuples(st.floats(-3, 25), st.floats(-3, 25)).map(sorted),
)
def test_a_mean_lies_between_the_smallest_and_the_largest_value(values: list[float], span: list[float]) -> None:
    found = steps(*values).between(*span)
    known = [value for value in values[1:] if not math.isnan(value)]
    assert 0.0 <= found.coverage <= 1.0
    assert 0 <= found.samples <= len(known)
    if found.mean is not None:
        assert min(known) - 1e-3 <= found.mean <= max(known) + 1e-3


@pytest.mark.parametrize(
    ('before', 'after', 'sampled', 'expected'),
    [
        (10.0, 20.0, 15.0, Bounded(20.0, 20.0, 20.0)),
        (20.0, 20.0, 15.0, Bounded(None, 15.0, 20.0)),
        (20.0, 20.0, 20.5, Bounded(20.0, 20.0, 20.0)),
        (20.0, 20.0, None, Bounded(None, None, 20.0)),
        (None, 20.0, 15.0, Bounded(None, 15.0, 20.0)),
        (20.0, None, 15.0, Bounded(None, 15.0, None)),
        (None, None, None, None),
    ],
)
def test_a_peak_is_exact_where_the_mark_rose(
    before: float | None, after: float | None, sampled: float | None, expected: Bounded | None
) -> None:
    assert peak(before, after, sampled) == expected
