"""The totals of program runs, sorted and kept."""

from __future__ import annotations

from gpu_tracker.cuda_probe.collecting import Archive, RunTotals, by_run
from gpu_tracker.cuda_probe.kernel_data import DeviceTotals, FailureTotals, KernelTotals, ProcessTotals, Totals


def process(number: int, began: int = 0, ended: int | None = None) -> ProcessTotals:
    return ProcessTotals(number, 4000 + number, 0, 'train', began, ended, 1, 0, 0)


def run(number: int, began: int = 0, ended: int | None = None) -> RunTotals:
    return RunTotals(process(number, began, ended), {}, None, (), ())


def device(number: int, ordinal: int | None, in_use: int = 0) -> DeviceTotals:
    return DeviceTotals(number, ordinal, 0, 0, 0, 0, 0, 0, in_use, 0, 0, 0, 0)


def numbers(runs: list[RunTotals]) -> list[int]:
    return [one.process.process for one in runs]


def test_totals_are_sorted_by_program_runs() -> None:
    kernels = KernelTotals(1, 0x10, 5, 50), KernelTotals(2, 0x10, 6, 60), KernelTotals(1, 0x20, 7, 70)
    failures = FailureTotals(2, 3, 2, 1), FailureTotals(9, 3, 2, 1)
    devices = device(1, 1), device(2, 0), device(1, 0), device(1, None, 5), device(9, 0)
    first, second, third = by_run(
        Totals((process(1), process(2), process(3)), devices, kernels, failures, overflows=(0,))
    )
    assert first == RunTotals(
        process(1), {0: device(1, 0), 1: device(1, 1)}, device(1, None, 5), (kernels[0], kernels[2]), ()
    )
    assert list(first.devices) == [0, 1]
    assert second == RunTotals(process(2), {0: device(2, 0)}, None, (kernels[1],), (failures[0],))
    assert third == run(3)


def test_runs_are_told_in_the_order_of_their_first_calls_whether_they_live_or_not() -> None:
    archive = Archive(10)
    assert archive.add([run(5, began=30, ended=40), run(4, began=10, ended=50)]) == []
    assert numbers(archive.with_living([run(6, began=20), run(7, began=5)])) == [7, 4, 6, 5]
    assert archive.left_out == 0


def test_a_run_that_the_kernel_still_has_is_told_as_the_kernel_has_it() -> None:
    archive = Archive(10)
    archive.add([run(5, ended=40)])
    (told,) = archive.with_living([run(5, ended=41)])
    assert told.process.ended == 41


def test_past_the_bound_the_run_that_ended_first_is_left_out() -> None:
    archive = Archive(2)
    assert archive.add([run(1, began=1, ended=30), run(2, began=2, ended=10), run(3, began=3, ended=20)]) == [2]
    assert archive.add([run(4, began=4, ended=40), run(5, began=5, ended=50)]) == [3, 1]
    assert numbers(archive.with_living([])) == [4, 5]
    assert archive.left_out == 3


def test_the_same_run_again_takes_no_room_of_another() -> None:
    archive = Archive(2)
    archive.add([run(1, ended=10), run(2, ended=20)])
    assert archive.add([run(2, ended=20)]) == []
    assert archive.left_out == 0
