from __future__ import annotations

import math
import sys
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.errors import RecordingError
from gpu_tracker.installation import package_command
from gpu_tracker.recording.reading import database, samples
from gpu_tracker.recording.reading.recording import Recording, load
from gpu_tracker.resources import GAUGE, Column
from support.recordings import DEFAULT_COLUMNS, busy_rows, write_recording

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COLUMNS = (
    Column('main_cpu', 'seconds', 'counter', ''),
    Column('descendants_cpu', 'seconds', 'counter', ''),
    Column('combined_cpu', 'seconds', 'counter', ''),
    Column('main_n_threads', 'count', GAUGE, ''),
    Column('gpu_utilization', 'percent', GAUGE, ''),
    Column('system_ram', 'bytes', GAUGE, ''),
    Column('gpu_energy', 'joules', 'counter', ''),
)
ROWS = [
    (0.0, {'main_cpu': 0.0, 'descendants_cpu': 0.0, 'combined_cpu': 0.0, 'main_n_threads': 1}),
    (
        1.000001,
        {
            'main_cpu': 1.234567, 'descendants_cpu': 2.5, 'combined_cpu': 4.0, 'main_n_threads': 3,
            'gpu_utilization': 33.33, 'system_ram': 2048, 'gpu_energy': 12.345,
        },
    ),
    (2.0, {'main_cpu': 2.0, 'combined_cpu': 4.5}),
]  # fmt: skip


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    with load(write_recording(tmp_path / 'run.db', columns=COLUMNS, rows=ROWS)) as found:
        yield found


def test_rows_have_names_and_base_units(recording: Recording) -> None:
    first, second, third = recording.samples
    assert first == (0.0, 0.0, 0.0, 0.0, 1, None, None, None)
    assert second == (1.000001, 1.234567, 2.5, 4.0, 3, 33.33, 2048, 12.345)
    assert (second.t, second.combined_cpu, second.main_n_threads, second.system_ram) == (1.000001, 4.0, 3, 2048)
    assert third == (2.0, 2.0, None, 4.5, None, None, None, None)
    assert recording.samples.names == (
        't', 'main_cpu', 'descendants_cpu', 'combined_cpu', 'main_n_threads', 'gpu_utilization', 'system_ram',
        'gpu_energy',
    )  # fmt: skip


def test_rows_can_be_read_again(recording: Recording) -> None:
    assert list(recording.samples) == list(recording.samples)
    assert len(recording.samples) == 3


@pytest.mark.parametrize(
    ('start', 'stop', 'times'),
    [
        (None, None, [0.0, 1.000001, 2.0]),
        (0.0, 2.0, [0.0, 1.000001]),
        (1.000001, None, [1.000001, 2.0]),
        (1.000002, None, [2.0]),
        (None, 1.000001, [0.0]),
        (3.0, None, []),
        (2.0, 1.0, []),
        (-math.inf, math.inf, [0.0, 1.000001, 2.0]),
    ],
)
def test_a_part_begins_with_its_start_and_ends_before_its_stop(
    recording: Recording, start: float | None, stop: float | None, times: list[float]
) -> None:
    part = recording.samples.between(start, stop)
    assert [row.t for row in part] == times
    assert len(part) == len(times)


def test_a_part_of_a_part_is_in_both(recording: Recording) -> None:
    assert [row.t for row in recording.samples.between(0.5).between(0.0, 1.5)] == [1.000001]


def test_a_time_that_is_no_number_is_refused(recording: Recording) -> None:
    with pytest.raises(RecordingError, match=r'^a time must be a number of seconds, not NaN$'):
        recording.samples.between(math.nan)


def test_columns_say_what_they_are(recording: Recording) -> None:
    column = recording.columns[5]
    assert (column.name, column.unit, column.kind) == ('system_ram', 'bytes', 'gauge')
    assert column.meaning == 'What system_ram means.'


def test_a_recording_without_samples_has_none(tmp_path: Path) -> None:
    with load(write_recording(tmp_path / 'run.db')) as found:
        assert (list(found.samples), len(found.samples), found.duration) == ([], 0, None)


def test_rows_take_no_more_memory_the_more_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, '_AT_ONCE', 100)
    path = write_recording(tmp_path / 'run.db', rows=busy_rows(2000, 0.1))
    with load(path) as found:
        tracemalloc.start()
        try:
            rows = list(found.samples)
            of_all = tracemalloc.get_traced_memory()[0]
            rows.clear()
            tracemalloc.reset_peak()
            assert sum(1 for _ in found.samples) == 2000
            assert tracemalloc.get_traced_memory()[1] < of_all / 4
        finally:
            tracemalloc.stop()


def test_pandas_has_floats(recording: Recording) -> None:
    pytest.importorskip('pandas', reason='needs the package pandas')
    frame = recording.samples.to_pandas()
    assert list(frame.columns) == list(recording.samples.names)
    assert frame['main_cpu'].tolist() == [0.0, 1.234567, 2.0]
    assert frame['descendants_cpu'].isna().tolist() == [False, False, True]
    assert set(map(str, frame.dtypes)) == {'float64'}


def test_polars_has_nulls_and_whole_numbers(recording: Recording) -> None:
    polars = pytest.importorskip('polars', reason='needs the package polars')
    frame = recording.samples.to_polars()
    assert frame.rows() == [tuple(row) for row in recording.samples]
    assert frame.schema['main_n_threads'] == polars.Int64
    assert frame.schema['gpu_utilization'] == polars.Float64


def test_arrow_has_nulls_and_whole_numbers(recording: Recording) -> None:
    arrow = pytest.importorskip('pyarrow', reason='needs the package pyarrow')
    table = recording.samples.to_arrow()
    assert [tuple(row.values()) for row in table.to_pylist()] == [tuple(row) for row in recording.samples]
    assert table.schema.field('system_ram').type == arrow.int64()


@pytest.mark.parametrize('rows', [0, 2500])
def test_tables_of_any_length_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    for name in ('pandas', 'polars', 'pyarrow'):
        pytest.importorskip(name, reason=f'needs the package {name}')
    monkeypatch.setattr(samples, '_FRAME_ROWS', 1000)
    columns = DEFAULT_COLUMNS[:2]
    path = write_recording(tmp_path / 'run.db', columns=columns, rows=((t / 10, {}) for t in range(rows)))
    with load(path) as found:
        assert found.samples.to_pandas().shape == (rows, 3)
        assert found.samples.to_polars().shape == (rows, 3)
        assert found.samples.to_arrow().shape == (rows, 3)


@pytest.mark.parametrize(
    ('method', 'package'), [('to_pandas', 'pandas'), ('to_polars', 'polars'), ('to_arrow', 'pyarrow')]
)
def test_a_package_that_is_missing_is_named(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, method: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RecordingError) as caught:
        getattr(recording.samples, method)()
    assert str(caught.value) == f'samples.{method}() needs the package {package}: {package_command(package)}'
