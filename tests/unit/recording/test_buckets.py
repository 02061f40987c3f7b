from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.recording.reading.buckets import Series
from gpu_tracker.recording.reading.recording import load
from gpu_tracker.resources import COUNTER, GAUGE, Column
from support.recordings import busy_rows, write_recording

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COLUMNS = (Column('system_ram', 'bytes', GAUGE, ''), Column('combined_cpu', 'seconds', COUNTER, ''))


def recording_of(folder: Path, rows: Sequence[tuple[float, dict[str, float | None]]]):
    return load(write_recording(folder / 'run.db', columns=COLUMNS, rows=rows))


def test_where_there_is_room_each_sample_is_a_span(tmp_path: Path) -> None:
    rows = [(0.0, {'system_ram': 1024}), (0.25, {'system_ram': None}), (0.5, {'system_ram': 4096})]
    with recording_of(tmp_path, rows) as recording:
        found = recording.samples.buckets(['system_ram'], 3)
    assert found.times == [0.0, 0.25, 0.5]
    assert found.series['system_ram'] == Series(*([1024.0, None, 4096.0] for _ in range(3)))


def test_a_span_has_the_least_the_mean_and_the_most(tmp_path: Path) -> None:
    rows = [(float(t), {'system_ram': 1024 * t}) for t in range(1, 9)]
    with recording_of(tmp_path, rows) as recording:
        found = recording.samples.buckets(['system_ram'], 2)
        empty = recording.samples.between(2.5, 2.75).buckets(['system_ram'], 2)
    assert found.times == [4.0, 8.0]
    assert found.series['system_ram'] == Series([1024.0, 5120.0], [2560.0, 6656.0], [4096.0, 8192.0])
    assert (empty.times, empty.series) == ([], {'system_ram': Series([], [], [])})


def test_rates_are_growth_over_time(tmp_path: Path) -> None:
    growth = {0.0: 0.0, 1.0: 0.5, 2.0: 2.0, 3.0: None, 4.0: 2.0, 5.0: 2.0}
    with recording_of(tmp_path, [(t, {'combined_cpu': cpu}) for t, cpu in growth.items()]) as recording:
        found = recording.samples.rates(['combined_cpu'], 10, 1.0)
    assert (found.begin, found.times) == (0.0, [1.0, 2.0, 3.0, 4.0, 5.0])
    assert found.series['combined_cpu'].mean == [0.5, 1.5, None, None, 0.0]


def test_no_rate_is_taken_over_less_than_the_sampling_interval(tmp_path: Path) -> None:
    rows = [(t, {'combined_cpu': t / 2}) for t in (0.0, 0.001, 0.01, 1.0, 2.0, 2.001)]
    with recording_of(tmp_path, rows) as recording:
        found = recording.samples.rates(['combined_cpu'], 10, 1.0)
    assert found.times == [1.0, 2.001]
    assert found.series['combined_cpu'].mean == pytest.approx([0.5, 0.5])


def test_a_span_of_rates_has_the_least_and_the_most_of_its_parts(tmp_path: Path) -> None:
    rows = [(float(t), {'combined_cpu': float(max(0, t - 50))}) for t in range(101)]
    with recording_of(tmp_path, rows) as recording:
        found = recording.samples.rates(['combined_cpu'], 1, 1.0)
    assert (found.begin, found.times) == (0.0, [100.0])
    assert found.series['combined_cpu'] == Series([0.0], [0.5], [1.0])


def test_columns_that_are_stored_beyond_the_sum_of_others_are_added_up(tmp_path: Path) -> None:
    with load(write_recording(tmp_path / 'run.db', rows=busy_rows(11))) as recording:
        found = recording.samples.buckets(['combined_total_rss'], 100).series['combined_total_rss'].mean
        assert found == [row.combined_total_rss for row in recording.samples]


def test_each_gpu_has_its_own(tmp_path: Path) -> None:
    rows = [(0, 0, 100, 10, 5000), (0, 1, 200, None, None), (1_000_000, 0, 300, 30, 10_000)]
    path = write_recording(
        tmp_path / 'run.db',
        rows=busy_rows(2),
        gpus=[(0, 'GPU-0', None, None), (1, 'GPU-1', None, None)],
        gpu_samples=rows,
    )
    with load(path) as recording:
        found = recording.samples.of_each_gpu([0, 1], 100)
    assert {number: (one.times, one.series['ram'].mean) for number, one in found.items()} == {
        0: ([0.0, 1.0], [102_400.0, 307_200.0]),
        1: ([0.0], [204_800.0]),
    }
    assert found[0].series['utilization'].mean == [50.0, 100.0]
    assert found[1].series['combined_ram'].mean == [None]


@given(values=st.lists(st.integers(0, 2**30), min_size=1, max_size=60), most=st.integers(1, 70))
def test_nothing_is_lost_between_spans(values: list[int], most: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    rows = [(0.1 * number, {'system_ram': 1024.0 * value}) for number, value in enumerate(values)]
    with recording_of(tmp_path_factory.mktemp('runs'), rows) as recording:
        found = recording.samples.buckets(['system_ram'], most)
    series = found.series['system_ram']
    assert len(found.times) <= max(most, 1)
    assert min(series.lowest) == 1024 * min(values)
    assert max(series.highest) == series.largest == 1024 * max(values)
    assert found.times == sorted(set(found.times))
