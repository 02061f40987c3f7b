"""Moments that are covered count once."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.cuda_probe.model.span import length, union

interval = st.tuples(st.integers(0, 40), st.integers(0, 9)).map(lambda drawn: (drawn[0], sum(drawn)))


def test_intervals_that_overlap_are_one():
    assert union([(1, 5), (3, 8)]) == [(1, 8)]


def test_intervals_that_touch_are_one():
    assert union([(5, 9), (1, 5)]) == [(1, 9)]


def test_an_interval_inside_another_adds_nothing():
    assert union([(1, 9), (2, 3), (4, 5)]) == [(1, 9)]


def test_intervals_apart_stay_apart_and_come_in_order():
    assert union([(6, 7), (1, 2)]) == [(1, 2), (6, 7)]


def test_an_interval_without_length_is_none():
    assert union([(3, 3), (5, 5)]) == []
    assert length(union([])) == 0


def test_a_length_is_that_of_all():
    assert length([(1, 4), (10, 12)]) == 5


@given(st.lists(interval, max_size=12))
def test_the_union_is_every_moment_once(intervals):
    moments = {moment for begin, end in intervals for moment in range(begin, end)}
    joined = union(intervals)
    assert {moment for begin, end in joined for moment in range(begin, end)} == moments
    assert length(joined) == len(moments)
    assert all(before[1] < after[0] for before, after in pairwise(joined))
