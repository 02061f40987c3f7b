"""The share of an idle GPU that short units of work get, with a clock that is advanced."""

from __future__ import annotations

import pytest
from benchmarks.idle_units import share, share_of_gpu_mon


@pytest.mark.parametrize(
    ('unit', 'backoff', 'expected'),
    [(1, 1, 0.476), (1.5, 1, 0.577), (2, 1, 0.645), (1.5, 0, 0.938), (60, 1, 0.982)],
)
def test_a_program_that_ends_with_exit_code_0_gets_most_of_an_idle_gpu(unit, backoff, expected):
    assert share(unit, 10, backoff) == pytest.approx(expected, abs=0.002)


def test_gpu_mon_starts_a_program_at_the_points_of_its_interval():
    assert [share_of_gpu_mon(unit, 10) for unit in (1, 10, 15)] == [0.1, 1, 0.75]
