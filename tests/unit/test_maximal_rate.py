from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.aggregation import SHORTEST_WINDOW, MaximalRate


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
