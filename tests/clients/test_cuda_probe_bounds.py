"""At full rate and past its bounds: totals are complete, what is left out is told, and room is given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.limits import Limits
from support.cuda.cuda_comparison import assert_agree, assert_told_truly
from support.cuda.probed_program import Probed, opened, probed, probing
from support.cuda_stand_in import stand_in
from support.waiting import eventually

if TYPE_CHECKING:
    from gpu_tracker.cuda_probe.cuda_report import CudaReport

SMALLEST_RING = Limits(ring_bytes=65_536)
FULL_RATE = """
    threads 2 { launches 150000 axpy default 2 1 1 32 1 1; churn 10000 4096; alloc a 30 }
    syncs 1000 default; fail_alloc
"""
FULL_RATE_EVENTS = 2 * (150_000 + 2 * 10_000 + 1) + 1000 + 1


def notes(report: CudaReport) -> list[str]:
    """Return the notes but the one that every program that waits at its begin has."""
    return [note for note in report.notes if 'ran before the probe' not in note]


def bounded(script: str, **limits: int) -> Probed:
    return probed(script, limits=Limits(**limits))


def assert_complete(report: CudaReport) -> None:
    """Compare with what the script at full rate does."""
    (process,) = report.processes
    assert (process.launches, process.mean_threads, process.synchronisations) == (300_000, 64, 1000)
    assert (process.allocations, process.frees, process.memory_leaked) == (20_002, 20_000, 60)
    assert (process.allocated, process.freed) == (20_000 * 4096 + 60, 20_000 * 4096)
    assert [kernel.launches for kernel in process.kernels] == [300_000]
    assert [failure.count for failure in process.failures] == [1]
    assert report.events + report.events_lost == FULL_RATE_EVENTS


def test_totals_are_complete_at_full_rate_though_nobody_reads_the_events():
    with (
        opened(libraries=[str(stand_in().runtime)], limits=SMALLEST_RING) as probe,
        stand_in().started(f'wait; {FULL_RATE}') as running,
    ):
        running.wait_until_waiting()
        probe.follow(running.pid)
        running.go_on()
        running.finish()
        report = probe.report()
    assert_complete(report)
    assert report.events == 65_536 // 64 - 1  # the first ones, until the ring was full
    assert notes(report) == [
        (
            f'Events that came too fast to be read: {report.events_lost:,} of {FULL_RATE_EVENTS:,}. Active time, used '
            'cores and the time of kernels lack these events. Counts and bytes are complete.'
        )
    ]


@pytest.mark.parametrize('limits', [SMALLEST_RING, Limits()], ids=['a small ring', 'the usual ring'])
def test_totals_are_complete_at_full_rate_whatever_is_lost_meanwhile(limits: Limits):
    report = probed(FULL_RATE, limits=limits).report
    assert_complete(report)
    assert len(notes(report)) == (report.events_lost > 0)


def test_nothing_is_lost_at_a_usual_rate():
    seen = probed('pace 50000; launches 50000 axpy default 2 1 1 32 1 1; sync default')
    assert_told_truly(seen)
    assert (seen.report.events, seen.report.events_lost, notes(seen.report)) == (50_002, 0, [])


def test_allocations_past_the_bound_are_counted_but_their_end_is_not_seen():
    seen = bounded('allocs 30 100; free_all', allocations=10)
    assert seen.truth.device.frees == 30
    process = seen.process
    assert (process.allocations, process.allocated, process.memory_max) == (30, 3000, 3000)
    assert (process.frees, process.memory_leaked) == (10, 2000)
    assert notes(seen.report) == [
        'Allocations beyond the limit "allocations": 20. The probe may have missed their frees.'
    ]


def test_kernels_past_the_bound_are_in_the_totals_only():
    names = ('axpy', 'gemm', 'reduce', 'plain')
    seen = bounded('; '.join(f'launches 10 {name} default 1 1 1 2 1 1' for name in names), kernels=2)
    assert (seen.process.launches, seen.process.mean_threads) == (40, 2)
    assert [kernel.launches for kernel in seen.process.kernels] == [10, 10]
    assert notes(seen.report) == [
        'Launches without the name of their kernel: 20. The limit "kernels" allows no more kernels.'
    ]


def test_kernels_that_are_not_listed_are_counted_and_told():
    names = ('axpy', 'gemm', 'reduce', 'plain')
    seen = bounded('; '.join(f'launches 10 {name} default 1 1 1 2 1 1' for name in names), kernels_told=1)
    assert (seen.process.launches, seen.process.kernels_total) == (40, 4)
    assert len(seen.process.kernels) in {1, 2}  # the most launched one, and the one with the most time
    left_out = 4 - len(seen.process.kernels)
    (note,) = notes(seen.report)
    assert note == (
        f'Kernels not listed one by one: {left_out}, beyond the limit "kernels_told". Their launches are counted.'
    )


def test_streams_past_the_bound_are_not_told_apart():
    seen = bounded('default_stream own; threads 5 { launches 10 axpy default 1 1 1 2 1 1 }', streams=2)
    assert (seen.process.streams, seen.process.launches) == (2, 50)
    assert notes(seen.report) == [
        'Launches on streams beyond the limit "streams": 30. More streams were used than reported.'
    ]


def test_threads_past_the_bound_are_left_out():
    seen = bounded('alloc a 10; threads 1 { threads 1 { threads 1 { alloc b 1; alloc c 1 } } }; alloc d 10', threads=1)
    assert (seen.process.allocations, seen.process.memory_leaked) == (2, 20)
    assert notes(seen.report) == ['Calls ignored: 2. More threads called CUDA at once than the limit "threads" allows.']


def test_failures_past_the_bound_are_not_told():
    seen = bounded('repeat 3 { fail_alloc }; repeat 4 { fail_free }; alloc a 10; repeat 5 { fail_launch }', failures=1)
    assert [(failure.function, failure.count) for failure in seen.process.failures] == [('cudaMalloc', 3)]
    assert seen.process.memory_leaked == 10
    assert notes(seen.report) == [
        'Failed calls not reported: 9. The limit "failures" allows no more kinds of failures.'
    ]


def five_children(**limits: int) -> Probed:
    """Probe a program with children of which none ends before all have begun."""
    script = 'alloc a 10; repeat 5 { fork { alloc b 7; launches 10 axpy default 1 1 1 2 1 1; free b; wait } }; reap'
    with probing(script, limits=Limits(**limits)) as (probe, running):
        running.go_on()
        for _ in range(5):
            running.wait_until_waiting()
        ran = running.finish()
        probe.close()
        return Probed(ran, probe.report())


def is_told(pid: int, report: CudaReport) -> bool:
    return pid in {process.pid for process in report.processes}


def test_processes_past_the_bound_are_not_followed():
    seen = five_children(followed=2)
    assert notes(seen.report) == [
        'Processes not followed: 4. More processes ran at once than the limit "followed" allows.'
    ]
    assert len(seen.report.processes) == 2
    assert_agree(seen.report, [truth for truth in seen.ran.processes if is_told(truth.pid, seen.report)])


def test_programs_that_call_cuda_past_the_bound_are_left_out():
    seen = five_children(processes=2)
    assert notes(seen.report) == ['Threads ignored: 4. More programs called CUDA than the limit "processes" allows.']
    assert len(seen.report.processes) == 2
    assert_agree(seen.report, [truth for truth in seen.ran.processes if is_told(truth.pid, seen.report)])
    of_a_child = 1 + 10 + 1 + 1  # allocation, launches, release and end
    assert seen.report.events == 1 + of_a_child + 1  # what is left out tells no events either


def test_the_room_of_programs_that_have_ended_is_given_back():
    limits = Limits(processes=120, kernels=120, streams=120, allocations=120, failures=120)
    child = 'fork { alloc a 7; alloc b 5; free b; launch axpy default 1 1 1 2 1 1; fail_alloc }'
    with probing('obey', limits=limits) as (probe, running):
        running.go_on()
        running.wait_until_waiting()
        for _ in range(3):
            running.tell(f'repeat 100 {{ {child}; reap }}')
            told_at = probe.report().seconds
            eventually(lambda told_at=told_at: probe.report().seconds > told_at + 1)  # it looks for room each second
        running.go_on()
        ran = running.finish()
        probe.close()
    assert len(ran.processes) == 301
    assert_agree(probe.report(), ran.children)
    assert notes(probe.report()) == []


def test_of_programs_that_have_ended_only_so_many_are_kept():
    limits = Limits(processes=30, ended=20)
    with probing('obey', limits=limits) as (probe, running):
        running.go_on()
        running.wait_until_waiting()
        for _ in range(2):
            running.tell('repeat 25 { fork { alloc a 7 }; reap }')
            told_at = probe.report().seconds
            eventually(lambda told_at=told_at: probe.report().seconds > told_at + 1)
        running.go_on()
        running.finish()
        probe.close()
    assert len(probe.report().processes) == 20
    assert notes(probe.report()) == ['Ended programs not reported: 30. The limit "ended" allows no more programs.']
