"""A window tells what there was between its two ends, and nothing twice."""

from __future__ import annotations

from support.cuda.cuda_events import KERNEL, STREAM, allocation, launch, limits, statistics, sync, use, window

OTHER = STREAM + 4096


def told(window):
    (only,) = window.devices
    return only.busy, only.active


def test_nothing_is_told_of_nothing():
    seen = window(now=100)
    assert (seen.start, seen.end, seen.length) == (0, 100, 100)
    assert (seen.devices, seen.processes, dict(seen.kernels)) == ((), (), {})


def test_active_is_the_busy_part_of_the_window():
    assert told(window(launch(10), sync(30), launch(50), sync(60), now=100)) == (30, 0.3)


def test_streams_side_by_side_are_active_once():
    assert told(window(launch(10, STREAM), launch(20, OTHER), sync(30, STREAM), sync(50, OTHER), now=100)) == (40, 0.4)


def test_gpus_side_by_side_make_the_process_active_once():
    seen = window(launch(10), launch(20, device=1), sync(30), sync(50, device=1), now=100)
    assert [device.active for device in seen.devices] == [0.2, 0.3]
    assert [(process.busy, process.active, process.has_ended) for process in seen.processes] == [(40, 0.4, False)]


def test_a_launch_that_nothing_has_synchronised_is_active_until_now():
    assert told(window(launch(60), now=100)) == (40, 0.4)


def test_a_launch_that_nothing_has_synchronised_is_active_only_so_long():
    assert told(window(launch(10), now=100, bounds=limits(open_for=30))) == (30, 0.3)


def test_a_run_goes_on_in_the_next_window():
    made = statistics(launch(60))
    assert told(made.get_and_flush(100)) == (40, 0.4)
    assert told(made.get_and_flush(150)) == (50, 1.0)
    made.consume([sync(175)])
    assert told(made.get_and_flush(200)) == (25, 0.5)
    assert told(made.get_and_flush(300)) == (0, 0.0)


def test_a_run_that_is_closed_for_its_age_goes_on_no_more():
    made = statistics(launch(60), bounds=limits(open_for=60))
    windows = [made.get_and_flush(now) for now in (100, 150, 200)]
    assert [told(window) for window in windows] == [(40, 0.4), (20, 0.4), (0, 0.0)]
    assert [window.devices[0].forced_spans for window in windows] == [0, 1, 0]


def test_launches_count_where_they_came_and_spans_where_they_closed():
    made = statistics(launch(60, threads=10), launch(61, threads=20))
    first = made.get_and_flush(100).devices[0]
    made.consume([launch(110, threads=90), sync(150)])
    second = made.get_and_flush(200).devices[0]
    assert (first.launches, first.threads, first.mean_threads, first.spans) == (2, 30, 15.0, 0)
    assert (second.launches, second.threads, second.mean_threads, second.spans) == (1, 90, 90.0, 1)


def test_a_window_without_launches_has_no_mean_threads():
    assert use(allocation(10, 5)).mean_threads is None


def test_a_span_that_ends_after_the_window_is_told_in_both():
    made = statistics(launch(60), sync(130))
    assert told(made.get_and_flush(100)) == (40, 0.4)
    assert told(made.get_and_flush(200)) == (30, 0.3)


def test_a_span_that_begins_after_the_window_is_told_in_the_next():
    made = statistics(launch(160), sync(170))
    assert told(made.get_and_flush(100)) == (0, 0.0)
    assert told(made.get_and_flush(200)) == (10, 0.1)


def test_a_launch_after_the_window_is_told_in_the_next():
    made = statistics(launch(160))
    assert told(made.get_and_flush(100)) == (0, 0.0)
    assert told(made.get_and_flush(200)) == (40, 0.4)


def test_what_comes_late_is_told_as_far_as_it_is_in_the_window():
    made = statistics()
    made.get_and_flush(100)
    made.consume([launch(60), sync(90), launch(95), sync(120)])
    late = made.get_and_flush(200).devices[0]
    assert (late.busy, late.launches, late.spans) == (20, 2, 2)


def test_a_synchronisation_that_comes_late_is_told_no_further():
    made = statistics(launch(60))
    made.get_and_flush(100)
    made.consume([sync(95)])
    assert told(made.get_and_flush(200)) == (0, 0.0)


def test_what_was_before_the_first_window_is_not_told():
    assert told(statistics(launch(10), sync(60), start=50).get_and_flush(150)) == (10, 0.1)


def test_a_window_without_length_has_counts_and_no_rates():
    made = statistics(launch(60), sync(70), start=100)
    seen = made.get_and_flush(100).devices[0]
    assert (seen.launches, seen.spans, seen.busy) == (1, 1, 0)
    assert (seen.active, seen.used_cores, seen.used_cores_normalised) == (None, None, None)
    assert made.get_and_flush(100).processes[0].active is None


def test_a_clock_that_goes_back_makes_a_window_without_length():
    made = statistics(launch(60))
    assert made.get_and_flush(100).end == 100
    seen = made.get_and_flush(70)
    assert (seen.start, seen.end, told(seen)) == (100, 100, (0, None))
    assert told(made.get_and_flush(120)) == (20, 1.0)


def test_an_idle_process_is_told_in_each_window():
    made = statistics(launch(10), sync(20))
    made.get_and_flush(100)
    assert [process.busy for process in made.get_and_flush(200).processes] == [0]


def test_the_most_memory_is_that_of_the_window():
    made = statistics(allocation(10, 700), allocation(20, 300))
    seen = [made.get_and_flush(100).devices[0], made.get_and_flush(200).devices[0]]
    assert [(use.memory_current, use.memory_max) for use in seen] == [(300, 700), (300, 300)]


def test_uses_and_processes_are_in_order():
    seen = window(launch(1, process=9), launch(2, process=3, device=1), launch(3, process=3))
    assert [(use.process, use.device) for use in seen.devices] == [(3, 0), (3, 1), (9, 0)]
    assert [use.process for use in seen.processes] == [3, 9]


def test_kernels_are_told_by_process():
    seen = window(launch(10), sync(30), launch(10, process=2), sync(15, process=2), now=100)
    assert seen.kernels == {(1, KERNEL): 20, (2, KERNEL): 5}
