"""What is counted of a GPU and of its processes, reading after reading."""

from __future__ import annotations

from gpu_tracker.atopgpud.counters import REMEMBERED, GpuCounters, ProcessCounters, count, opened_anew
from gpu_tracker.gpus.model import Account, GpuProcess
from support.gpus.gpu_readings import monitored

KIB = 1024
SAME = {7: 100.0, 8: 200.0}
"""Processes 7 and 8, with the times at which they started."""


def counted(*readings, starts=SAME):
    """Return the counters after all readings, and the processes that the last one has found to have ended."""
    gpu, ended = GpuCounters(), ()
    for reading in readings:
        gpu, ended = count(gpu, reading, starts)
    return gpu, ended


def reading(*processes, busy=75, memory_busy=40):
    return monitored(None, busy, memory_busy, 80 * KIB, 4 * KIB, tuple(processes))


def test_a_gpu_starts_from_nothing():
    assert GpuCounters()[:9] == (False, None, None, 0, 0, 0, 0, 0, 0)
    assert ProcessCounters(7)[7:] == (0, 0, 0, 0, 0, False)


def test_the_figures_of_now_are_the_last_reading_and_the_others_sums():
    first = monitored(None, 75, 40, 80 * KIB, 4 * KIB, ())
    second = monitored(None, 25, 0, 80 * KIB, 5 * KIB + 1023, ())
    assert counted(first, second)[0][:9] == (True, 25, 0, 80, 5, 2, 100, 40, 9)


def test_sums_go_on_beyond_32_bits():
    before = GpuCounters(samples=2**32, busy_total=2**33, memory_busy_total=2**34, memory_total=2**60)
    after = count(before, monitored(None, 1, 1, 2**50, 2**50, ()), {}).gpu
    assert after[5:9] == (2**32 + 1, 2**33 + 1, 2**34 + 1, 2**60 + 2**40)


def test_a_gpu_without_utilization_counts_its_memory():
    gpu, _ = counted(monitored(None, None, None, 80 * KIB, 4 * KIB, ()), reading(busy=None, memory_busy=None))
    assert gpu[:9] == (True, None, None, 80, 4, 2, 0, 0, 8)


def test_a_reading_that_fails_counts_nothing():
    before, _ = counted(reading(GpuProcess(7, KIB, utilization=3)))
    failed, ended = count(before, monitored('is lost'), {})
    assert failed == before._replace(is_readable=False)
    assert ended == ()


def test_after_a_failure_the_sums_go_on():
    assert counted(reading(), monitored('is lost'), reading())[0][5:9] == (2, 150, 80, 8)


def test_a_process_on_several_mig_devices_counts_once():
    on_one = GpuProcess(7, 5 * KIB, gpu_instance=1)
    on_two = GpuProcess(7, 6 * KIB, computes=False, draws=True, gpu_instance=2)
    unknown = GpuProcess(8, None, gpu_instance=2)
    gpu, _ = counted(reading(on_one, on_two, unknown))
    assert [(one.pid, one.computes, one.draws, one.memory) for one in gpu.processes.values()] == [
        (7, True, True, 11),
        (8, True, False, 0),
    ]


def test_a_process_is_counted_from_its_first_reading_on():
    process = GpuProcess(7, 30 * KIB, computes=True, draws=True, utilization=70, memory_utilization=35)
    gpu, ended = counted(reading(), reading(process), reading(process._replace(utilization=10, memory=31 * KIB)))
    assert gpu.processes == {7: ProcessCounters(7, 100.0, True, True, 10, 35, 0, 31, 2, 80, 70, 61)}
    assert ended == ()


def test_an_account_is_what_version_1_shows_and_no_part_of_a_sum():
    process = GpuProcess(7, 30 * KIB, utilization=4, memory_utilization=2, account=(70, 35))
    gpu, _ = counted(reading(process), reading(process))
    assert gpu.processes == {7: ProcessCounters(7, 100.0, True, False, 70, 35, 0, 30, 2, 8, 4, 60)}


def test_version_1_shows_nothing_of_a_process_without_an_account_and_version_2_its_samples():
    process = GpuProcess(7, 30 * KIB, utilization=4, memory_utilization=2, account=(None, None))
    gpu, _ = counted(reading(process), reading(process))
    assert gpu.processes == {7: ProcessCounters(7, 100.0, True, False, None, None, 0, 30, 2, 8, 4, 60)}


def test_unknown_figures_of_a_process_stay_unknown():
    gpu, _ = counted(reading(GpuProcess(7)), reading(GpuProcess(7)))
    assert gpu.processes == {7: ProcessCounters(7, 100.0, True, False, None, None, 0, 0, 2, None, None, 0)}


def test_a_reading_that_does_not_tell_how_busy_a_process_is_takes_no_part_in_its_sums():
    gpu, _ = counted(
        reading(GpuProcess(7, 10 * KIB, utilization=70, memory_utilization=1)),
        reading(GpuProcess(7, 20 * KIB, utilization=None, memory_utilization=1)),
        reading(GpuProcess(7, 30 * KIB, utilization=5, memory_utilization=1)),
    )
    assert gpu.processes == {7: ProcessCounters(7, 100.0, True, False, 5, 1, 0, 30, 2, 75, 2, 40)}


def test_of_a_process_that_begins_without_it_nobody_will_know_how_busy_it_was():
    gpu, _ = counted(reading(GpuProcess(7)), reading(GpuProcess(7, utilization=5, memory_utilization=1)))
    assert gpu.processes == {7: ProcessCounters(7, 100.0, True, False, 5, 1, 0, 0, 2, None, None, 0)}


def test_a_reading_without_utilization_takes_no_part_in_means_with_it():
    known = monitored(None, 75, 40, 80 * KIB, 4 * KIB, ())
    unknown = known._replace(utilization=None)
    gpu, _ = counted(known, unknown)
    assert gpu[:9] == (True, None, 40, 80, 4, 1, 75, 40, 4)
    assert count(gpu, known, {}).gpu[:9] == (True, 75, 40, 80, 4, 2, 150, 80, 8)


def test_a_gpu_that_was_opened_anew_may_tell_less():
    known = monitored(None, 75, 40, 80 * KIB, 4 * KIB, ())
    gpu, _ = counted(known)
    after = count(opened_anew(gpu), known._replace(utilization=None, memory_utilization=None), {}).gpu
    assert after[:9] == (True, None, None, 80, 4, 2, 75, 40, 8)


GONE = {}
"""Neither process 7 nor 8 lives."""


def test_a_process_that_has_ended_is_told_once_with_its_last_figures():
    process = GpuProcess(7, 30 * KIB, utilization=70, memory_utilization=35)
    before, _ = counted(reading(process), reading(process))
    after, ended = count(before, reading(), GONE)
    assert ended == (ProcessCounters(7, 100.0, True, False, 70, 35, 0, 30, 2, 140, 70, 60),)
    assert (after.processes, after.left) == ({}, {})
    assert count(after, reading(), GONE).ended == ()


def test_an_account_tells_more_of_a_process_that_has_ended():
    before, _ = counted(reading(GpuProcess(7, 30 * KIB, utilization=70, memory_utilization=35)))
    _, ended = count(before, reading()._replace(ended=(Account(7, 61, 31, 12345), Account(9, 1, 1, 1))), GONE)
    assert ended == (ProcessCounters(7, 100.0, True, False, 61, 31, 12345, 30, 1, 70, 35, 30),)


def test_a_process_that_has_left_and_lives_on_has_not_ended():
    process = GpuProcess(7, 30 * KIB, utilization=70, memory_utilization=35)
    gpu, ended = counted(reading(process), reading())
    assert ended == ()
    assert gpu.processes == {}
    assert gpu.left == {7: ProcessCounters(7, 100.0, True, False, 0, 0, 0, 0, 1, 70, 35, 30, has_left=True)}
    _, ended = count(gpu, reading(), GONE)
    assert ended == (gpu.left[7],)


def test_a_process_that_comes_back_goes_on():
    process = GpuProcess(7, 30 * KIB, utilization=70, memory_utilization=35)
    gpu, ended = counted(reading(process), reading(), reading(), reading(process))
    assert gpu.processes == {7: ProcessCounters(7, 100.0, True, False, 70, 35, 0, 30, 2, 140, 70, 60)}
    assert gpu.left == {}
    assert ended == ()


def test_another_process_of_the_same_id_begins_anew():
    process = GpuProcess(7, 30 * KIB, utilization=70, memory_utilization=35)
    before, _ = counted(reading(process), reading(process))
    gpu, ended = count(before, reading(process), {7: 555.0})
    assert gpu.processes == {7: ProcessCounters(7, 555.0, True, False, 70, 35, 0, 30, 1, 70, 35, 30)}
    assert ended == (ProcessCounters(7, 100.0, True, False, 70, 35, 0, 30, 2, 140, 70, 60),)
    left, _ = count(before, reading(), SAME)
    gpu, ended = count(left, reading(process), {7: 555.0})
    assert gpu.processes[7].samples == 1
    assert [process.started for process in ended] == [100.0]


def test_a_process_that_cannot_be_told_from_others_has_ended_when_it_leaves():
    before, _ = counted(reading(GpuProcess(9, KIB)))
    assert [process.pid for process in count(before, reading(), SAME).ended] == [9]


def test_where_processes_are_not_listed_nobody_has_ended():
    before, _ = counted(reading(GpuProcess(7, KIB), GpuProcess(8, KIB)))
    unlisted, ended = count(before, monitored(None, 1, 1, KIB, KIB, None), GONE)
    assert ended == ()
    assert not unlisted.are_listed
    listed, ended = count(unlisted, reading(GpuProcess(8, KIB)), {8: 200.0})
    assert [process.pid for process in ended] == [7]
    assert listed.processes[8].samples == 2


def test_only_so_many_who_have_left_are_remembered():
    starts = {pid: float(pid) for pid in range(1, 3 * REMEMBERED)}
    gpu = GpuCounters()
    for pid in starts:
        gpu, ended = count(gpu, reading(GpuProcess(pid, KIB)), starts)
        assert ended == ()
    assert list(gpu.left) == list(range(2 * REMEMBERED - 1, 3 * REMEMBERED - 1))
    assert list(gpu.processes) == [3 * REMEMBERED - 1]
