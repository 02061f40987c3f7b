"""The samples of all ranks as one dataset, read back by those who are to read it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpu_tracker.errors import RecordingError
from gpu_tracker.jobs.dataset import write_dataset
from support.job_folders import record, write
from support.recordings import DEFAULT_COLUMNS, IO_COLUMNS, busy_rows, write_recording

pytest.importorskip('pyarrow', reason='needs the package pyarrow')
MEBIBYTE = 2**20


def add_rank(folder: Path, name: str, rank: int | None, *, ending: str = '{}.db', **job: Any) -> None:
    columns = (*DEFAULT_COLUMNS, *IO_COLUMNS) if rank == 1 else DEFAULT_COLUMNS
    write(folder, name, record(rank, job=job))
    write_recording(folder / ending.format(name), rows=busy_rows(), columns=columns)


@pytest.fixture(scope='module')
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a dataset of four ranks, of which one runs, one has a section more and one is no rank."""
    place = tmp_path_factory.mktemp('ranks')
    folder = place / 'job'
    add_rank(folder, 'a', 0)
    add_rank(folder, 'b', 1, step='1', attempt=2, node='n2')
    add_rank(folder, 'c', 2, ending='.{}.partial.db')
    add_rank(folder, 'd', None, array_task=3, step='batch')
    write(folder, 'e', record(4))
    (folder / 'e.db').write_text('no database')
    write(folder, 'f', record(5))
    written, problems = write_dataset([str(folder)], str(place / 'samples'))
    assert written == 4
    (problem,) = problems
    assert problem.endswith('e.db is not a gpu-tracker recording')
    return str(place / 'samples')


def test_its_folders_say_job_and_rank(dataset: str) -> None:
    files = sorted(str(path.relative_to(dataset)) for path in Path(dataset).rglob('*.parquet'))
    assert files == [
        'job=4711/rank=0/a.parquet',
        'job=4711/rank=1/b.parquet',
        'job=4711/rank=2/c.parquet',
        'job=4711_3/rank=__HIVE_DEFAULT_PARTITION__/d.parquet',
    ]
    assert sorted(path.name for path in Path(dataset).parent.iterdir()) == ['job', 'samples']


def test_duckdb_reads_it_as_one_table(dataset: str) -> None:
    duckdb = pytest.importorskip('duckdb', reason='needs the package duckdb')
    table = f"read_parquet('{dataset}/**/*.parquet', hive_partitioning = true, union_by_name = true)"
    rows = duckdb.sql(
        'SELECT job, rank, step, array_task, attempt, node, count(*), max(combined_total_rss), max(main_cpu) '
        f'FROM {table} GROUP BY ALL ORDER BY job, rank'
    ).fetchall()
    figures = (11, 20 * MEBIBYTE, 10.0)
    assert rows == [
        ('4711', 0, '0', None, None, 'n1', *figures),
        ('4711', 1, '1', None, 2, 'n2', *figures),
        ('4711', 2, '0', None, None, 'n1', *figures),
        ('4711_3', None, 'batch', 3, None, 'n1', *figures),
    ]
    first = duckdb.sql(f"SELECT min(time) AT TIME ZONE 'UTC', count(combined_io_read) FROM {table}").fetchall()
    assert first == [(datetime(2026, 9, 21, 14, 13, 20), 0)], 'the time is that of the first sample'  # noqa: DTZ001


def test_polars_reads_it_as_one_table(dataset: str) -> None:
    polars = pytest.importorskip('polars', reason='needs the package polars')
    options = {'hive_partitioning': True, 'missing_columns': 'insert', 'extra_columns': 'ignore'}
    try:
        frame = polars.scan_parquet(dataset, **options).select('rank', 'time', 'main_total_rss').collect()
    except TypeError:  # before 1.30
        frame = polars.read_parquet(dataset, columns=['rank', 'time', 'main_total_rss'], hive_partitioning=True)
    found = frame.group_by('rank').agg(polars.col('main_total_rss').max()).sort('rank', nulls_last=True)
    assert found.rows() == [(0, 20 * MEBIBYTE), (1, 20 * MEBIBYTE), (2, 20 * MEBIBYTE), (None, 20 * MEBIBYTE)]
    assert frame['time'].min() == datetime(2026, 9, 21, 14, 13, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ('job', 'folder'),
    [
        ('../../etc', 'job=..%2F..%2Fetc'),
        ('a=b c', 'job=a%3Db%20c'),
        ('prterun-n1-77@1', 'job=prterun-n1-77%401'),
        ('\ud800', 'job=%3F'),
        ('', 'job='),
        (None, 'job=__HIVE_DEFAULT_PARTITION__'),
        ('x' * 5000, f'job={"x" * 200}'),
        ('é' * 200, f'job={"é" * 100}'),
        ('/' * 200, f'job={"%2F" * 66}'),
    ],
)
def test_no_job_has_a_name_that_is_no_folder(tmp_path: Path, job: str | None, folder: str) -> None:
    add_rank(tmp_path / 'job', 'a', 0, job=job)
    assert write_dataset([str(tmp_path / 'job')], str(tmp_path / 'samples')) == (1, [])
    assert [path.name for path in (tmp_path / 'samples').iterdir()] == [folder]


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / 'job'
    write(folder, 'a', record(0))
    with pytest.raises(RecordingError, match=r'^no rank has a recording yet$'):
        write_dataset([str(folder)], str(tmp_path / 'samples'))
    (folder / 'a.db').write_text('no database')
    with pytest.raises(RecordingError, match=r'a\.db is not a gpu-tracker recording'):
        write_dataset([str(folder)], str(tmp_path / 'samples'))
    (folder / 'a.db').unlink()
    add_rank(folder, 'a', 0)
    (tmp_path / 'file').touch()
    with pytest.raises(RecordingError, match=r'file exists already: choose a new folder for the dataset$'):
        write_dataset([str(folder)], str(tmp_path / 'file'))
    with pytest.raises(RecordingError, match=r'^cannot write .*/file/samples: Not a directory$'):
        write_dataset([str(folder)], str(tmp_path / 'file' / 'samples'))
    with pytest.raises(RecordingError, match=r'^cannot read .*/missing: No such file or directory$'):
        write_dataset([str(folder), str(tmp_path / 'missing')], str(tmp_path / 'samples'))
    assert sorted(path.name for path in tmp_path.iterdir()) == ['file', 'job']


def test_a_folder_may_be_named_with_a_slash_and_records_may_be_of_no_launcher(tmp_path: Path) -> None:
    content = record(None) | {'job': None}
    write(tmp_path / 'job', 'a', content)
    write_recording(tmp_path / 'job' / 'a.db', rows=busy_rows())
    assert json.loads((tmp_path / 'job' / 'a.json').read_text())['job'] is None
    assert write_dataset([f'{tmp_path}/job/'], f'{tmp_path}/samples/') == (1, [])
    (found,) = (tmp_path / 'samples').rglob('*.parquet')
    none = '__HIVE_DEFAULT_PARTITION__'
    assert str(found.relative_to(tmp_path)) == f'samples/job={none}/rank={none}/a.parquet'
