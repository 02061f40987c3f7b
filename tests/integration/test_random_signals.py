"""Whatever signals a run gets, and when: it ends, with a result or a reason, and leaves nothing behind."""

from __future__ import annotations

import pytest

from support.random_signals import COMMAND_LINE, FUNCTION, LIBRARY, plan_of, violations

# More seeds: python -m support.random_signals 300
SEEDS = (1, 2, 3, 5, 6, 7, 9, 10, 12, 13, 14, 15)


@pytest.mark.parametrize('seed', SEEDS)
def test_a_run_that_gets_signals_has_a_result_or_a_reason_and_leaves_nothing(seed: int) -> None:
    assert violations(plan_of(seed)) == []


def test_a_seed_is_always_the_same_plan_and_all_ways_are_taken() -> None:
    assert plan_of(7) == plan_of(7) != plan_of(8)
    assert {plan_of(seed).way for seed in SEEDS} == {LIBRARY, COMMAND_LINE, FUNCTION}
