"""How long a host that fails is left alone."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.fleet.polling.http_client import BackOff


def asked_at(back_off: BackOff, interval: float, rounds: int) -> list[float]:
    """Return when a host that always fails is asked, with a round at each multiple of the interval."""
    times = []
    for number in range(rounds):
        now = 1000 + number * interval
        if back_off.is_due(now):
            times.append(now - 1000)
            back_off.failed(now)
    return times


def test_pauses_are_doubled_up_to_the_longest():
    assert asked_at(BackOff(5, chance=lambda: 0.0), 5, 30) == [0, 5, 15, 35, 65, 95, 125]
    assert asked_at(BackOff(5, chance=lambda: 1.0), 5, 30) == [0, 5, 10, 20, 35, 50, 65, 80, 95, 110, 125, 140]


def test_a_host_that_is_down_for_days_is_still_asked_every_half_minute():
    """A float has no room for 2 to the power of 1024."""
    assert asked_at(BackOff(30, chance=lambda: 0.0), 30, 2000)[-1] == 1999 * 30


def test_one_answer_ends_it():
    back_off = BackOff(5, chance=lambda: 0.0)
    assert asked_at(back_off, 5, 10) == [0, 5, 15, 35]
    assert not back_off.is_due(1040)
    back_off.succeeded()
    assert back_off.is_due(1040)
    assert asked_at(back_off, 5, 4) == [0, 5, 15]


@given(st.floats(0.5, 3600), st.floats(0, 1), st.integers(0, 200))
def test_a_host_that_comes_back_is_asked_within_half_a_minute_or_in_the_next_round(
    interval: float, chance: float, failures: int
):
    back_off = BackOff(interval, chance=lambda: chance)
    for _ in range(failures):
        back_off.failed(1000)
    latest = 1000 + max(30 - interval, 0)
    assert back_off.is_due(latest + interval)
    assert back_off.is_due(1000 + interval) or interval < 30


def test_hosts_that_die_together_are_not_asked_together():
    hosts = [BackOff(5, chance=lambda share=number / 99: share) for number in range(100)]
    for _ in range(6):
        for host in hosts:
            host.failed(1000)
    due = [sum(host.is_due(1000 + 5 * number) for host in hosts) for number in range(7)]
    assert due[2] == 0
    assert due[6] == 100
    assert all(later - before < 60 for before, later in itertools.pairwise(due))
