from __future__ import annotations

import csv
import io
import json
import os
import random
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_tracker.errors import RecordingError
from gpu_tracker.installation import package_command
from gpu_tracker.recording.export import FORMATS, pieces
from gpu_tracker.recording.reading.recording import Recording, load
from gpu_tracker.resources import GAUGE, Column
from support.recordings import ROOT, busy_rows, region, write_recording
from support.trace_rules import checked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COLUMNS = (
    Column('main_cpu', 'seconds', 'counter', ''),
    Column('main_total_rss', 'bytes', GAUGE, ''),
    Column('gpu_utilization', 'percent', GAUGE, ''),
)
ROWS = [
    (0.0, {'main_cpu': 0.0, 'main_total_rss': 1_024_000, 'gpu_utilization': None}),
    (1.5, {'main_cpu': 0.75, 'main_total_rss': 2_048_000, 'gpu_utilization': 12.5}),
]


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    path = write_recording(
        tmp_path / 'run.db',
        columns=COLUMNS,
        rows=ROWS,
        regions=[region(1, 'load', 0.25, 1.0), region(2, 'step, "one"', 0.5, 0.75, parent=1, attributes={'n': 1})],
    )
    with load(path) as found:
        yield found


def content(recording: Recording, name: str) -> bytes:
    return b''.join(pieces(recording, name))


def test_csv_has_a_line_a_sample(recording: Recording) -> None:
    assert content(recording, 'csv') == (
        b't,main_cpu,main_total_rss,gpu_utilization\r\n0.0,0.0,1024000,\r\n1.5,0.75,2048000,12.5\r\n'
    )


def test_pandas_polars_and_duckdb_read_the_csv(tmp_path: Path) -> None:
    pandas, polars, duckdb = map(pytest.importorskip, ('pandas', 'polars', 'duckdb'))
    target = str(tmp_path / 'run.csv')
    with load(write_recording(tmp_path / 'run.db', rows=busy_rows())) as found:
        found.export(target, 'csv')
        expected = [tuple(row) for row in found.samples]
    assert [tuple(row) for row in pandas.read_csv(target).itertuples(index=False)] == expected
    assert polars.read_csv(target).rows() == expected
    assert duckdb.sql(f"SELECT * FROM read_csv('{target}')").fetchall() == expected


@pytest.mark.parametrize('without', [None, 'pyarrow'])
def test_pandas_polars_and_duckdb_read_the_parquet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without: str | None
) -> None:
    arrow, polars, duckdb = map(pytest.importorskip, ('pyarrow.parquet', 'polars', 'duckdb'))
    target = str(tmp_path / 'run.parquet')
    with load(write_recording(tmp_path / 'run.db', rows=busy_rows())) as found:
        with monkeypatch.context() as context:
            if without is not None:
                context.setitem(sys.modules, without, None)
            found.export(target, 'parquet')
        expected = [tuple(row) for row in found.samples]
    assert [tuple(row.values()) for row in arrow.read_table(target).to_pylist()] == expected
    assert polars.read_parquet(target).rows() == expected
    assert duckdb.sql(f"SELECT * FROM read_parquet('{target}')").fetchall() == expected
    assert duckdb.sql(f"SELECT max(combined_total_rss) FROM '{target}'").fetchall() == [(20 * 2**20,)]


def test_parquet_names_the_packages_that_write_it(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, 'pyarrow', None)
    monkeypatch.setitem(sys.modules, 'polars', None)
    with pytest.raises(RecordingError) as caught:
        recording.export(tmp_path / 'run.parquet', 'parquet')
    assert str(caught.value) == f'Parquet needs the package pyarrow or polars: {package_command("pyarrow")}'
    assert os.listdir(tmp_path) == ['run.db']


def test_json_lines_have_everything(tmp_path: Path) -> None:
    path = write_recording(
        tmp_path / 'run.db',
        columns=COLUMNS,
        rows=ROWS,
        regions=[region(1, 'ü', 0.25, 1.0, attributes=json.dumps({'loss': float('nan')}))],
        gpus=[(0, 'GPU-1', 'H100', 1)],
        gpu_samples=[(0, 0, 1, 1, 100)],
        processes=[(1, 77, 1, 'python', 0)],
        process_samples=[(0, 1, 1, 1, 1)],
        clock=[(0, 0)],
        messages=[(0, 'info', 'hello')],
    )
    with load(path) as found:
        lines = [json.loads(line) for line in content(found, 'jsonl').splitlines()]
    assert [line['type'] for line in lines] == [
        'meta', 'summary', 'column', 'column', 'column', 'gpu', 'process', 'region', 'message', 'clock', 'sample',
        'sample', 'gpu_sample', 'process_sample',
    ]  # fmt: skip
    assert lines[0]['command'] == ['python', 'train.py']
    assert lines[1]['compute_time']['unit'] == 'seconds'
    assert (lines[7]['name'], lines[7]['attributes'], lines[7]['wall_time']) == ('ü', {'loss': None}, 0.75)
    assert lines[11] == {
        'type': 'sample', 't': 1.5, 'main_cpu': 0.75, 'main_total_rss': 2_048_000, 'gpu_utilization': 12.5,
    }  # fmt: skip


def test_sub_tracking_has_starts_and_stops_in_the_order_of_time(recording: Recording) -> None:
    assert content(recording, 'sub-tracking').decode() == (
        'process_id,code_block_name,position,timestamp\r\n'
        '4242,load,0,1790000000.25\r\n'
        '4242,"step, ""one""",0,1790000000.5\r\n'
        '4242,"step, ""one""",1,1790000000.75\r\n'
        '4242,load,1,1790000001.0\r\n'
    )


def test_sub_tracking_keeps_the_number_and_the_time_of_folded_calls(tmp_path: Path) -> None:
    path = write_recording(
        tmp_path / 'run.db',
        regions=[
            region(1, 'a', 2.0, 6.0, calls=1000, total=1.0),
            region(2, 'b', 3.0, None),
            region(3, 'c', 4.0, 4.0),
            region(4, 'd', 5.0, 5.5, calls=1, total=0.5),
            region(5, 'e', 5.0, 6.0, calls=4, total=3.0),
        ],
    )
    with load(path) as found:
        rows = list(csv.DictReader(io.StringIO(content(found, 'sub-tracking').decode())))
    times = [float(row['timestamp']) for row in rows]
    assert times == sorted(times)
    total = dict.fromkeys('acde', 0.0)
    calls = dict.fromkeys('acde', 0)
    for row in rows:
        is_stop = row['position'] == '1'
        calls[row['code_block_name']] += is_stop
        total[row['code_block_name']] += (float(row['timestamp']) - 1.79e9) * (1 if is_stop else -1)
    assert calls == {'a': 1000, 'c': 1, 'd': 1, 'e': 4}
    assert total == {
        'a': pytest.approx(1.0, abs=0.01), 'c': 0.0, 'd': pytest.approx(0.5), 'e': pytest.approx(3.0),
    }  # fmt: skip
    assert [row['position'] for row in rows if row['code_block_name'] == 'c'] == ['0', '1']


def test_a_trace_has_counters_and_nested_regions(recording: Recording) -> None:
    events = checked(content(recording, 'chrome-trace'))
    assert [event for event in events if event['ph'] == 'M'] == [
        {'ph': 'M', 'name': 'process_name', 'pid': ROOT, 'tid': 0, 'args': {'name': 'python train.py'}},
        {'ph': 'M', 'name': 'process_sort_index', 'pid': ROOT, 'tid': 0, 'args': {'sort_index': 0}},
        {'ph': 'M', 'name': 'thread_name', 'pid': ROOT, 'tid': ROOT, 'args': {'name': 'main thread'}},
    ]
    assert [event for event in events if event['ph'] == 'C'] == [
        {'ph': 'C', 'name': 'total_rss [MB]', 'ts': 0, 'pid': ROOT, 'tid': 0, 'args': {'main': 1.024}},
        {'ph': 'C', 'name': 'cpu [cores]', 'ts': 0, 'pid': ROOT, 'tid': 0, 'args': {'main': 0.5}},
        {'ph': 'C', 'name': 'gpu_utilization [%]', 'ts': 0, 'pid': ROOT, 'tid': 0, 'args': {'value': 12.5}},
        {'ph': 'C', 'name': 'total_rss [MB]', 'ts': 1_500_000, 'pid': ROOT, 'tid': 0, 'args': {'main': 2.048}},
    ]
    outer, inner = (event for event in events if event['ph'] == 'X')
    assert (outer['name'], outer['ts'], outer['dur'], outer['tid']) == ('load', 250_000, 750_000, ROOT)
    assert (inner['name'], inner['ts'], inner['dur']) == ('step, "one"', 500_000, 250_000)
    assert inner['args']['attributes'] == {'n': 1}


def test_a_trace_has_gpus_processes_and_messages(tmp_path: Path) -> None:
    path = write_recording(
        tmp_path / 'run.db',
        gpus=[(0, 'GPU-1', 'H100', 1)],
        gpu_samples=[(0, 0, 1000, 500, 100), (1_000_000, 0, None, None, 5000)],
        processes=[(1, 77, ROOT, 'worker', 0)],
        process_samples=[(0, 1, 1000, 1, 1)],
        messages=[(500_000, 'info', 'hello')],
    )
    with load(path) as found:
        events = checked(content(found, 'chrome-trace'))
    assert [(event['name'], event['ts'], event['pid'], event['args']) for event in events if event['ph'] == 'C'] == [
        ('GPU 0 H100 RAM [MB]', 0, ROOT, {'all': 1.024, 'tracked': 0.512}),
        ('GPU 0 H100 utilization [%]', 0, ROOT, {'value': 50.0}),
        ('rss [MB]', 0, 77, {'value': 1.024}),
    ]
    assert [event['args'] for event in events if event['name'] == 'process_name'] == [
        {'name': 'python train.py'},
        {'name': 'worker'},
    ]
    assert [event['name'] for event in events if event['ph'] == 'i'] == ['hello']


def phases(path: str) -> list[tuple[str, str]]:
    with load(path) as found:
        return [(e['ph'], e['name']) for e in checked(content(found, 'chrome-trace')) if e['ph'] in {'X', 'b'}]


def test_what_does_not_nest_in_a_trace_becomes_a_pair(tmp_path: Path) -> None:
    path = write_recording(
        tmp_path / 'run.db',
        rows=busy_rows(),
        regions=[
            region(1, 'a', 0.0, 2.0),
            region(2, 'overlaps', 1.0, 3.0),
            region(3, 'inside', 1.5, 2.0),
            region(4, 'task', 0.5, 1.0, task='Task-1'),
            region(5, 'folded', 0.5, 1.0, calls=10, total=0.1),
            region(6, 'thread', 1.0, 3.0, thread=99),
            region(7, 'unknown thread', 1.0, 3.0, thread=None),
            region(8, 'no length', 2.0, 2.0),
            region(9, 'open', 4.0, None),
            region(10, 'in open', 5.0, 6.0),
        ],
    )
    assert phases(path) == [
        ('X', 'a'),
        ('b', 'task'),
        ('b', 'folded (10 calls)'),
        ('b', 'overlaps'),
        ('X', 'thread'),
        ('b', 'unknown thread'),
        ('X', 'inside'),
        ('X', 'no length'),
        ('X', 'open'),
        ('X', 'in open'),
    ]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    spans=st.lists(
        st.tuples(st.integers(0, 12), st.one_of(st.none(), st.integers(0, 12)), st.integers(1, 2)), max_size=20
    )
)
def test_any_regions_make_a_trace_by_the_rules(tmp_path: Path, spans: list[tuple[int, int | None, int]]) -> None:
    path = tmp_path / 'run.db'
    path.unlink(missing_ok=True)
    regions = [
        region(number, 'a', float(start), None if length is None else float(start + length), thread=thread)
        for number, (start, length, thread) in enumerate(spans, 1)
    ]
    write_recording(path, rows=busy_rows(), regions=regions)
    assert len(phases(str(path))) == len(spans)


def test_a_long_trace_comes_in_pieces(tmp_path: Path) -> None:
    path = write_recording(tmp_path / 'run.db', columns=COLUMNS, rows=((t / 10, ROWS[1][1]) for t in range(5000)))
    with load(path) as found:
        parts = list(pieces(found, 'chrome-trace'))
    assert max(map(len, parts)) < 200_000
    assert len(checked(b''.join(parts))) == 2 + 5000 + 2 * 4999


@pytest.mark.parametrize('name', sorted(set(FORMATS) - {'parquet'}))
def test_a_recording_without_anything_is_exported(tmp_path: Path, name: str) -> None:
    meta = dict.fromkeys(('command', 'totals', 'root_pid', 'start_unix_us'))
    with load(write_recording(tmp_path / 'run.db', meta=meta)) as found:
        assert content(found, name)
        if name == 'chrome-trace':
            checked(content(found, name))


def test_an_unknown_format_is_refused_with_those_there_are(recording: Recording, tmp_path: Path) -> None:
    with pytest.raises(RecordingError) as caught:
        recording.export(tmp_path / 'out', 'xlsx')
    assert str(caught.value) == (
        "the format must be one of csv, jsonl, parquet, chrome-trace, sub-tracking, not 'xlsx'"
    )
    assert os.listdir(tmp_path) == ['run.db']


@pytest.mark.parametrize('link', ['symbolic', 'hard', 'same', 'journal'])
def test_what_is_read_is_never_overwritten(recording: Recording, tmp_path: Path, link: str) -> None:
    own = tmp_path / 'run.db'
    before = own.read_bytes()
    target = {'same': own, 'journal': tmp_path / 'run.db-journal'}.get(link, tmp_path / 'link')
    if link == 'symbolic':
        target.symlink_to(own)
    elif link == 'hard':
        os.link(own, target)
    with pytest.raises(RecordingError, match='is the recording itself: choose another path for the export'):
        recording.export(target, 'csv')
    assert own.read_bytes() == before


def test_a_failed_export_leaves_the_file_that_was_there(recording: Recording, tmp_path: Path) -> None:
    target = tmp_path / 'out.csv'
    target.write_text('old')
    recording.close()
    with pytest.raises(RecordingError, match='was closed: load the recording again'):
        recording.export(target, 'csv')
    assert target.read_text() == 'old'
    assert sorted(os.listdir(tmp_path)) == ['out.csv', 'run.db']


def test_a_folder_that_is_not_there_is_named(recording: Recording, tmp_path: Path) -> None:
    with pytest.raises(RecordingError) as caught:
        recording.export(tmp_path / 'no' / 'out.csv', 'csv')
    assert str(caught.value) == f'cannot write {tmp_path}/no/out.csv: No such file or directory'


def test_random_regions_keep_their_number_in_every_format(tmp_path: Path) -> None:
    source = random.Random(19)  # noqa: S311 - repeatable
    regions = [
        region(n, f'r{n % 7}', source.uniform(0, 9), 9 + source.random(), parent=n // 2 or None, pid=ROOT + n % 3)
        for n in range(1, 400)
    ]
    with load(write_recording(tmp_path / 'run.db', rows=busy_rows(), regions=regions)) as found:
        assert content(found, 'jsonl').count(b'"type":"region"') == 399
        assert content(found, 'sub-tracking').count(b'\n') == 2 * 399 + 1
        events = checked(content(found, 'chrome-trace'))
    assert sum(event['ph'] in {'X', 'b'} for event in events) == 399
