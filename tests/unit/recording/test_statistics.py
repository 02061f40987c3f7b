"""Statistics of calls, of samples, and of groups of runs."""

from __future__ import annotations

import math
import random
import statistics
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.recording.comparing.statistics import (
    Folded,
    Ratio,
    Statistics,
    WeightedStatistics,
    geometric_mean,
    ratio_of,
    student,
    weighted,
)

VALUES = st.floats(min_value=1e-6, max_value=1e15)
GROUPS = st.lists(VALUES, min_size=1, max_size=8)


def test_calls() -> None:
    made = Statistics.of([4.0, 1.0, 2.0, 3.0])
    assert (made.count, made.total, made.minimum, made.maximum) == (4, 10.0, 1.0, 4.0)
    assert (made.mean, made.median, made.std) == (2.5, 2.5, math.sqrt(5 / 3))
    assert made.p95 == pytest.approx(3.85)


def test_one_call() -> None:
    assert Statistics.of([0.5]) == Statistics(1, 0.5, 0.5, 0.5, 0.5, 0.5, None, 0.5)


def test_no_call() -> None:
    assert Statistics.of([]) == Statistics(0, 0.0, None, None, None, None, None, None)


def test_folded_calls_count_with_their_sums_and_have_no_median() -> None:
    alone = Statistics.of([1.0, 2.0, 3.0, 4.0, 10.0])
    folded = Statistics.of([10.0], [Folded(count=4, total=10.0, shortest=1.0, longest=4.0, squares=30.0)])
    assert folded == Statistics(
        count=5, total=20.0, minimum=1.0, maximum=10.0, mean=4.0, median=None, std=alone.std, p95=None
    )


def test_a_fold_of_no_calls_is_nothing() -> None:
    assert Statistics.of([1.0], [Folded(0, 0.0, 0.0, 0.0, 0.0)]) == Statistics.of([1.0])


def test_folded_calls_that_are_all_alike_have_no_deviation_below_zero() -> None:
    folded = Statistics.of([], [Folded(count=3, total=0.3, shortest=0.1, longest=0.1, squares=0.03)])
    assert folded.std == pytest.approx(0, abs=1e-8)


@given(st.lists(VALUES, min_size=2, max_size=30))
def test_statistics_agree_with_those_of_the_standard_library(values: list[float]) -> None:
    made = Statistics.of(values)
    assert made.mean == pytest.approx(statistics.fmean(values))
    assert made.median == pytest.approx(statistics.median(values))
    assert made.std == pytest.approx(statistics.stdev(values), rel=1e-6, abs=1e-9 * max(values))


@given(st.lists(VALUES, min_size=1, max_size=30))
def test_the_percentile_is_the_one_that_pandas_has(values: list[float]) -> None:
    ordered = values * 2 if len(values) == 1 else values  # the standard library wants two
    expected = statistics.quantiles(ordered, n=100, method='inclusive')[94]
    assert Statistics.of(values).p95 == pytest.approx(expected)


def test_samples_count_by_their_time() -> None:
    assert weighted([10.0, None, 40.0, 99.0], [3.0, 5.0, 1.0, 0.0]) == WeightedStatistics(
        weight=4.0, minimum=10.0, maximum=40.0, mean=17.5, std=math.sqrt((3 * 7.5**2 + 22.5**2) / 4)
    )


def test_samples_of_which_none_is_known() -> None:
    assert weighted([None], [1.0]) == WeightedStatistics(0.0, None, None, None, None)


# As SciPy has them (``t.ppf``).
@pytest.mark.parametrize(
    ('freedom', 'point'),
    [
        (1, 12.706204736),
        (1.5, 6.016663104),
        (2, 4.302652730),
        (3, 3.182446305),
        (4, 2.776445105),
        (5, 2.570581836),
        (10, 2.228138852),
        (30, 2.042272456),
        (100, 1.983971519),
        (1000, 1.962339081),
    ],
)
def test_student(freedom: float, point: float) -> None:
    assert student(freedom) == pytest.approx(point, rel=1e-9)


@given(st.floats(min_value=1, max_value=1e6), st.floats(min_value=0.01, max_value=10))
def test_student_falls_to_the_normal_distribution(freedom: float, more: float) -> None:
    assert student(freedom) >= student(freedom * (1 + more)) - 1e-9 >= 1.9599


def test_the_ratio_of_one_run_each_has_no_interval() -> None:
    assert ratio_of([2.0], [2.5]) == Ratio(pytest.approx(1.25), None, None)


def test_the_ratio_of_three_runs_each() -> None:
    # The interval is that of SciPy's ttest_ind of the logarithms, with equal_var=False.
    ratio = ratio_of([1.0, 1.1, 0.9], [1.2, 1.3, 1.25])
    assert ratio.value == pytest.approx(1.2535254014)
    assert (ratio.low, ratio.high) == (pytest.approx(1.0101451931), pytest.approx(1.5555446313))


def test_runs_that_are_all_alike_have_an_interval_without_width() -> None:
    assert ratio_of([3.0, 3.0], [4.0, 4.0, 4.0]) == Ratio(*[pytest.approx(4 / 3)] * 3)
    assert ratio_of([0.1, 0.1, 0.1], [0.1, 0.1]) == Ratio(1.0, 1.0, 1.0)


def test_a_ratio_beyond_all_numbers() -> None:
    assert ratio_of([5e-324], [1.7e308]).value == sys.float_info.max


def test_the_geometric_mean() -> None:
    assert geometric_mean([1.0, 100.0]) == pytest.approx(10)
    assert geometric_mean([0.3, 0.3, 0.3]) == 0.3


@given(GROUPS)
def test_identical_groups_have_the_ratio_one(values: list[float]) -> None:
    ratio = ratio_of(values, values)
    assert ratio.value == 1
    assert ratio.low is None or ratio.low <= 1 <= ratio.high


@given(GROUPS, GROUPS)
def test_swapping_the_groups_inverts_the_ratio(first: list[float], second: list[float]) -> None:
    there, back = ratio_of(first, second), ratio_of(second, first)
    assert back.value == pytest.approx(1 / there.value)
    assert (there.low is None) == (min(len(first), len(second)) == 1)
    if there.low is not None and there.low > 1e-200 and there.high < 1e200:
        assert (back.low, back.high) == (pytest.approx(1 / there.high), pytest.approx(1 / there.low))


@given(GROUPS, GROUPS, st.floats(min_value=1e-3, max_value=1e3))
def test_the_unit_does_not_matter(first: list[float], second: list[float], factor: float) -> None:
    scaled = ratio_of([value * factor for value in first], [value * factor for value in second])
    assert scaled.value == pytest.approx(ratio_of(first, second).value)


@pytest.mark.parametrize(('runs', 'spread'), [(3, 0.05), (5, 0.2), (20, 0.05)])
def test_the_interval_holds_the_truth_as_often_as_it_says(runs: int, spread: float) -> None:
    """2,000 pairs of groups each: 95 % with a standard error of 0.5 %; Welch's is a little careful with few runs."""
    chance = random.Random(1908)  # noqa: S311 - a simulation, the same each time
    truth = 1.1
    held = 0
    for _ in range(2000):
        first = [chance.lognormvariate(0, spread) for _ in range(runs)]
        second = [chance.lognormvariate(math.log(truth), spread * 2) for _ in range(runs)]
        ratio = ratio_of(first, second)
        held += ratio.low <= truth <= ratio.high
    assert 0.935 <= held / 2000 <= 0.975
