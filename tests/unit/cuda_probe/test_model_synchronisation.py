"""What closes the launches of which streams, of which process and GPU."""

from __future__ import annotations

import pytest

from gpu_tracker.cuda_probe.engine import kernel_layout
from support.cuda.cuda_events import (
    OWN_STREAM,
    STREAM,
    copy,
    destroy_event,
    destroy_stream,
    device_sync,
    done,
    launch,
    record,
    reset,
    statistics,
    sync,
    use,
    window,
)

OTHER = STREAM + 4096
EVENT = 0xE0


def busy(*events, now=1000):
    """Return the busy nanoseconds by GPU of the one process."""
    return [device.busy for device in window(*events, now=now).devices]


def test_a_stream_is_synchronised_alone():
    assert busy(launch(10, STREAM), launch(10, OTHER), sync(20, STREAM)) == [990]
    assert busy(launch(10, STREAM), launch(10, OTHER), sync(20, STREAM), sync(30, OTHER)) == [20]


def test_a_device_synchronisation_closes_every_stream_of_the_gpu():
    seen = use(launch(10, STREAM), launch(12, OTHER), launch(14, 0), launch(16, OWN_STREAM + 17), device_sync(50))
    assert (seen.busy, seen.spans) == (40, 4)


def test_a_device_synchronisation_leaves_the_other_gpu_and_the_other_process():
    seen = window(launch(10, device=0), launch(10, device=1), launch(10, process=2), device_sync(20, device=1), now=100)
    assert [(use.process, use.device, use.busy) for use in seen.devices] == [(1, 0, 90), (1, 1, 10), (2, 0, 90)]


def test_a_blocking_copy_synchronises_the_default_stream():
    seen = use(launch(10, 0), launch(10, STREAM), copy(30), now=100)
    assert (seen.spans, seen.busy) == (1, 90)


def test_a_blocking_copy_of_a_thread_synchronises_the_threads_default_stream():
    assert busy(launch(10, OWN_STREAM + 17), copy(30, OWN_STREAM + 17)) == [20]
    assert busy(launch(10, OWN_STREAM + 17), copy(30, OWN_STREAM + 18), now=100) == [90]


def test_each_gpu_has_a_default_stream():
    assert busy(launch(10, 0, device=0), launch(10, 0, device=1), sync(20, 0, device=1), now=100) == [90, 10]
    own = OWN_STREAM + 17
    assert busy(launch(10, own, device=0), launch(10, own, device=1), sync(20, own, device=1), now=100) == [90, 10]


def test_a_stream_that_was_made_is_found_while_another_gpu_is_current():
    assert busy(launch(5, device=1), sync(6, device=1), launch(10, STREAM), sync(20, STREAM, device=1)) == [10, 1]


def test_a_synchronisation_alone_makes_neither_process_nor_gpu():
    assert window(sync(10), device_sync(10), done(10, EVENT), reset(11), destroy_stream(12, STREAM)).processes == ()
    assert busy(launch(10), sync(20, device=3), device_sync(20, device=3), sync(30)) == [20]


def test_an_event_closes_the_stream_on_which_it_was_recorded_up_to_there():
    seen = use(launch(10, STREAM), record(20, EVENT, STREAM), launch(30, OTHER), done(40, EVENT), sync(45, OTHER))
    assert (seen.busy, seen.spans) == (35, 2)
    seen = use(launch(10), record(20, EVENT), launch(100), done(50, EVENT), now=200)
    assert (seen.busy, seen.spans) == (140, 1)


def test_an_event_that_is_done_twice_closes_once():
    assert use(launch(10), record(20, EVENT), done(40, EVENT), done(60, EVENT)).spans == 1


def test_an_event_that_is_recorded_again_counts_from_there():
    seen = use(launch(10), record(20, EVENT), launch(30), record(35, EVENT), done(50, EVENT))
    assert (seen.busy, seen.spans) == (40, 1)
    elsewhere = use(launch(10), record(20, EVENT), launch(30, STREAM), record(35, EVENT, STREAM), done(50, EVENT))
    assert (elsewhere.busy, elsewhere.spans) == (990, 1)


def test_an_event_that_is_recorded_again_where_nothing_waits_closes_nothing():
    seen = use(launch(10), record(20, EVENT), record(25, EVENT, STREAM), done(50, EVENT), now=100)
    assert (seen.busy, seen.spans) == (90, 0)


def test_an_event_that_is_destroyed_closes_nothing():
    seen = use(launch(10), record(20, EVENT), destroy_event(25, EVENT), done(50, EVENT), now=100)
    assert (seen.busy, seen.spans) == (90, 0)


def test_a_recorded_event_is_not_another_processes():
    assert busy(launch(10), record(20, EVENT), done(50, EVENT, process=2), now=100) == [90]


def test_an_event_done_while_another_gpu_is_current_closes_the_stream_of_its_own():
    assert busy(launch(10), launch(10, device=1), record(20, EVENT), done(30, EVENT, device=1), now=100) == [20, 90]


def test_a_stream_that_is_destroyed_is_closed():
    assert busy(launch(10, STREAM), destroy_stream(30, STREAM)) == [20]


def test_a_handle_that_comes_back_is_another_stream():
    made = [launch(10, STREAM), record(12, EVENT, STREAM), destroy_stream(30, STREAM), launch(40, STREAM)]
    assert busy(*made, done(50, EVENT), now=100) == [20 + 60]
    assert busy(*made, sync(50, STREAM)) == [20 + 10]


def test_a_handle_that_comes_back_on_another_gpu_is_closed_there():
    assert busy(
        launch(10, STREAM), destroy_stream(30, STREAM), launch(40, STREAM, device=1), sync(50, STREAM), now=100
    ) == [20, 10]


def test_a_reset_closes_the_streams_of_its_gpu():
    assert busy(launch(10, STREAM), launch(10), launch(10, device=1), reset(30), now=100) == [20, 90]


def test_after_a_reset_the_gpu_goes_on():
    assert busy(launch(10), reset(30), launch(50), sync(60)) == [30]


def test_the_same_stream_of_two_processes_is_two():
    assert busy(launch(10, STREAM), launch(10, STREAM, process=2), sync(20, STREAM, process=2), now=100) == [90, 10]


def test_events_that_are_read_from_the_kernels_records_are_the_same():
    events = [launch(10, OWN_STREAM + 17), sync(30, OWN_STREAM + 17)]
    made = statistics()
    made.consume(kernel_layout.EVENT.iter_unpack(b''.join(kernel_layout.EVENT.pack(*event) for event in events)))
    assert made.get_and_flush(1000) == window(*events)


@pytest.mark.parametrize('kind', [0, 13, 999])
def test_an_event_of_a_kind_that_is_not_known_is_skipped(kind):
    strange = (15, *launch(15)[1:7], kind, 0, 17)
    assert window(launch(10), strange, sync(20)) == window(launch(10), sync(20))
