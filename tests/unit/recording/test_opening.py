from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_tracker.errors import RecordingError
from gpu_tracker.recording.reading import opening, shown
from gpu_tracker.recording.reading.recording import load
from support.recordings import busy_rows, region, totals_of, write_recording

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / 'run.db'
    write_recording(path, rows=busy_rows(), regions=[region(1, 'load', 0.5, 9.5)])
    return path


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute('PRAGMA writable_schema = ON')
        for statement in statements:
            connection.execute(statement)


def everything(path: Path | str, *, salvage: bool = False) -> int:
    """Read all that a recording has, and return the number of samples."""
    with load(path, salvage=salvage) as recording:
        count = sum(1 for _ in recording.samples)
        _ = recording.regions, recording.processes, recording.messages, recording.clock
        _ = list(recording.gpu_samples()), list(recording.process_samples())
        shown.as_text(recording)
        json.loads(shown.as_json(recording))
        return count


def test_a_connection_reads_the_tables_of_the_format(recording: Path) -> None:
    with closing(opening.open_database(recording)) as connection:
        assert connection.execute('SELECT count(*) FROM samples').fetchone() == (11,)


@pytest.mark.parametrize(
    'statement',
    [
        'DELETE FROM samples',
        'CREATE TABLE more (a)',
        'CREATE TEMP TABLE more (a)',
        'PRAGMA query_only = OFF',
        "ATTACH ':memory:' AS other",
        'SELECT * FROM readings',
        'SELECT randomblob(1000000000)',
        'SELECT * FROM sqlite_master',
    ],
)
def test_a_connection_does_nothing_else(recording: Path, statement: str) -> None:
    before = recording.read_bytes()
    with closing(opening.open_database(recording)) as connection, pytest.raises(sqlite3.DatabaseError):
        connection.execute(statement).fetchall()
    assert recording.read_bytes() == before


def test_reading_leaves_no_other_file(recording: Path) -> None:
    assert everything(recording) == 11
    assert os.listdir(recording.parent) == ['run.db']


OLD_FORMAT = " is in the format of gpu-tracker 5: read the file with 'gpu-tracker sub-track'"


def refusal(path: Path | str) -> str:
    with pytest.raises(RecordingError) as caught:
        load(path)
    return str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / 'run.db') == f'cannot read {tmp_path}/run.db: No such file or directory'


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f'{tmp_path} is not a regular file, so it cannot be a recording'


def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / 'run.db')
    assert refusal(tmp_path / 'run.db') == f'{tmp_path}/run.db is not a regular file, so it cannot be a recording'


@pytest.mark.parametrize(
    ('content', 'said'),
    [
        (b'', ' is empty, so it is not a recording'),
        (b'hello', ' is not a gpu-tracker recording'),
        (b'SQLite format 3\0\x10', ' is not a gpu-tracker recording'),
        (b'ram_unit,gpu_ram_unit,time_unit\n', OLD_FORMAT),
        (b'process_id,code_block_name,position,timestamp\n', OLD_FORMAT),
    ],
)
def test_what_is_no_database_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / 'run.db'
    path.write_bytes(content)
    assert refusal(path) == f'{path}{said}'


def test_a_database_of_another_program_is_refused(recording: Path) -> None:
    change(recording, 'PRAGMA application_id = 252006674')
    assert refusal(recording) == f'{recording} is not a gpu-tracker recording'


def test_a_database_of_gpu_tracker_5_is_refused_with_advice(tmp_path: Path) -> None:
    path = tmp_path / 'old.sqlite'
    with closing(sqlite3.connect(path)) as connection:
        connection.execute('CREATE TABLE static_data (ram_unit TEXT)')
        connection.execute('CREATE TABLE data (main_ram REAL)')
    assert refusal(path) == f'{path}{OLD_FORMAT}'


def test_a_computed_column_gets_no_memory_without_end(recording: Path) -> None:
    change(
        recording,
        'DROP TABLE messages',
        'CREATE TABLE messages (t INTEGER, level TEXT, text TEXT AS (hex(zeroblob(100000000))))',
        "INSERT INTO messages VALUES (0, 'info')",
    )
    assert read_error(recording) == f'cannot read {recording}: string or blob too big'


@pytest.mark.parametrize('version', [2, 0, -1])
def test_another_version_is_refused(recording: Path, version: int) -> None:
    change(recording, f'PRAGMA user_version = {version}')
    assert refusal(recording) == (
        f'{recording} has version {version} of the recording format; this gpu-tracker reads version 1'
    )


def read_error(path: Path) -> str:
    with pytest.raises(RecordingError) as caught:
        everything(path)
    return str(caught.value)


def test_a_missing_table_is_named(recording: Path) -> None:
    change(recording, 'DROP TABLE clock')
    assert read_error(recording) == f'cannot read {recording}: no such table: clock'


def test_a_view_in_the_place_of_a_table_is_not_run(recording: Path) -> None:
    change(
        recording,
        'DROP TABLE clock',
        'CREATE VIEW clock AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) '
        'SELECT i AS t, i AS unix FROM n',
    )
    assert read_error(recording) == f'cannot read {recording}: not authorized'


def test_a_virtual_table_is_not_run(recording: Path) -> None:
    change(recording, 'DROP TABLE messages', 'CREATE VIRTUAL TABLE messages USING fts5(t, level, text)')
    assert read_error(recording) == f'cannot read {recording}: vtable constructor failed: messages'


@pytest.mark.parametrize(
    ('statement', 'said'),
    [
        (
            "UPDATE samples SET main_cpu = 'much' WHERE t = 3000000",
            'is not a gpu-tracker recording: samples.main_cpu has a text instead of a whole number or nothing',
        ),
        (
            'UPDATE samples SET main_cpu = 1e300 WHERE t = 3000000',
            'is not a gpu-tracker recording: samples.main_cpu has a number instead of a whole number or nothing',
        ),
        (
            "UPDATE regions SET name = x'00'",
            'is not a gpu-tracker recording: regions.name has bytes instead of a text',
        ),
        (
            "UPDATE regions SET start = 'x'",
            'is not a gpu-tracker recording: regions.start has a text instead of a whole number',
        ),
        ('UPDATE regions SET calls = 0', 'is not a gpu-tracker recording: a region has the invalid number of calls 0'),
        (
            "UPDATE columns SET beyond = name WHERE name = 'main_cpu'",
            'is not a gpu-tracker recording: the definitions of two columns refer to each',
        ),
        (
            "UPDATE columns SET beyond = 'nobody'",
            'is not a gpu-tracker recording: the definitions of two columns refer to each other',
        ),
        ("UPDATE columns SET small_unit = -1 WHERE name = 'main_cpu'", 'main_cpu has the invalid unit -1'),
        ("UPDATE columns SET small_unit = 9e999 WHERE name = 'main_cpu'", 'main_cpu has the invalid unit inf'),
        ("UPDATE columns SET name = 'x); DROP TABLE samples; --' WHERE position = 0", 'is not the name of a column'),
        ("UPDATE columns SET name = 'class' WHERE position = 0", "'class' is not the name of a column"),
        ("UPDATE columns SET name = 'nowhere' WHERE name = 'system_ram'", 'no such column: nowhere'),
        ("UPDATE meta SET value = 'many' WHERE key = 'cores'", 'meta.cores has a text instead of'),
        ("UPDATE meta SET value = '[1' WHERE key = 'totals'", 'meta.totals cannot be read'),
        ("UPDATE meta SET value = '[1]' WHERE key = 'totals'", 'meta.totals cannot be read'),
        ("UPDATE meta SET value = '[1]' WHERE key = 'command'", 'meta.command cannot be read'),
        ('UPDATE meta SET value = \'["x", "y", "z", 1]\' WHERE key = \'units\'', 'meta.units cannot be read'),
        ("UPDATE meta SET value = replace(printf('%099999d', 0), '0', '[') WHERE key = 'totals'", 'meta.totals cannot'),
    ],
)
def test_what_cannot_be_in_a_recording_is_said(recording: Path, statement: str, said: str) -> None:
    change(recording, statement)
    with pytest.raises(RecordingError) as caught:
        everything(recording)
    assert said in str(caught.value)
    assert str(recording) in str(caught.value)


def test_sums_of_sums_that_grow_without_bound_are_refused(recording: Path) -> None:
    names = [f'c{number}' for number in range(100)]
    change(recording, *(f'ALTER TABLE samples ADD COLUMN {name} INTEGER DEFAULT 1' for name in names))
    for place, name in enumerate(names):
        beyond = f'{names[place - 1]} {names[place - 1]}' if place else ''
        change(
            recording, f"INSERT INTO columns VALUES ({100 + place}, '{name}', 'count', 'gauge', 1.0, '{beyond}', '')"
        )
    assert (
        refusal(recording)
        == f'{recording} is not a gpu-tracker recording: the definitions of two columns refer to each other'
    )


@pytest.mark.parametrize('totals', ['\'{"seconds": []}\'', "json_set(value, '$.cpu.cores', 0)"])
def test_totals_that_are_none_are_an_error_of_the_recording(recording: Path, totals: str) -> None:
    change(recording, f"UPDATE meta SET value = {totals} WHERE key = 'totals'")
    with load(recording) as found, pytest.raises(RecordingError, match='it has no readable totals'):
        found.summary()


def test_texts_reach_no_terminal_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    evil = 'x\x1b[2J\u202e\ny'
    totals = totals_of('cuda')
    write_recording(
        path,
        rows=busy_rows(),
        regions=[region(1, evil, 0.5, 9.5)],
        meta={'host': evil, 'command': json.dumps([evil]), 'totals': json.dumps(totals)},
        processes=[(1, 7, 1, evil, 0)],
        messages=[(0, 'warning', evil)],
    )
    with load(path) as found:
        text = shown.as_text(found)
    assert text.replace('\n', '').isprintable()
    assert text.count('x?[2J??y') == 5


def test_keys_that_do_not_grow_end_the_reading(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    write_recording(path, rows=busy_rows(2000))
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'samples'").fetchone()
        (size,) = connection.execute('PRAGMA page_size').fetchone()
    content = bytearray(path.read_bytes())
    begin = (root - 1) * size
    assert content[begin] == 5, 'an inner page, whose cells lead to others'
    cells = int.from_bytes(content[begin + 3 : begin + 5])
    places = [int.from_bytes(content[begin + 12 + 2 * n : begin + 14 + 2 * n]) for n in range(cells)]
    first = content[begin + places[0] : begin + places[0] + 4]
    for place in places:
        content[begin + place : begin + place + 4] = first
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=r"the rows of 'samples' are not in order"):
        everything(path)


def half_written(path: Path, copy: Path) -> None:
    """Copy a recording with its journal at a moment at which a commit is half done."""
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute('PRAGMA journal_mode = PERSIST')
        writer.execute('PRAGMA synchronous = OFF')
        writer.execute('PRAGMA cache_size = 5')
        writer.execute('BEGIN')
        writer.execute('UPDATE samples SET main_cpu = 0')
        writer.executemany('INSERT INTO samples (t) VALUES (?)', [(10**9 + n,) for n in range(2000)])
        shutil.copy(path, copy)
        shutil.copy(f'{path}-journal', f'{copy}-journal')
        writer.execute('ROLLBACK')


def test_a_commit_that_a_kill_has_cut_is_rolled_back_on_a_copy(recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / 'killed'
    folder.mkdir()
    killed = folder / 'run.db'
    half_written(recording, killed)
    before = killed.read_bytes(), (folder / 'run.db-journal').read_bytes()
    with load(killed) as found:
        assert [row.main_cpu for row in found.samples] == [float(n) for n in range(11)]
        assert found.path == str(killed)
    assert (killed.read_bytes(), (folder / 'run.db-journal').read_bytes()) == before


def test_a_journal_that_names_another_file_is_not_run(recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / 'hostile'
    folder.mkdir()
    killed = folder / 'run.db'
    half_written(recording, killed)
    victim = tmp_path / 'victim'
    victim.write_text('dear')
    name = str(victim).encode()
    magic = bytes.fromhex('d9d505f920a163d7')
    with open(f'{killed}-journal', 'ab') as journal:
        journal.write(bytes(4) + name + len(name).to_bytes(4) + (sum(name) & 0xFFFFFFFF).to_bytes(4) + magic)
    assert (
        refusal(killed) == f'{killed}-journal is not the journal of this recording, because it refers to another file'
    )
    assert victim.read_text() == 'dear'


def test_a_file_that_is_being_written_is_read_as_it_was_before(recording: Path) -> None:
    with closing(sqlite3.connect(recording, isolation_level=None)) as writer:
        writer.execute('PRAGMA journal_mode = PERSIST')
        writer.execute('BEGIN IMMEDIATE')
        writer.execute('INSERT INTO samples (t) VALUES (99000000)')
        assert everything(recording) == 11
        writer.execute('COMMIT')
        assert everything(recording) == 12


def test_what_is_written_meanwhile_is_not_read_and_not_held_up(recording: Path) -> None:
    with load(recording) as found, closing(sqlite3.connect(recording, timeout=0, isolation_level=None)) as writer:
        rows = iter(found.samples)
        assert next(rows).t == 0.0
        writer.execute('INSERT INTO samples (t) VALUES (99000000)')
        assert [row.t for row in rows] == [float(n) for n in range(1, 11)]
        assert len(found.samples) == 11


def cut(path: Path, share: float) -> None:
    os.truncate(path, int(path.stat().st_size * share))


def test_a_file_that_was_cut_off_is_refused_with_the_way_to_read_it(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    write_recording(path, rows=busy_rows(2000))
    cut(path, 0.75)
    assert refusal(path) == (
        f'{path} is damaged (database disk image is malformed): --salvage (or salvage=True) reads it as far as it goes'
    )


def test_a_file_that_was_cut_off_is_salvaged_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    write_recording(path, rows=busy_rows(2000), regions=[region(1, 'load', 0.5, 9.5)])
    cut(path, 0.75)
    before = path.read_bytes()
    with load(path, salvage=True) as found:
        times = [row.t for row in found.samples]
        assert times == [float(n) for n in range(len(times))]
        assert 1000 < len(times) < 1600
        assert found.meta.host == 'node1'
        assert len(found.samples) == len(times)
    assert path.read_bytes() == before


@pytest.mark.parametrize('size', [0, 50, 3000, 4096, 8192, 40_000])
def test_a_file_of_any_length_is_salvaged_or_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / 'run.db'
    write_recording(path, rows=busy_rows(500))
    os.truncate(path, size)
    try:
        everything(path, salvage=True)
    except RecordingError as error:
        assert str(path) in str(error)  # noqa: PT017 - it may be raised, and then it names the file


def fuzz_base(folder: Path) -> bytes:
    path = folder / 'base.db'
    if not path.exists():
        write_recording(
            path,
            rows=busy_rows(50),
            regions=[
                region(1, 'load', 0.5, 9.5, peaks=(2**20, 2**24), attributes={'batch': 3}),
                region(2, 'step', 1.0, 2.0, parent=1, calls=10, total=0.5),
                region(3, 'late', 8.0, None),
            ],
            gpus=[(0, 'GPU-1', 'H100', 1000)],
            gpu_samples=[(n, 0, 1, 1, 1) for n in range(20)],
            processes=[(1, 4242, 1, 'python', 0)],
            process_samples=[(n, 1, 10, 10, 1) for n in range(20)],
            messages=[(0, 'warning', 'careful')],
        )
    return path.read_bytes()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=12),
    begin=st.booleans(),
    salvage=st.booleans(),
)
def test_bytes_that_were_changed_are_an_error_or_a_result(
    tmp_path: Path, flips: list[tuple[float, int]], begin: bool, salvage: bool
) -> None:
    content = bytearray(fuzz_base(tmp_path))
    for place, byte in flips:
        content[int(place * (4096 if begin else len(content)))] = byte
    path = tmp_path / 'changed.db'
    path.write_bytes(content)
    try:
        everything(path, salvage=salvage)
    except RecordingError as error:
        assert str(error)  # noqa: PT017 - as above


def test_a_closed_recording_says_so(recording: Path) -> None:
    found = load(recording)
    found.close()
    with pytest.raises(RecordingError, match=f'^{recording} was closed: load the recording again$'):
        list(found.samples)


@pytest.mark.parametrize('name', ['a?mode=memory.db', 'a#b.db', 'a%20b.db', 'ü.db', "it's.db"])
def test_any_name_of_a_file_is_the_name_of_that_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_recording(path, rows=busy_rows(3))
    assert everything(path) == 3


@pytest.fixture(autouse=True)
def _no_copies_are_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], None]:
    folder = tmp_path_factory.mktemp('temporary')
    monkeypatch.setattr('tempfile.tempdir', str(folder))
    yield
    assert os.listdir(folder) == []
