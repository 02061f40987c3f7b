"""The last minutes of a figure, and the rates of counters."""

from __future__ import annotations

import pytest

from gpu_tracker.views.live.series import LONGEST, Rate, Series, columns_of, window_of


def rates(*points: tuple[float, float | None]) -> list[float | None]:
    rate = Rate()
    return [rate.at(t, total) for t, total in points]


def test_a_rate_is_that_of_the_last_interval_where_samples_are_far_apart() -> None:
    assert rates((0, 10), (1, 12), (2, 15), (12, 25)) == [None, 2, 3, 1]


def test_a_rate_is_that_of_the_last_second_where_samples_are_close() -> None:
    totals = [0, 0, 0, 0, 2, 2, 2, 2, 2]
    found = rates(*((index / 4, total) for index, total in enumerate(totals)))
    assert found == [None, 0, 0, 0, 2, 2, 2, 2, 0]


def test_a_rate_is_unknown_after_an_unknown_total_until_there_are_two() -> None:
    assert rates((0, 1), (1, None), (2, 3), (3, 4)) == [None, None, None, 1]


def test_a_rate_is_never_negative_and_never_that_of_no_time() -> None:
    assert rates((0, 5), (1, 4), (1, 6)) == [None, 0, 1]
    assert rates((3, 5), (3, 6)) == [None, None]


def test_a_series_knows_its_last_value_and_its_peak() -> None:
    series = Series()
    assert (series.last, series.last_known, series.peak) == (None, None, None)
    for t, value in enumerate([3.0, 7.0, 5.0, None]):
        series.add(t, value)
    assert (series.last, series.last_known, series.peak) == (None, 5.0, 7.0)


def test_a_series_keeps_the_largest_of_each_half_second() -> None:
    series = Series()
    for t, value in [(0.0, 1.0), (0.2, 4.0), (0.4, None), (0.5, None), (0.9, 2.0), (1.0, None)]:
        series.add(t, value)
    assert series.points() == [(0.0, 4.0), (0.5, 2.0), (1.0, None)]


def test_a_series_takes_constant_memory() -> None:
    series = Series()
    for index in range(100_000):
        series.add(index / 10, 1.0)
    points = series.points()
    assert len(points) == 601
    assert points[-1][0] - points[0][0] == LONGEST


@pytest.mark.parametrize(('elapsed', 'window'), [(0, 30), (30, 30), (31, 60), (100, 120), (121, 300), (1e6, 300)])
def test_the_window_grows_with_the_run(elapsed: float, window: float) -> None:
    assert window_of(elapsed) == window


def test_a_column_has_the_largest_value_of_its_part() -> None:
    points = [(0.0, 1.0), (1.0, 5.0), (2.0, 2.0), (3.0, 3.0), (4.0, None), (5.0, 7.0)]
    assert columns_of(points, 5.0, 6.0, 3) == [5, 3, 7]
    assert columns_of(points, 5.0, 4.0, 4) == [2, 3, None, 7]


def test_a_value_holds_until_the_next_one() -> None:
    assert columns_of([(0.0, 4.0), (4.0, 1.0)], 7.0, 8.0, 8) == [4, 4, 4, 4, 1, 1, 1, 1]
    assert columns_of([(0.0, 4.0), (4.0, 1.0)], 7.0, 5.0, 5) == [4, 1, 1, 1, 1]


def test_nothing_is_known_before_the_first_value() -> None:
    assert columns_of([(3.0, 1.0)], 3.0, 4.0, 4) == [None, None, None, 1]
    assert columns_of([], 3.0, 4.0, 4) == [None] * 4


def test_a_value_stays_in_its_column_from_one_drawing_to_the_next() -> None:
    points = [(t / 2, float(t % 7)) for t in range(40)]
    before = columns_of(points[:30], 14.5, 10.0, 5)
    after = columns_of(points[:33], 16.0, 10.0, 5)
    assert after[:3] == before[1:4]
