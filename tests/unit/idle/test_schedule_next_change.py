from __future__ import annotations

from gpu_tracker.idle.config.idle_settings import GpuId, Program
from gpu_tracker.idle.schedule import next_change
from gpu_tracker.idle.state import Rest, Run, State

ZERO, ONE = GpuId(0), GpuId(1)


def program(name: str, *gpus: GpuId, **options: float) -> Program:
    return Program(name, gpus or None, (name,), '/', **options)


def test_nothing_is_due_where_nothing_is_configured_or_idle() -> None:
    assert next_change((), State(), 100) is None
    assert next_change([program('a', ZERO, idle_before_start=60)], State(idle_since={ONE: 90.0}), 100) is None
    assert next_change([program('a', idle_before_start=60)], State(), 100) is None


def test_the_idle_time_counts_from_the_gpu_that_was_idle_last() -> None:
    state = State(idle_since={ZERO: 50.0, ONE: 90.0})
    assert next_change([program('a', ZERO, idle_before_start=60)], state, 100) == 110
    assert next_change([program('a', ZERO, ONE, idle_before_start=60)], state, 100) == 150
    assert next_change([program('a', idle_before_start=60)], state, 100) == 150


def test_a_moment_that_has_passed_is_none() -> None:
    state = State(idle_since={ZERO: 50.0})
    assert next_change([program('a', ZERO, idle_before_start=50)], state, 100) is None


def test_a_rest_is_over_when_it_is_and_the_later_of_both_counts() -> None:
    resting = program('a', ZERO, restart_backoff=8.0, idle_before_start=60)
    state = State(idle_since={ZERO: 10.0}, rests={'a': Rest(resting, 1, 99.0)})
    assert next_change([resting], state, 100) == 107
    assert next_change([resting], State(idle_since={ZERO: 90.0}, rests=state.rests), 100) == 150


def test_the_first_of_all_programs_counts_and_none_that_runs() -> None:
    first, second = program('a', ZERO, idle_before_start=20), program('b', ONE, idle_before_start=30)
    state = State(idle_since={ZERO: 90.0, ONE: 90.0})
    assert next_change([second, first], state, 100) == 110
    running = State(runs={'a': Run(first, (ZERO,), 95.0)}, idle_since=state.idle_since)
    assert next_change([second, first], running, 100) == 120
