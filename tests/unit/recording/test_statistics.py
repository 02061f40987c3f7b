"""Statistics of groups of runs."""

from __future__ import annotations

import math
import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.recording.comparing.statistics import (
    Ratio,
    geometric_mean,
    ratio_of,
    student,
)

VALUES = st.floats(min_value=1e-6, max_value=1e15)
GROUPS = st.lists(VALUES, min_size=1, max_size=8)


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
