"""A stream gathers launches, and what waits for them closes them into a span."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.cuda_probe.model.span import Span
from gpu_tracker.cuda_probe.model.streams import Stream
from support.cuda.cuda_events import KERNEL, limits

OTHER = KERNEL + 64


def stream(**bounds):
    return Stream(limits(**bounds), {}, int)


def launched(*times, threads=100, kernel=KERNEL, **bounds):
    made = stream(**bounds)
    for time in times:
        made.launch(time, kernel, threads)
    return made


def span(begin, end, launches=1, threads=100, kernels=None, *, forced=False):
    return Span(begin, end, launches, threads, kernels or {KERNEL: launches}, forced)


def test_a_span_reaches_from_the_first_launch_to_the_synchronisation():
    assert launched(10, 20, 30).synchronise(50) == span(10, 50, 3, 300)


def test_a_span_knows_the_launches_of_each_kernel():
    made = launched(10, 11)
    made.launch(12, OTHER, 5)
    assert made.synchronise(20) == span(10, 20, 3, 205, {KERNEL: 2, OTHER: 1})


def test_without_launches_a_synchronisation_closes_nothing():
    assert stream().synchronise(50) is None
    assert stream().finish(50) is None
    assert stream().so_far(50) is None


def test_a_synchronisation_closes_once():
    made = launched(10)
    assert made.synchronise(20) == span(10, 20)
    assert made.synchronise(30) is None


def test_launches_after_a_synchronisation_are_a_span_of_their_own():
    made = launched(10)
    made.synchronise(20)
    made.launch(30, KERNEL, 7)
    assert made.synchronise(40) == span(30, 40, threads=7)


def test_a_span_that_is_open_can_be_looked_at_and_goes_on():
    made = launched(10)
    assert made.so_far(15) == span(10, 15)
    made.launch(20, KERNEL, 100)
    assert made.so_far(25) == span(10, 25, 2, 200)
    assert made.synchronise(30) == span(10, 30, 2, 200)


def test_a_stream_is_among_those_that_work_from_its_first_launch_to_its_last_closing():
    working = {}
    made = Stream(limits(), working, int)
    made.launch(10, KERNEL, 1)
    assert list(working) == [made]
    place = made.record()
    made.launch(20, KERNEL, 1)
    made.complete(place, 30)
    assert list(working) == [made]
    made.synchronise(40)
    assert not working


def test_what_nothing_synchronises_is_closed_so_long_after_its_newest_launch():
    made = launched(10, 50, open_for=100)
    assert made.expire(150) is None
    assert made.expire(151) == span(10, 150, 2, 200, forced=True)
    assert made.expire(999) is None


def test_a_synchronisation_that_comes_too_late_finds_the_span_closed():
    assert launched(10, open_for=100).synchronise(500) == span(10, 110, forced=True)
    assert launched(10, open_for=100).finish(500) == span(10, 110, forced=True)
    made = launched(10, open_for=100)
    assert made.complete(made.record(), 500) == span(10, 110, forced=True)


def test_a_launch_long_after_the_newest_one_begins_anew():
    made = launched(10, open_for=100)
    assert made.launch(111, KERNEL, 100) == span(10, 110, forced=True)
    assert made.synchronise(120) == span(111, 120)


def test_a_launch_and_a_synchronisation_at_the_last_moment_are_in_time():
    made = launched(10, open_for=100)
    assert made.launch(110, KERNEL, 100) is None
    assert made.synchronise(210) == span(10, 210, 2, 200)


def test_a_launch_long_after_recorded_ones_begins_anew():
    made = launched(10, open_for=100)
    made.record()
    assert made.launch(300, KERNEL, 100) == span(10, 110, forced=True)


def test_a_run_that_has_grown_too_long_is_closed_at_its_newest_launch():
    made = launched(10, 20, 30, launches_a_span=3)
    assert made.launch(40, KERNEL, 100) == span(10, 40, 3, 300, forced=True)
    assert made.synchronise(50) == span(40, 50)


def test_recorded_launches_count_for_the_length_of_a_run():
    made = launched(10, 20, launches_a_span=3)
    made.record()
    assert made.launch(30, KERNEL, 100) is None
    assert made.launch(40, KERNEL, 100) == span(10, 40, 3, 300, forced=True)
    full = launched(10, 20, launches_a_span=2)
    full.record()
    assert full.launch(30, KERNEL, 100) == span(10, 30, 2, 200, forced=True)


def test_an_event_closes_what_is_before_its_record():
    made = launched(10, 20)
    place = made.record()
    made.launch(30, OTHER, 7)
    assert made.complete(place, 25) == span(10, 25, 2, 200)
    assert made.synchronise(50) == span(30, 50, 1, 7, {OTHER: 1})


def test_what_was_launched_after_the_record_begins_where_the_event_was_done():
    made = launched(10)
    place = made.record()
    made.launch(20, KERNEL, 100)
    assert made.complete(place, 40) == span(10, 40)
    assert made.so_far(60) == span(40, 60)


def test_an_event_closes_what_is_before_earlier_records_too():
    made = launched(10)
    made.record()
    made.launch(20, OTHER, 1)
    second = made.record()
    assert made.complete(second, 30) == span(10, 30, 2, 101, {KERNEL: 1, OTHER: 1})


def test_of_two_records_the_earlier_leaves_the_later():
    made = launched(10)
    first = made.record()
    made.launch(20, KERNEL, 100)
    second = made.record()
    assert made.complete(first, 25) == span(10, 25)
    assert made.complete(first, 26) is None
    assert made.complete(second, 30) == span(25, 30)


def test_records_at_the_same_place_are_the_same_place():
    made = launched(10)
    assert made.record() == made.record() == 1
    assert made.complete(1, 20) == span(10, 20)
    assert made.record() is None


def test_a_record_that_was_synchronised_in_another_way_closes_nothing():
    made = launched(10)
    place = made.record()
    made.synchronise(20)
    made.launch(30, KERNEL, 100)
    assert made.complete(place, 40) is None
    assert made.synchronise(50) == span(30, 50)


def test_past_the_limit_the_oldest_record_waits_for_the_next():
    made = launched(10, records=2)
    first = made.record()
    made.launch(20, KERNEL, 100)
    second = made.record()
    made.launch(30, KERNEL, 100)
    third = made.record()
    assert made.complete(first, 35) is None
    assert made.complete(second, 40) == span(10, 40, 2, 200)
    assert made.complete(third, 50) == span(40, 50)


def test_a_launch_that_comes_late_begins_the_span():
    made = launched(20)
    made.launch(10, KERNEL, 100)
    assert made.synchronise(50) == span(10, 50, 2, 200)


def test_a_launch_that_comes_after_the_synchronisation_that_it_was_before_does_not_reach_into_its_span():
    made = launched(10)
    made.synchronise(50)
    made.launch(40, KERNEL, 100)
    assert made.so_far(60) == span(50, 60)
    made.launch(30, KERNEL, 100)
    assert made.synchronise(70) == span(50, 70, 2, 200)


def test_a_synchronisation_that_comes_late_leaves_what_was_launched_after_it():
    assert launched(20).synchronise(10) is None
    made = launched(10, 20, 30)
    assert made.synchronise(25) == Span(10, 25, 2, 200, {KERNEL: 3})
    assert made.synchronise(50) == Span(30, 50, 1, 100, {KERNEL: 3})


def test_a_synchronisation_that_comes_late_closes_recorded_launches_before_it():
    made = launched(10)
    made.record()
    made.launch(30, KERNEL, 100)
    assert made.synchronise(20) == span(10, 20)
    assert made.synchronise(40) == span(30, 40)


def test_an_event_done_before_its_launches_makes_a_span_without_length():
    made = launched(10)
    assert made.complete(made.record(), 5) == span(10, 10)


def test_a_synchronisation_before_the_end_of_the_span_before_makes_one_without_length():
    made = launched(10, launches_a_span=1)
    made.launch(5, KERNEL, 100)
    assert made.synchronise(7) == span(10, 10)
    recorded = launched(10)
    place = recorded.record()
    recorded.launch(20, KERNEL, 100)
    recorded.complete(place, 40)
    assert recorded.synchronise(30) == span(40, 40)


def test_an_end_before_the_newest_launch_reaches_to_that():
    assert launched(10, 20).finish(15) == span(10, 20, 2, 200)


def test_times_that_stand_still_make_spans_without_length():
    made = launched(10, 10)
    assert made.synchronise(10) == span(10, 10, 2, 200)


times = st.integers(0, 30)
calls = st.lists(
    st.tuples(st.sampled_from(['launch', 'launch', 'synchronise', 'record', 'reach', 'finish', 'expire']), times)
)


@given(calls, st.integers(1, 4), st.integers(1, 12), st.integers(1, 3))
def test_at_any_times_spans_do_not_overlap_and_no_launch_is_lost(made, longest, open_for, records):
    bounds = {'launches_a_span': longest, 'open_for': open_for, 'records': records}
    one, spans, places, launches = stream(**bounds), [], [], 0
    for call, time in made:
        match call:
            case 'launch':
                launches += 1
                closed = one.launch(time, KERNEL, 10)
            case 'record':
                places.append(one.record())
                closed = None
            case 'reach':
                place = places.pop() if places else None
                closed = place and one.complete(place, time)
            case _:
                closed = getattr(one, call)(time)
        spans += [closed] if closed else []
    spans += [last] if (last := one.finish(99)) else []
    assert sum(each.launches for each in spans) == launches
    assert sum(each.threads for each in spans) == 10 * launches
    assert all(each.begin <= each.end and 0 < each.launches <= longest for each in spans)
    assert all(before.end <= after.begin for before, after in pairwise(spans))
