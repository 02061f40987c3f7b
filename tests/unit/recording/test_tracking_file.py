from __future__ import annotations

import fcntl
import os
import sqlite3
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.errors import ParameterError
from gpu_tracker.recording.writing.recording_file import RecordingFile
from gpu_tracker.recording.writing.tracking_file import TrackingFile
from gpu_tracker.running.options import Options
from support.recorder_runs import COLUMNS, UNITS

if TYPE_CHECKING:
    from pathlib import Path


def refusal(path: Path | str, *, overwrite: bool = False, **options: object) -> str:
    with pytest.raises(ParameterError) as refused:
        Options(tracking_file=path, overwrite=overwrite, **options)
    return str(refused.value)


def a_recording(path: Path) -> None:
    path.touch()
    file = RecordingFile(str(path))
    file.create(COLUMNS, UNITS, [])
    file.close()


def a_tracking_file_of_5(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute('CREATE TABLE static_data (\n\tram_unit VARCHAR, ram_system_capacity FLOAT)')
    connection.close()


def another_database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute('CREATE TABLE data (name TEXT)')
    connection.close()


@pytest.mark.parametrize('make', [a_recording, a_tracking_file_of_5])
def test_an_older_recording_gets_the_first_free_number(tmp_path: Path, make) -> None:
    path, other = tmp_path / 'run.db', tmp_path / 'run-1.db'
    make(path)
    other.write_text('mine')
    before = path.read_bytes()
    file = TrackingFile(str(path), overwrite=False)
    file.create()
    file.hand_over()
    file.keep()
    assert file.renamed == str(tmp_path / 'run-2.db')
    assert (tmp_path / 'run-2.db').read_bytes() == before
    assert (path.read_bytes(), other.read_text()) == (b'', 'mine')
    assert sorted(os.listdir(tmp_path)) == ['run-1.db', 'run-2.db', 'run.db']


def test_the_journal_of_a_killed_run_is_renamed_with_it_and_both_return_if_there_is_no_run(tmp_path: Path) -> None:
    path, journal = tmp_path / 'run.db', tmp_path / 'run.db-journal'
    a_recording(path)
    journal.write_bytes(b'\xd9\xd5\x05\xf9\x20\xa1\x63\xd7' + bytes(504))
    before = path.read_bytes(), journal.read_bytes()
    file = TrackingFile(str(path), overwrite=False)
    file.create()
    assert sorted(os.listdir(tmp_path)) == ['run-1.db', 'run-1.db-journal', 'run.db']
    file.discard()
    assert (path.read_bytes(), journal.read_bytes()) == before
    assert sorted(os.listdir(tmp_path)) == ['run.db', 'run.db-journal']


@pytest.mark.parametrize(
    ('name', 'accepted'),
    [
        ('folder', 'the path of a file, not of a folder'),
        ('folder/', 'the path of a file, not of a folder'),
        ('fifo', 'the path of a regular file'),
    ],
)
def test_what_can_be_no_file_is_refused(tmp_path: Path, name: str, accepted: str) -> None:
    (tmp_path / 'folder').mkdir()
    os.mkfifo(tmp_path / 'fifo')
    path = f'{tmp_path}/{name}'
    assert refusal(path, overwrite=True) == f'tracking_file must be {accepted}, not {path!r}'


def test_a_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    path = f'{tmp_path}/missing/run.db'
    assert refusal(path) == (
        f'tracking_file must be a path in a folder that exists, not {path!r}. See "gpu-tracker explain cannot-write".'
    )


@pytest.mark.parametrize('make', [a_recording, a_tracking_file_of_5, os.mknod])
def test_recordings_of_ours_and_of_gpu_tracker_5_and_empty_files_may_be_overwritten(tmp_path: Path, make) -> None:
    path = tmp_path / 'run.db'
    make(path)
    before = path.read_bytes()
    file = TrackingFile(str(path), overwrite=True)
    file.create()
    assert path.read_bytes() == b''
    file.discard()
    assert path.read_bytes() == before
    file = TrackingFile(str(path), overwrite=True)
    file.create()
    file.hand_over()
    file.keep()
    assert os.listdir(tmp_path) == ['run.db']


def test_a_csv_file_of_gpu_tracker_5_may_be_overwritten(tmp_path: Path) -> None:
    path = tmp_path / 'run.csv'
    path.write_text('ram_unit,gpu_ram_unit,time_unit,ram_system_capacity\n')
    assert Options(tracking_file=path, overwrite=True).records_rows_only


@pytest.mark.parametrize(
    ('make', 'overwrite'),
    [
        (another_database, True),
        (another_database, False),
        (lambda path: path.write_text('a letter'), True),
        (lambda path: path.write_text('a letter'), False),
        (os.mknod, False),
    ],
)
def test_nothing_else_is_overwritten_or_renamed(tmp_path: Path, make, *, overwrite: bool) -> None:
    path = tmp_path / 'run.db'
    make(path)
    before = path.read_bytes()
    accepted = 'a new file, or an older recording, also of gpu-tracker 5'
    assert refusal(path, overwrite=overwrite) == f'tracking_file must be {accepted}, not {path!r}'
    assert path.read_bytes() == before


@pytest.mark.parametrize('overwrite', [True, False])
def test_a_file_that_another_run_writes_is_refused(tmp_path: Path, *, overwrite: bool) -> None:
    path = tmp_path / 'run.db'
    a_recording(path)
    with path.open('rb') as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        expected = f'tracking_file must be a file that no other run is writing, not {path!r}'
        assert refusal(path, overwrite=overwrite) == expected


def test_something_in_the_place_of_the_journal_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    (tmp_path / 'run.db-journal').write_text('my diary')
    accepted = 'a path beside which there is no run.db-journal of something else'
    assert refusal(path) == f'tracking_file must be {accepted}, not {path!r}'


def test_the_journal_of_a_run_that_was_killed_goes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    (tmp_path / 'run.db-journal').write_bytes(b'\xd9\xd5\x05\xf9\x20\xa1\x63\xd7' + bytes(504))
    file = TrackingFile(str(path), overwrite=False)
    file.create()
    assert os.listdir(tmp_path) == ['run.db']
    file.discard()
    assert os.listdir(tmp_path) == []


def test_the_file_is_locked_until_it_is_handed_over(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    file = TrackingFile(str(path), overwrite=False)
    file.create()
    assert 'no other run is writing' in refusal(path, overwrite=True)
    file.hand_over()
    Options(tracking_file=path, overwrite=True)


def test_a_link_leads_to_the_file(tmp_path: Path) -> None:
    (tmp_path / 'link.db').symlink_to(tmp_path / 'run.db')
    assert Options(tracking_file=tmp_path / 'link.db').tracking_file == str(tmp_path / 'run.db')


def test_it_is_another_file_than_that_of_the_result(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    expected = f'tracking_file must be a file other than resource_usage_file, not {path!r}'
    assert refusal(path, resource_usage_file=path) == expected


@pytest.mark.parametrize('name', [None, 'run.csv'])
def test_rows_of_processes_need_a_recording(tmp_path: Path, name: str | None) -> None:
    path = None if name is None else tmp_path / name
    expected = 'per_process must be False if no recording is written, not True'
    assert refusal(path, per_process=True) == expected
