from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.allowance import Allowance, CostEstimate


def test_what_is_saved_up_is_spent_and_comes_back_with_time() -> None:
    allowance = Allowance(now=0.0, share=0.01, most=0.25)
    assert allowance.affords(0.0, 0.25)
    allowance.spend(0.25)
    assert not allowance.affords(0.0, 0.001)
    assert allowance.affords(1.0, 0.0099)
    assert not allowance.affords(1.0, 0.0101)
    assert allowance.count(11.0, 0.02) == 5
    assert allowance.count(11.0, 0.2) == 0


def test_what_costs_more_than_can_be_saved_up_is_paid_off_afterwards() -> None:
    allowance = Allowance(now=0.0, share=0.01, most=0.25)
    assert allowance.affords(0.0, 2.0)
    allowance.spend(2.0)
    assert not allowance.affords(199.0, 2.0)
    assert allowance.affords(200.01, 2.0)


def test_it_is_known_how_long_something_has_to_be_saved_up_for() -> None:
    allowance = Allowance(now=0.0, share=0.01, most=0.25)
    assert allowance.seconds_until(0.0, 0.1) == 0.0
    allowance.spend(0.25)
    assert allowance.seconds_until(0.0, 0.1) == pytest.approx(10.0)
    assert allowance.seconds_until(4.0, 0.1) == pytest.approx(6.0)
    assert allowance.seconds_until(4.0, 9.0) == pytest.approx(21.0)  # what is too dear is had when all is saved up
    allowance.spend(0.25)
    assert allowance.seconds_until(4.0, 0.1) == pytest.approx(31.0)


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(1e-5, 0.5)), max_size=200))
def test_no_more_than_the_share_is_ever_spent(steps: list[tuple[float, float]]) -> None:
    allowance = Allowance(now=0.0)
    now = spent = largest = 0.0
    for passed, cost in steps:
        now += passed
        if allowance.affords(now, cost):
            allowance.spend(cost)
            spent += cost
            largest = max(largest, cost)
    assert spent <= 0.25 + 0.01 * now + largest


def test_costs_are_learned() -> None:
    estimate = CostEstimate(per_process=1.0, per_byte=0.0)
    assert estimate.of(3, 100) == 3.0
    for _ in range(20):
        estimate.learn(3, 100, 6.0)
    assert estimate.of(1, 0) == pytest.approx(2.0, rel=0.01)
    estimate.learn(1, 0, 1e9)  # one that was interrupted is no measure
    assert estimate.of(1, 0) <= 6.0
