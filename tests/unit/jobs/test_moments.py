"""What several ranks had at one moment, and counters that several have read, against every moment tried."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.jobs.merging import merge
from gpu_tracker.jobs.moments import covered, largest_sum, largest_sum_of_bounds, once
from gpu_tracker.jobs.records import read_record
from gpu_tracker.recording.reading.model import Bounded
from support.job_folders import NOW, record

LONGEST = 12
Points = list[tuple[float, float]]


@st.composite
def series(draw: st.DrawFn) -> Points:
    """Draw what one rank had over time: pairs of a time and what it had from then on, 0 in the end."""
    times = sorted(draw(st.lists(st.integers(0, LONGEST - 1), min_size=1, max_size=5, unique=True)))
    stop = draw(st.integers(times[-1] + 1, LONGEST))
    return [(float(time), float(draw(st.integers(0, 20)))) for time in times] + [(float(stop), 0.0)]


def at(moment: float, points: Points) -> float:
    return next((value for time, value in reversed(points) if time <= moment), 0.0)


@given(st.lists(series(), min_size=1, max_size=5))
def test_the_largest_sum_is_that_of_the_moment_with_most(ranks: list[Points]) -> None:
    tried = max(sum(at(moment, points) for points in ranks) for moment in range(LONGEST + 1))
    assert largest_sum(ranks) == tried
    assert largest_sum(ranks[::-1]) == tried
    assert largest_sum([*ranks, []]) == tried
    assert max(value for points in ranks for _, value in points) <= tried


@pytest.mark.parametrize(
    ('ranks', 'expected'),
    [
        ([], None),
        ([[]], None),
        ([[(0.0, 3.0), (2.0, 0.0)], [(2.0, 4.0), (3.0, 0.0)]], 4.0),
        ([[(0.0, 3.0), (2.0, 0.0)], [(1.999, 4.0), (3.0, 0.0)]], 7.0),
        ([[(0.0, 3.0), (1.0, 5.0), (2.0, 0.0)], [(1.5, 1.0), (3.0, 0.0)]], 6.0),
        ([[(5.0, 0.0), (6.0, 0.0)]], 0.0),
    ],
)
def test_largest_sums(ranks: list[Points], expected: float | None) -> None:
    assert largest_sum(ranks) == expected


SPAN = st.tuples(st.integers(0, LONGEST), st.integers(1, LONGEST)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(st.tuples(SPAN, st.integers(0, 20)), max_size=6))
def test_bounds_add_up_where_spans_overlap(parts: list[tuple[tuple[int, int], int]]) -> None:
    moments = range(2 * LONGEST + 1)
    tried = max(sum(bound for (start, stop), bound in parts if start <= now < stop) for now in moments)
    spans, bounds = [span for span, _ in parts], [bound for _, bound in parts]
    assert largest_sum_of_bounds(spans, bounds) == tried
    assert largest_sum_of_bounds(spans[::-1], bounds[::-1]) == tried
    assert covered(spans) == sum(any(start <= now < stop for start, stop in spans) for now in moments)


@given(st.lists(SPAN, min_size=1, max_size=6), st.integers(0, 50))
def test_a_counter_that_grows_steadily_is_known_however_it_was_read(spans: list[tuple[int, int]], rate: int) -> None:
    readings = [(float(start), float(stop), float(rate * (stop - start))) for start, stop in spans]
    assert once(readings) == pytest.approx(rate * covered(spans))
    assert once(readings * 3) == pytest.approx(once(readings))


@given(st.lists(st.integers(0, 50), min_size=LONGEST, max_size=LONGEST), st.lists(SPAN, min_size=1, max_size=6))
def test_a_counter_has_grown_by_what_one_has_read_at_least_and_by_the_sum_at_most(
    growth: list[int], spans: list[tuple[int, int]]
) -> None:
    counter = [0, *(sum(growth[: place + 1]) for place in range(LONGEST)), *([sum(growth)] * LONGEST)]
    values = [float(counter[stop] - counter[start]) for start, stop in spans]
    found = once([(float(start), float(stop), value) for (start, stop), value in zip(spans, values, strict=True)])
    assert max(values) <= found <= sum(values) + 1e-6


def test_readings_in_a_chain_of_overlaps_count_but_for_the_overlaps() -> None:
    assert once([(9.0 * place, 9.0 * place + 10, 100.0) for place in range(100)]) == pytest.approx(9010)


def of_node(ranks: list[Points], shared: float, **options: Any) -> Bounded:
    """Return the RAM of a node whose ranks had, each with pages that all share, what ``ranks`` say."""
    records = [
        record(
            rank,
            started=points[0][0],
            seconds=points[-1][0] - points[0][0],
            ram=int(max(value for _, value in points) + shared),
        )
        for rank, points in enumerate(ranks)
    ]
    read = [read_record(json.dumps(one), f'rank-{rank}') for rank, one in enumerate(records)]
    return merge(read, now=NOW, **options).nodes[0].max_ram


@given(st.lists(series(), min_size=1, max_size=5), st.integers(0, 5))
def test_the_truth_is_between_the_bounds(ranks: list[Points], shared: int) -> None:
    moments = range(LONGEST + 1)
    there = [[points[0][0] <= now < points[-1][0] for points in ranks] for now in moments]
    truth = max(sum(at(now, points) for points in ranks) + (shared if any(there[now]) else 0) for now in moments)
    for with_samples in (False, True):
        samples = [[*((time, value + shared) for time, value in points[:-1]), points[-1]] for points in ranks]
        options = {'series_of': lambda one: samples[int(one.name[5:])]} if with_samples else {}  # noqa: B023
        found = of_node(ranks, shared, **options)
        assert found.lower is not None
        assert found.upper is not None
        assert found.lower <= truth <= found.upper
        if found.value is not None:
            assert found.lower <= found.value <= found.upper
        if with_samples:
            assert found.value is not None
            assert truth <= found.value, 'shared pages count twice, and nothing is left out'
            assert shared or found.value == truth


def test_ranks_one_after_the_other_need_no_samples() -> None:
    one_by_one = of_node([[(0.0, 3.0), (1.0, 0.0)], [(1.0, 7.0), (2.0, 0.0)], [(2.0, 5.0), (3.0, 0.0)]], 0)
    assert one_by_one == Bounded(7, 7, 7)
    at_once = of_node([[(0.0, 3.0), (1.0, 0.0)], [(0.5, 7.0), (2.0, 0.0)], [(2.0, 5.0), (3.0, 0.0)]], 0)
    assert at_once == Bounded(None, 7, 10)


def test_a_machine_that_was_started_anew_has_another_clock() -> None:
    first = [record(rank, attempt=0, ram=4, exit_code=-15, machine='boot-1') for rank in (0, 1)]
    again = [record(rank, attempt=1, ram=4, started=500, machine='boot-2') for rank in (0, 1)]
    read = [read_record(json.dumps(one), f'rank-{place}') for place, one in enumerate(first + again)]
    samples = [(100.0, 3.0), (150.0, 4.0), (160.0, 3.0), (200.0, 0.0)]
    shifted = [(time + 20, value) for time, value in samples]
    by_name = {'rank-0': samples, 'rank-1': shifted, 'rank-2': samples, 'rank-3': shifted}
    report = merge(read, now=NOW, series_of=lambda one: by_name[one.name])
    assert report.nodes[0].max_ram == Bounded(7.0, 4, 8), (
        'not 8, the sum of both attempts at the same time of two clocks'
    )


def test_a_rank_of_which_nothing_is_known_leaves_a_lower_bound() -> None:
    silent = record(1, seconds=0, cpu=None, ended=None, exit_code=None)
    unknown = record(1, started=200, ram=None)
    for other in (silent, unknown):
        read = [read_record(json.dumps(one), f'rank-{place}') for place, one in enumerate([record(0, ram=5), other])]
        assert merge(read, now=NOW).nodes[0].max_ram == Bounded(None, 5, None)
