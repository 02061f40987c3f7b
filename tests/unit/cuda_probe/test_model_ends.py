"""Processes end: what they leave is told once, and then they are forgotten."""

from __future__ import annotations

from support.cuda.cuda_events import GPU, STREAM, allocation, end, free, launch, limits, reset, statistics, sync, window


def test_the_open_streams_of_a_process_end_with_it():
    seen = window(launch(10), launch(20, STREAM), launch(30, device=1), end(50), now=100)
    assert [(use.busy, use.spans, use.forced_spans) for use in seen.devices] == [(40, 2, 0), (20, 1, 0)]


def test_what_a_process_had_in_use_at_its_end_was_leaked():
    seen = window(allocation(10, 700), free(20, 300), allocation(30, 50, device=1), free(40, 0, device=1), end(50))
    assert [(use.memory_leaked, use.memory_current, use.memory_max) for use in seen.devices] == [
        (300, 0, 700),
        (0, 0, 50),
    ]


def test_nothing_is_leaked_while_a_process_runs():
    assert window(allocation(10, 700)).devices[0].memory_leaked is None


def test_after_a_reset_nothing_is_in_use():
    seen = window(allocation(10, 700), reset(20)).devices[0]
    assert (seen.memory_current, seen.memory_max, seen.memory_leaked) == (0, 700, None)
    assert window(allocation(10, 700), reset(20), end(30)).devices[0].memory_leaked == 0


def test_an_older_figure_of_memory_that_comes_late_is_not_the_present_one():
    seen = window(allocation(20, 700), allocation(10, 900)).devices[0]
    assert (seen.memory_current, seen.memory_max) == (700, 900)


def test_a_process_that_has_ended_is_told_once_more():
    made = statistics(launch(10), end(50))
    assert [process.has_ended for process in made.get_and_flush(100).processes] == [True]
    assert made.get_and_flush(200).processes == ()


def test_events_of_a_process_that_has_ended_are_left_out():
    made = statistics(launch(10), end(50), launch(60), sync(70), allocation(80, 5))
    first = made.get_and_flush(100)
    assert (first.devices[0].busy, first.devices[0].launches, first.devices[0].memory_max) == (40, 1, 0)
    assert first.dropped.late_events == 2
    made.consume([launch(110), launch(111), launch(112, process=2)])
    second = made.get_and_flush(200)
    assert [process.process for process in second.processes] == [2]
    assert second.dropped.late_events == 2


def test_a_process_that_called_nothing_ends_without_a_word():
    assert window(end(10, process=5)).processes == ()


def test_an_end_between_launches_leaves_the_other_processes():
    seen = window(launch(10), launch(10, process=2), end(20), launch(30, process=2), sync(40, process=2), now=100)
    assert [(use.process, use.launches, use.busy) for use in seen.devices] == [(1, 1, 10), (2, 2, 30)]


def test_an_end_whose_event_was_lost_can_be_told():
    made = statistics(allocation(5, 9), launch(10))
    made.end(1, 50)
    made.end(1, 90)
    made.consume([end(95)])
    seen = made.get_and_flush(100)
    assert [(use.busy, use.memory_leaked) for use in seen.devices] == [(40, 9)]
    assert [process.has_ended for process in seen.processes] == [True]
    assert made.get_and_flush(200).processes == ()


def test_an_end_that_was_told_before_its_process_was_seen_is_kept():
    made = statistics()
    made.end(1, 5)
    made.consume([launch(10)])
    assert made.get_and_flush(100).dropped.late_events == 1


def test_only_the_latest_ends_are_remembered():
    made = statistics(end(1, process=1), end(2, process=2), end(3, process=3), bounds=limits(ended=2))
    made.consume([launch(10, process=process) for process in (1, 2, 3)])
    seen = made.get_and_flush(100)
    assert [process.process for process in seen.processes] == [1]
    assert seen.dropped.late_events == 2


def test_where_a_process_ran_is_asked_anew_for_the_next():
    asked = []

    def placed(process, device):
        asked.append(process)
        return GPU

    made = statistics(launch(10), end(20), placed=placed)
    made.get_and_flush(100)
    made.consume([launch(110, process=2)])
    made.get_and_flush(200)
    assert asked == [1, 2]
    assert not made._placement._known.keys() - {(2, 0)}
