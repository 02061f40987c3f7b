"""Streams and times: which streams are told apart, and what time counts as active."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from support.cuda.cuda_comparison import assert_told_truly
from support.cuda.probed_program import probed

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_each_thread_with_a_default_stream_of_its_own_has_another():
    own = probed('default_stream own; threads 3 { launches 5 axpy default 1 1 1 1 1 1; sync default }')
    named = probed('threads 3 { launch axpy per_thread 1 1 1 1 1 1; launch axpy legacy 1 1 1 1 1 1 }')
    assert (own.process.streams, named.process.streams) == (3, 4)
    assert_told_truly(own)
    assert_told_truly(named)


def test_the_default_stream_is_one_for_all_threads_otherwise():
    seen = probed('threads 3 { launch axpy default 1 1 1 1 1 1; launch axpy legacy 1 1 1 1 1 1 }')
    assert seen.process.streams == 1
    assert_told_truly(seen)


def test_streams_that_are_made_ended_and_made_again_are_told():
    seen = probed("""
        repeat 40 { stream s; launch axpy s 1 1 1 1 1 1; sync s; destroy_stream s }
        stream t; stream u; stream unused; launch axpy t 1 1 1 1 1 1; launch axpy u 1 1 1 1 1 1
        threads 2 { stream v; repeat 20 { launch gemm v 1 1 1 1 1 1; launch gemm t 1 1 1 1 1 1 } }
    """)
    assert_told_truly(seen)
    assert seen.process.streams == 44


def test_time_from_a_launch_to_its_synchronisation_is_active_and_other_time_is_not():
    began = time.monotonic()
    seen = probed('launch axpy default 1 1 1 64 1 1; pause 300; sync default; pause 300')
    lasted = time.monotonic() - began
    process = seen.process
    assert process.launch_to_sync_seconds is not None
    assert process.active_percent is not None
    assert 0.3 <= process.launch_to_sync_seconds <= lasted - 0.3
    assert 30 / lasted <= process.active_percent < 100
    assert process.launches_per_second <= 1 / 0.6
    assert (
        process.kernels[0].span_seconds == process.launch_to_sync_seconds == process.devices[0].launch_to_sync_seconds
    )
    assert process.synchronising_seconds < process.launch_to_sync_seconds


ENDS = ('sync s', 'device_sync', 'query_stream s', 'wait_event e', 'query e', 'destroy_stream s', 'device_reset')
ENDS_NOTHING = ('memcpy 100', 'sync default', 'query_stream default', 'query f', 'memcpy_async 100 s', 'sync t')


def each_in_a_child(ways: Sequence[str], *, ready_after: int = 0) -> dict[str, tuple[float, float]]:
    """Launch, perform one of these commands, and pause, each in a child; return its active and its other seconds."""
    prepared = 'stream t; event f; stream s; event e; launch axpy s 1 1 1 64 1 1; record e s'
    children = ' '.join(f'fork {{ {prepared}; {way}; pause 200 }}' for way in ways)
    report = probed(children, environment={'CUDA_STAND_IN_NOT_READY': str(ready_after)}).report
    by_pid = sorted(report.processes, key=lambda process: process.pid)
    active = [process.launch_to_sync_seconds or 0.0 for process in by_pid]
    lasted = [1 / process.launches_per_second for process in by_pid]
    return {way: (one, whole - one) for way, one, whole in zip(ways, active, lasted, strict=True)}


def test_each_way_to_wait_ends_the_time_of_a_launch():
    seconds = each_in_a_child(ENDS)
    assert {way: other >= 0.2 for way, (_, other) in seconds.items()} == dict.fromkeys(ENDS, True)


def test_what_waits_for_something_else_ends_nothing():
    seconds = each_in_a_child(ENDS_NOTHING)
    assert {way: active >= 0.2 for way, (active, _) in seconds.items()} == dict.fromkeys(ENDS_NOTHING, True)


def test_what_is_not_ready_ends_nothing():
    ways = ('query_stream s', 'query e', 'repeat 2 { query_stream s; pause 1 }')
    seconds = each_in_a_child(ways, ready_after=2)
    assert {way: active >= 0.2 for way, (active, _) in seconds.items()} == dict.fromkeys(ways, True)


def test_a_blocking_copy_ends_the_time_of_the_default_stream():
    process = probed('launch axpy default 1 1 1 64 1 1; memcpy 100; pause 200').process
    assert (process.launch_to_sync_seconds or 0) <= 1 / process.launches_per_second - 0.2
