"""What the model holds stays within its limits, and what finds no room is counted."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from gpu_tracker.cuda_probe.limits import ModelLimits
from gpu_tracker.cuda_probe.model.window import Dropped
from gpu_tracker.errors import ParameterError
from support.cuda.cuda_events import (
    KERNEL,
    OWN_STREAM,
    STREAM,
    allocation,
    done,
    end,
    launch,
    limits,
    record,
    statistics,
    sync,
    window,
)

SECOND = 1_000_000_000


def test_launches_to_more_streams_than_have_room_are_counted_without_times():
    seen = window(launch(10, 1), launch(20, 2), launch(30, 2), sync(40, 2), sync(50, 1), bounds=limits(streams=1))
    assert (seen.devices[0].launches, seen.devices[0].threads, seen.devices[0].busy) == (3, 300, 40)
    assert seen.dropped == Dropped(stream_launches=2)


def test_a_stream_without_work_makes_room_after_a_window():
    made = statistics(launch(10, 1), sync(20, 1), bounds=limits(streams=1))
    made.get_and_flush(100)
    made.consume([launch(110, 2), sync(120, 2)])
    assert made.get_and_flush(200).devices[0].busy == 10


def test_a_stream_with_work_keeps_its_room():
    made = statistics(launch(10, 1), bounds=limits(streams=1))
    for now in (100, 200, 300):
        made.get_and_flush(now)
    made.consume([sync(310, 1)])
    assert made.get_and_flush(400).devices[0].busy == 10


def test_past_the_limit_the_oldest_recorded_event_is_forgotten():
    events = [launch(10, 1), record(11, 0xE1, 1), launch(20, 2), record(21, 0xE2, 2), done(40, 0xE1), done(50, 0xE2)]
    seen = window(*events, now=100, bounds=limits(events=1))
    assert (seen.devices[0].spans, seen.dropped) == (1, Dropped(records=1))
    assert window(*events, now=100, bounds=limits(events=2)).devices[0].spans == 2


def test_an_event_that_is_recorded_again_is_the_newest():
    seen = window(
        launch(10, 1),
        launch(10, 2),
        launch(10, 3),
        record(11, 0xE1, 1),
        record(12, 0xE2, 2),
        record(13, 0xE1, 1),
        record(14, 0xE3, 3),
        done(20, 0xE1),
        done(20, 0xE3),
        bounds=limits(events=2),
    )
    assert seen.devices[0].spans == 2


def test_events_of_more_processes_than_have_room_are_left_out():
    made = statistics(launch(10), launch(20, process=2), launch(21), allocation(30, 5, process=2), end(40))
    assert [use.process for use in made.get_and_flush(100).processes] == [1, 2]
    made = statistics(
        launch(10), launch(20, process=2), launch(21), allocation(30, 5, process=2), bounds=limits(processes=1)
    )
    seen = made.get_and_flush(100)
    assert [(use.process, use.launches) for use in seen.devices] == [(1, 2)]
    assert seen.dropped == Dropped(process_events=2)
    made.consume([end(110), launch(120, process=2)])
    assert [use.process for use in made.get_and_flush(200).processes] == [1]
    made.consume([launch(220, process=2)])
    assert [use.process for use in made.get_and_flush(300).processes] == [2]


def test_what_is_dropped_is_told_once():
    made = statistics(launch(10, 1), launch(20, 2), bounds=limits(streams=1))
    assert made.get_and_flush(100).dropped == Dropped(stream_launches=1)
    assert made.get_and_flush(200).dropped == Dropped()


def test_spans_that_are_too_many_to_hold_are_added_up_at_once():
    events = [event for time in range(0, 100, 10) for event in (launch(time), sync(time + 5))]
    assert window(*events, bounds=limits(spans_held=1)) == window(*events)
    assert window(*events).devices[0].spans == 10


def test_a_window_reaches_to_where_spans_were_added_up():
    made = statistics(launch(10), sync(150), bounds=limits(spans_held=1))
    seen = made.get_and_flush(100)
    assert (seen.end, seen.devices[0].busy) == (150, 140)
    assert made.get_and_flush(200).start == 150


def test_a_span_that_comes_late_takes_nothing_back_of_what_was_added_up():
    made = statistics(launch(60, STREAM), bounds=limits(spans_held=1))
    made.get_and_flush(100)
    made.consume([launch(70), sync(90)])
    assert made.get_and_flush(200).devices[0].busy == 100


@pytest.mark.parametrize('name', ['open_seconds', 'launches_a_span', 'spans_held', 'streams', 'ended'])
def test_a_limit_is_more_than_nothing(name):
    with pytest.raises(ParameterError, match=f'^{name} must be more than 0, not 0$'):
        ModelLimits(**{name: 0})


def day(process):
    """Yield what a process does in a window that leaves as much behind as it can."""
    time = process * SECOND
    for number in range(40):
        time += 1000
        yield launch(time, OWN_STREAM + process * 1000 + number, KERNEL + number, process=process)
        yield record(time, process * 1000 + number, OWN_STREAM + process * 1000 + number, process=process)
        yield launch(time, STREAM, KERNEL + number, process=1)
        yield record(time, process * 1000 + number, STREAM, process=1)
    yield allocation(time, 500, process=process)
    yield end(time, process=process)


def test_memory_does_not_grow_with_time():
    made = statistics(bounds=ModelLimits(1.5, 50, 20, 30, 4, 20, 20, 5, 5))
    sizes = {}
    tracemalloc.start()
    try:
        for process in range(2, 32):
            made.consume(day(process))
            made.get_and_flush((process + 1) * SECOND)
            if process in {11, 31}:
                gc.collect()  # what the interpreter keeps for its next tuples does not count
                sizes[process] = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert sizes[31] < sizes[11] + 3_000
