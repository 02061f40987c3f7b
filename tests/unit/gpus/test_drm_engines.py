"""How busy engines were, from the counters of clients."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.gpus.drm.engines import EngineShares, busiest
from gpu_tracker.gpus.drm.fdinfo import Client, parse

SECOND = 1_000_000_000


def client(*lines: str, client_id: int = 1) -> Client:
    about = f'drm-driver: i915\ndrm-client-id: {client_id}\ndrm-pdev: 0000:00:02.0\n'
    found = parse((about + '\n'.join(lines)).encode())
    assert found is not None
    return found


def render(nanoseconds: int, client_id: int = 1) -> Client:
    return client(f'drm-engine-render: {nanoseconds} ns', client_id=client_id)


def test_what_a_client_had_used_before_it_was_seen_does_not_count() -> None:
    shares = EngineShares()
    assert shares.update([render(90 * SECOND)], 10.0) == {}
    found = shares.update([render(91 * SECOND)], 14.0)
    assert found == {('0000:00:02.0', '1'): {'render': 0.25}}


def test_a_counter_that_goes_backwards_is_taken_for_the_larger_one_until_it_has_caught_up() -> None:
    shares = EngineShares()
    percents = [
        busiest(shares.update([render(milliseconds * 1_000_000)], float(second)).values())
        for second, milliseconds in enumerate([1000, 1500, 1200, 1400, 1700])
    ]
    assert percents == [0.0, pytest.approx(50.0), 0.0, 0.0, pytest.approx(20.0)]


def test_cycles_are_a_part_of_those_that_have_passed() -> None:
    shares = EngineShares()
    shares.update([client('drm-cycles-rcs: 1000', 'drm-total-cycles-rcs: 10000')], 0.0)
    found = shares.update([client('drm-cycles-rcs: 3500', 'drm-total-cycles-rcs: 20000')], 123.0)
    assert list(found.values()) == [{'rcs': 0.25}]


def test_cycles_without_those_that_have_passed_say_nothing() -> None:
    shares = EngineShares()
    shares.update([client('drm-cycles-fragment: 1000')], 0.0)
    assert busiest(shares.update([client('drm-cycles-fragment: 9000')], 1.0).values()) == 0.0


def test_engines_of_which_there_are_several_share_the_time() -> None:
    lines = 'drm-engine-capacity-video: 2', 'drm-engine-capacity-render: 0'
    shares = EngineShares()
    shares.update([client('drm-engine-video: 0 ns', 'drm-engine-render: 0 ns', *lines)], 0.0)
    found = shares.update([client('drm-engine-video: 1000000000 ns', 'drm-engine-render: 400000000 ns', *lines)], 1.0)
    assert list(found.values()) == [{'video': 0.5, 'render': 0.4}]


def test_engines_of_which_there_are_several_share_the_cycles() -> None:
    lines = 'drm-engine-capacity-vcs: 2', 'drm-engine-capacity-rcs: 0'
    passed = 'drm-total-cycles-vcs: {0}', 'drm-total-cycles-rcs: {0}'
    shares = EngineShares()
    shares.update([client('drm-cycles-vcs: 0', 'drm-cycles-rcs: 0', *lines, *(one.format(0) for one in passed))], 0.0)
    later = client('drm-cycles-vcs: 1000', 'drm-cycles-rcs: 400', *lines, *(one.format(1000) for one in passed))
    assert list(shares.update([later], 1.0).values()) == [{'vcs': 0.5, 'rcs': 0.4}]


def test_an_engine_that_has_not_worked_before_counts_from_zero() -> None:
    shares = EngineShares()
    shares.update([client()], 0.0)
    assert busiest(shares.update([client('drm-engine-gfx: 300000000 ns')], 1.0).values()) == pytest.approx(30.0)


def test_clients_that_share_an_engine_are_added_up_and_the_busiest_kind_counts() -> None:
    assert busiest([{'render': 0.25, 'copy': 0.5}, {'render': 0.5}]) == 75.0
    assert busiest([{'render': 0.75}, {'render': 0.5}]) == 100.0
    assert busiest([]) == 0.0


def test_two_readings_at_the_same_time_divide_by_nothing() -> None:
    shares = EngineShares()
    shares.update([render(0)], 5.0)
    assert busiest(shares.update([render(SECOND)], 5.0).values()) == 0.0


def test_a_client_that_has_not_changed_has_done_nothing() -> None:
    shares, found = EngineShares(), render(SECOND)
    shares.update([found], 0.0)
    assert shares.update([found], 1.0) == {found.key: {}}


@given(st.lists(st.integers(0, 10**10), min_size=2, max_size=20))
def test_all_that_is_counted_is_the_rise_from_the_first_to_the_largest(counters: list[int]) -> None:
    shares = EngineShares()
    total = 0.0
    for second, counter in enumerate(counters):
        for of_client in shares.update([render(counter)], float(second)).values():
            total += of_client.get('render', 0.0)
    assert total == pytest.approx((max(counters) - counters[0]) / SECOND)
