from __future__ import annotations

from gpu_tracker.idle.pace import Pace


def dues(pace: Pace, count: int, *, cost: float = 0.0) -> list[float]:
    found = []
    for _ in range(count):
        due = pace.due
        found.append(round(due, 3))
        pace.looked(due, due, cost)
    return found


def test_looks_are_an_interval_apart_and_the_first_is_at_once() -> None:
    assert dues(Pace(10, now=100), 3) == [100, 110, 120]


def test_a_point_that_has_passed_meanwhile_is_left_out() -> None:
    pace = Pace(10, now=100)
    pace.looked(100, 125, 0)
    assert pace.due == 130


def test_a_device_that_is_opened_is_looked_at_several_times() -> None:
    pace = Pace(10, now=100)
    dues(pace, 1)
    pace.opened(103)
    assert dues(pace, 7) == [103, 103.03, 103.15, 103.5, 104.5, 110, 120]


def test_one_that_is_opened_again_and_again_is_looked_at_without_end_and_without_haste() -> None:
    pace = Pace(10, now=100)
    dues(pace, 1)
    pace.opened(103)
    assert dues(pace, 1, cost=0.05) == [103]
    pace.opened(103.001)
    assert dues(pace, 2, cost=0.05) == [104, 105]
    pace.opened(105.001)
    assert dues(pace, 2) == [106, 106.501]


def test_costly_looks_never_put_off_a_point_of_the_grid() -> None:
    pace = Pace(10, now=100)
    pace.looked(100, 101, 2.0)
    pace.opened(102)
    assert pace.due == 110


def test_hurry_is_one_more_look() -> None:
    pace = Pace(10, now=100)
    dues(pace, 1)
    pace.hurry(104)
    pace.hurry(104)
    assert dues(pace, 2) == [104, 110]
