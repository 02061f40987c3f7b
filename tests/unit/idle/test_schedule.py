from __future__ import annotations

from gpu_tracker.idle.schedule import PollSchedule


def dues(pace: PollSchedule, count: int, *, cost: float = 0.0) -> list[float]:
    found = []
    for _ in range(count):
        due = pace.due
        found.append(round(due, 3))
        pace.polled(due, due, cost)
    return found


def test_looks_are_an_interval_apart_and_the_first_is_at_once() -> None:
    assert dues(PollSchedule(10, now=100), 3) == [100, 110, 120]


def test_a_point_that_has_passed_meanwhile_is_left_out() -> None:
    pace = PollSchedule(10, now=100)
    pace.polled(100, 125, 0)
    assert pace.due == 130


def test_a_device_that_is_opened_is_looked_at_several_times() -> None:
    pace = PollSchedule(10, now=100)
    dues(pace, 1)
    pace.opened(103)
    assert dues(pace, 7) == [103, 103.03, 103.15, 103.5, 104.5, 110, 120]


def test_one_that_is_opened_again_and_again_is_looked_at_without_end_and_without_haste() -> None:
    pace = PollSchedule(10, now=100)
    dues(pace, 1)
    pace.opened(103)
    assert dues(pace, 1, cost=0.3) == [103]  # 0.25 s are saved up, and each second brings 0.05 s
    pace.opened(103.001)
    assert dues(pace, 2, cost=0.05) == [104, 105]
    pace.opened(105.001)
    assert dues(pace, 2) == [106, 106.501]


def test_one_that_is_opened_soon_after_a_costly_look_is_looked_at_at_once() -> None:
    pace = PollSchedule(10, now=100)
    dues(pace, 1, cost=0.05)
    pace.opened(100.03)
    assert dues(pace, 5, cost=0.01) == [100.03, 100.06, 100.18, 100.53, 101.53]
    pace.opened(102)
    assert dues(pace, 1) == [102]


def test_looks_save_up_no_more_than_some_in_a_long_time() -> None:
    pace = PollSchedule(10_000, now=0)
    dues(pace, 1)
    pace.opened(9000)
    assert dues(pace, 2, cost=0.3) == [9000, 9001]


def test_looks_of_the_grid_do_not_put_off_others() -> None:
    pace = PollSchedule(10, now=100)
    pace.polled(100, 101, 2.0)
    pace.opened(102)
    assert pace.due == 102


def test_costly_looks_never_put_off_a_point_of_the_grid() -> None:
    pace = PollSchedule(10, now=100)
    dues(pace, 1)
    pace.opened(102)
    assert dues(pace, 1, cost=2.0) == [102]
    assert pace.due == 110


def test_hurry_is_one_more_look() -> None:
    pace = PollSchedule(10, now=100)
    dues(pace, 1)
    pace.poll_soon(104)
    pace.poll_soon(104)
    assert dues(pace, 2) == [104, 110]


def test_a_moment_that_is_set_is_one_more_look_and_another_takes_its_place() -> None:
    pace = PollSchedule(10, now=100)
    dues(pace, 1)
    pace.at(103.5)
    pace.at(104.5)
    assert dues(pace, 1) == [104.5]
    pace.at(None)
    assert dues(pace, 1) == [110]
    pace.at(125)
    pace.opened(112)
    assert pace.due == 112
    assert dues(pace, 6) == [112, 112.03, 112.15, 112.5, 113.5, 120]
    assert dues(pace, 1) == [125]


def test_moments_in_haste_are_not_all_kept() -> None:
    pace = PollSchedule(10, now=100)
    dues(pace, 1)
    pace.at(101)
    dues(pace, 1, cost=0.35)
    pace.at(101.1)
    assert dues(pace, 1) == [103]
