"""A probe's reports as series: one row for each process on each GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_tracker.cuda_probe.agent_metrics import Failure, ProcessKey, ProcessSeries, Row, RowKey
from gpu_tracker.result.cuda_usage import CUDAFailure
from support.cuda.fake_probe import UUID, device, process, report


def spent(seconds: float, *, active: float | None, cores: float | None, pid: int = 7, **changes):
    """Return a report after so many seconds: of a process with 100 launches a second, and so many busy seconds."""
    figures = {
        'launches': int(100 * seconds),
        'launches_per_second': 100.0,
        'launch_to_sync_seconds': active,
        'used_cores': cores,
    }
    return report(process(pid, seconds=seconds, devices=(device(**figures),), **changes), seconds=seconds)


def only(series) -> Row:
    (row,) = series.rows.values()
    return row


def test_a_row_has_the_figures_of_a_process_on_a_gpu() -> None:
    series = ProcessSeries().of(report(process(7)), {7: 'train.py'})
    assert series.rows == {
        RowKey(7, 'train.py', '', UUID): Row(
            launches=1000,
            launch_to_sync_seconds=2.5,
            synchronisations=10,
            copies=6,
            allocations=4,
            frees=3,
            in_use_bytes=1_000_000,
            max_bytes=2_000_000,
            active=0.25,
            used_cores=512.0,
        )
    }
    assert series.streams == {ProcessKey(7, 'train.py', ''): 2}
    assert series.failures == {Failure(7, 'train.py', '', 'cudaMalloc', 'cudaErrorMemoryAllocation'): 2}


def test_a_process_that_the_driver_does_not_list_has_the_name_of_the_kernel() -> None:
    assert list(ProcessSeries().of(report(process(7)), {}).rows) == [RowKey(7, 'train', '', UUID)]


def test_a_process_in_a_container_has_its_id() -> None:
    in_container = replace(process(7), container='4f' * 32)
    series = ProcessSeries().of(report(in_container), {})
    assert list(series.rows) == [RowKey(7, 'train', '4f' * 32, UUID)]
    assert list(series.streams) == [ProcessKey(7, 'train', '4f' * 32)]


def test_active_time_and_cores_are_those_since_the_report_before() -> None:
    series = ProcessSeries()
    series.of(spent(10.0, active=2.0, cores=100.0), {})  # 1000 core seconds
    row = only(series.of(spent(20.0, active=7.0, cores=300.0), {}))  # 6000 core seconds
    assert (row.active, row.used_cores) == (0.5, pytest.approx(500.0))
    row = only(series.of(spent(25.0, active=7.0, cores=240.0), {}))
    assert (row.active, row.used_cores) == (0.0, 0.0)


def test_what_is_unknown_stays_so() -> None:
    row = only(ProcessSeries().of(spent(10.0, active=None, cores=None), {}))
    assert (row.active, row.used_cores, row.launch_to_sync_seconds) == (None, None, None)


def test_a_first_report_at_once_has_no_rates() -> None:
    row = only(ProcessSeries().of(spent(0.0, active=0.0, cores=0.0), {}))
    assert (row.active, row.used_cores) == (None, None)


def test_the_programs_that_one_process_was_count_together() -> None:
    first = process(7, run=1, ended=True, devices=(device(memory_current=0, memory_max=9),), failures=())
    series = ProcessSeries().of(report(first, process(7)), {})
    row = only(series)
    assert (row.launches, row.in_use_bytes, row.max_bytes, row.active) == (2000, 1_000_000, 2_000_000, 0.5)
    assert (row.synchronisations, row.copies, series.streams) == (20, 12, {ProcessKey(7, 'train', ''): 4})


def test_numbers_of_gpus_that_cannot_be_told_count_together() -> None:
    both = process(7, devices=(device(0, None), device(1, None), device(2, UUID)))
    rows = ProcessSeries().of(report(both), {}).rows
    assert {place.uuid: row.launches for place, row in rows.items()} == {None: 2000, UUID: 1000}


def test_failures_with_one_name_count_together() -> None:
    failures = (CUDAFailure('cudaMalloc', 2, 'unknown', 2), CUDAFailure('cudaMalloc', 7000, 'unknown', 3))
    series = ProcessSeries().of(report(process(7, failures=failures)), {})
    assert series.failures == {Failure(7, 'train', '', 'cudaMalloc', 'unknown'): 5}


def test_a_program_that_has_ended_is_told_for_five_minutes() -> None:
    series = ProcessSeries()

    def at(seconds: float) -> int:
        return len(series.of(report(process(7, ended=True), seconds=seconds), {}).rows)

    assert [at(seconds) for seconds in (10.0, 300.0, 310.0, 310.1, 900.0)] == [1, 1, 1, 0, 0]


def test_nothing_is_kept_of_programs_that_are_told_no_more() -> None:
    series = ProcessSeries()
    series.of(report(*(process(pid, ended=True) for pid in range(1000))), {})
    series.of(report(process(7)), {})
    assert (len(series._spent), len(series._ended)) == (1, 0)
