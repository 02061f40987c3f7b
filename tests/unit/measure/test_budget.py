from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.resources.budget import Budget, CostEstimate


def test_what_is_saved_up_is_spent_and_comes_back_with_time() -> None:
    budget = Budget(now=0.0, share=0.01, most=0.25)
    assert budget.affords(0.0, 0.25)
    budget.spend(0.25)
    assert not budget.affords(0.0, 0.001)
    assert budget.affords(1.0, 0.0099)
    assert not budget.affords(1.0, 0.0101)
    assert budget.count(11.0, 0.02) == 0
    assert budget.count(24.0, 0.02) == 5
    assert budget.count(24.0, 0.2) == 0


def test_extra_samples_leave_half_of_the_budget_and_wait_for_readings() -> None:
    budget = Budget(now=0.0, share=0.01, most=0.25)
    assert budget.affords_extra_sample(0.0, 0.125)
    assert not budget.affords_extra_sample(0.0, 0.126)
    budget.spend(0.05)
    assert not budget.affords(0.0, 0.24)
    assert not budget.affords_extra_sample(0.0, 0.001)
    assert budget.affords(4.0, 0.24)
    assert budget.affords_extra_sample(4.0, 0.001)


def test_what_costs_more_than_can_be_saved_up_is_paid_off_afterwards() -> None:
    budget = Budget(now=0.0, share=0.01, most=0.25)
    assert budget.affords(0.0, 2.0)
    budget.spend(2.0)
    assert not budget.affords(199.0, 2.0)
    assert budget.affords(200.01, 2.0)


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(1e-5, 0.5)), max_size=200))
def test_no_more_than_the_share_is_ever_spent(steps: list[tuple[float, float]]) -> None:
    budget = Budget(now=0.0)
    now = spent = largest = 0.0
    for passed, cost in steps:
        now += passed
        if budget.affords(now, cost):
            budget.spend(cost)
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
