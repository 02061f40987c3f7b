"""The windows of a run add up to the run."""

from __future__ import annotations

from gpu_tracker.cuda_probe.model.window import Dropped, WindowSums
from support.cuda.cuda_events import GPU, KERNEL, STREAM, allocation, end, launch, limits, statistics, sync


def sums(made, *steps, ended=1024):
    """Return the run of statistics that get the events of each step and are asked at its end."""
    run = WindowSums(ended)
    for now, events in steps:
        made.consume(events)
        run.add(made.get_and_flush(now))
    return run


def test_busy_time_and_used_cores_are_those_of_all_windows():
    run = sums(
        statistics(),
        (100, [launch(50, threads=400)]),
        (400, [sync(110), launch(200, threads=100), launch(200, STREAM, threads=200), sync(290), sync(260, STREAM)]),
    )
    device = run.processes[1].devices[0]
    assert run.nanoseconds == 400
    assert (device.gpu, device.busy, device.seen, device.active) == (GPU, 150, 400, 0.375)
    assert (device.launches, device.mean_threads, device.spans, device.forced_spans) == (3, 700 / 3, 3, 0)
    assert device.used_cores.core_nanoseconds == 60 * 400 + 90 * 100 + 60 * 200
    assert device.used_cores.mean == 45_000 / 400
    assert device.used_cores.maximum == 200.0
    assert device.used_cores_normalised == device.used_cores
    process = run.processes[1]
    assert (process.busy, process.seen, process.active, process.has_ended) == (150, 400, 0.375, False)


def test_a_process_on_two_gpus_is_active_once():
    run = sums(statistics(), (100, [launch(10), launch(20, device=1), sync(30), sync(50, device=1)]))
    assert run.processes[1].busy == 40
    assert [device.busy for device in run.processes[1].devices.values()] == [20, 30]


def test_a_process_counts_from_the_window_in_which_it_came():
    run = sums(statistics(), (100, []), (200, [launch(150)]))
    assert (run.processes[1].seen, run.processes[1].active) == (100, 0.5)


def test_used_cores_are_those_of_the_windows_in_which_they_were_known():
    answers = [None, GPU]
    made = statistics(launch(0, threads=100), placed=lambda process, device: answers.pop(0))
    used = sums(made, (300, []), (400, [])).processes[1].devices[0].used_cores
    assert (used.mean, used.maximum, used.nanoseconds) == (100.0, 100.0, 100)


def test_used_cores_that_were_never_known_are_not():
    made = statistics(launch(0), placed=lambda process, device: None)
    used = sums(made, (100, [])).processes[1].devices[0].used_cores
    assert (used.mean, used.maximum) == (None, None)


def test_windows_without_length_have_no_rates():
    run = sums(statistics(launch(0), start=50), (50, []))
    assert run.processes[1].active is None
    assert run.processes[1].devices[0].active is None


def test_memory_is_the_last_and_the_most():
    run = sums(statistics(), (100, [allocation(1, 9), allocation(2, 4)]), (200, [allocation(110, 5)]))
    device = run.processes[1].devices[0]
    assert (device.memory_current, device.memory_max, device.memory_leaked) == (5, 9, None)
    assert device.mean_threads is None


def test_what_was_leaked_is_known_at_the_end():
    run = sums(statistics(), (100, [allocation(1, 9)]), (200, [end(110)]), (300, []))
    device = run.processes[1].devices[0]
    assert (device.memory_current, device.memory_max, device.memory_leaked) == (0, 9, 9)
    assert run.processes[1].has_ended
    assert run.processes[1].seen == 200


def test_kernels_have_the_time_of_all_windows():
    run = sums(statistics(), (100, [launch(50)]), (200, [sync(120), launch(130, kernel=9), sync(135)]))
    assert run.processes[1].kernels == {KERNEL: 70, 9: 5}


def test_what_was_dropped_adds_up():
    made = statistics(bounds=limits(streams=1))
    run = sums(made, (100, [launch(1, 1), launch(2, 2)]), (200, [launch(101, 2), end(102), launch(103)]))
    assert run.dropped == Dropped(stream_launches=2, late_events=1)


def test_of_processes_that_have_ended_only_the_latest_are_remembered():
    steps = [(number * 100, [launch(number * 100 - 50, process=number)]) for number in (1, 2)]
    ends = [(300, [end(250, process=2)]), (400, [end(350, process=1)])]
    run = sums(statistics(), *steps, *ends, (500, [launch(450, process=3)]), ended=1)
    assert list(run.processes) == [1, 3]
    assert run.forgotten == 1
