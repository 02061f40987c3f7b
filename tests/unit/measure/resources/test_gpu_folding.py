from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tracker.gpus.model import Gpu
from gpu_tracker.resources.gpu.device import DeviceFigures
from gpu_tracker.resources.gpu.folding import AccountedPeaks, Maximum, UtilizationSum

MS = 1000


@pytest.mark.parametrize(
    ('figures', 'value', 'is_lower_bound'),
    [
        ([], None, False),
        ([(0, True)], 0, False),
        ([(3, True), (7, True), (5, True)], 7, False),
        ([(7, False)], None, False),
        ([(7, False), (3, True)], 7, True),
        ([(3, True), (7, False)], 7, True),
        ([(0, False)], None, False),
        ([(0, True), (0, False)], None, False),
        ([(0, False), (0, True)], None, False),
        ([(5, True), (0, False)], 5, True),
        ([(0, False), (5, True)], 5, True),
    ],
)
def test_a_maximum_is_known_once_a_figure_was_complete(
    figures: list[tuple[int, bool]], value: int | None, is_lower_bound: bool
) -> None:
    maximum = Maximum()
    for figure, complete in figures:
        maximum.note(figure, complete=complete)
    assert (maximum.value, maximum.is_lower_bound) == (value, is_lower_bound)


def test_a_maximum_of_zero_is_unknown_once_a_figure_is_missing() -> None:
    maximum = Maximum()
    maximum.note(0)
    maximum.miss()
    assert maximum.value is None
    maximum.raise_to(4)
    assert (maximum.value, maximum.is_lower_bound) == (4, True)


class Devices:
    """The sum over GPUs whose samples a test adds."""

    def __init__(self, *names: str) -> None:
        self.devices = {name: DeviceFigures(Gpu(0), is_visible=False) for name in names}
        self.total = UtilizationSum(names)

    def add(self, name: str, samples: list[tuple[int, float]], since: int | None = 0) -> None:
        self.total.add(name, self.devices[name].steps_of(samples, since))

    @property
    def sums(self) -> tuple[float | None, float | None]:
        return self.total.largest, self.total.mean


def test_steps_of_two_devices_are_added_where_both_are_known() -> None:
    both = Devices('a', 'b')
    both.add('a', [(0, 99.0), (100 * MS, 10.0), (200 * MS, 50.0), (300 * MS, 0.0)])
    assert both.sums == (None, None)
    both.add('b', [(50 * MS, 99.0), (150 * MS, 20.0), (250 * MS, 60.0)])
    # 50-100 ms: 10 + 20; 100-150: 50 + 20; 150-200: 50 + 60; 200-250: 0 + 60
    assert both.sums == (110.0, (30 + 70 + 110 + 60) / 4)


def test_a_period_that_began_before_the_start_is_dropped() -> None:
    one = Devices('a')
    one.add('a', [(100 * MS, 90.0), (200 * MS, 80.0)], since=None)
    one.add('a', [(300 * MS, 70.0), (400 * MS, 30.0), (600 * MS, 60.0)], since=250 * MS)
    assert one.sums == (60.0, 50.0)


def test_a_sample_tells_of_one_second_at_most() -> None:
    one = Devices('a')
    one.add('a', [(0, 0.0), (1_000_000, 10.0), (60_000_000, 90.0)])
    assert one.sums == (90.0, 50.0)


def test_samples_out_of_order_or_told_twice_are_dropped() -> None:
    one = Devices('a')
    one.add('a', [(0, 0.0), (100, 10.0), (50, 99.0), (100, 99.0)])
    assert (one.sums, one.devices['a'].last_end) == ((10.0, 10.0), 100)


def test_no_devices_have_no_known_sum() -> None:
    assert (UtilizationSum([]).largest, UtilizationSum([]).mean) == (None, None)


def test_a_device_that_has_gone_silent_does_not_fill_the_memory() -> None:
    total = UtilizationSum(['a', 'b'])
    total.add('b', [(0, 1, 5.0)])
    total.add('a', [(when, when + 1, 1.0) for when in range(100_000)])
    assert (total.largest, total.mean) == (None, None)  # what lay with b's only sample has been dropped
    assert len(total._steps['a']) == 4096


samples = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 100)), max_size=25)


def _timeline(steps: list[tuple[int, int]]) -> tuple[list[tuple[int, float]], dict[int, float]]:
    """Return samples that begin at 0, and the utilization of each unit of time."""
    found = [(0, 0.0)]
    units: dict[int, float] = {}
    for length, percent in steps:
        start = found[-1][0]
        found.append((start + length, float(percent)))
        units |= dict.fromkeys(range(start, start + length), float(percent))
    return found, units


@settings(deadline=None)
@given(devices=st.lists(samples, min_size=1, max_size=4), data=st.data())
def test_the_sum_is_that_of_each_unit_of_time_however_the_samples_arrive(
    devices: list[list[tuple[int, int]]], data: st.DataObject
) -> None:
    lines = {str(number): _timeline(steps) for number, steps in enumerate(devices)}
    total = Devices(*lines)
    waiting = {name: list(found) for name, (found, _) in lines.items()}
    while any(waiting.values()):
        name = data.draw(st.sampled_from([name for name, left in waiting.items() if left]))
        count = data.draw(st.integers(1, len(waiting[name])))
        total.add(name, waiting[name][:count])
        waiting[name] = waiting[name][count:]
    known = set.intersection(*(set(units) for _, units in lines.values()))
    sums = [sum(units[moment] for _, units in lines.values()) for moment in known]
    largest, mean = total.sums
    assert largest == (max(sums) if sums else None)
    assert mean == (pytest.approx(sum(sums) / len(sums)) if sums else None)


def test_a_peak_counts_when_it_is_news() -> None:
    peaks = AccountedPeaks()
    peaks.begin_look({('a', 1)})
    assert peaks.excess('a', 1, peak=500, current=10) == 0  # it may be from before the start
    assert peaks.end_look({('a', 1)}) == []
    peaks.begin_look({('a', 1), ('a', 2)})
    assert peaks.excess('a', 1, peak=500, current=20) == 0
    assert peaks.excess('a', 2, peak=70, current=30) == 40  # it came after the start
    assert peaks.end_look({('a', 1), ('a', 2)}) == []
    peaks.begin_look({('a', 1), ('a', 2)})
    assert peaks.excess('a', 1, peak=600, current=20) == 580
    assert peaks.excess('a', 2, peak=70, current=30) == 0
    peaks.begin_look({('a', 1)})
    assert peaks.end_look({('a', 1)}) == [('a', 2, 70)]


def test_a_process_that_was_there_from_the_start_and_joins_the_tree_later() -> None:
    peaks = AccountedPeaks()
    peaks.begin_look({('a', 1)})
    peaks.begin_look({('a', 1)})
    assert peaks.excess('a', 1, peak=500, current=10) == 0


def test_a_process_id_that_was_used_again_is_a_new_process() -> None:
    peaks = AccountedPeaks()
    peaks.begin_look({('a', 1)})
    peaks.begin_look(set())
    peaks.begin_look({('a', 1)})
    assert peaks.excess('a', 1, peak=500, current=10) == 490
