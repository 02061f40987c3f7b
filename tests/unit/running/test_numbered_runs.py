from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.running import numbered_runs
from support.tracked_program import start

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the user's runs."""
    monkeypatch.setenv('XDG_STATE_HOME', str(tmp_path))
    monkeypatch.setenv('TMPDIR', str(tmp_path / 'no-tmp'))
    found = tmp_path / 'gpu-tracker' / 'runs'
    found.mkdir(parents=True, mode=0o700)
    found.parent.chmod(0o700)
    return found


def recording(folder: Path, name: str, ended: float = 0.0, size: int = 1) -> str:
    path = folder / f'{name}.db'
    path.write_bytes(bytes(size))
    os.utime(path, (ended, ended))
    return str(path)


def test_each_run_gets_the_next_number(folder: Path) -> None:
    assert numbered_runs.keep(recording(folder, 'a'), str(folder)) == 1
    assert numbered_runs.keep(recording(folder, 'b'), str(folder)) == 2
    (folder / '1.db').unlink()
    assert numbered_runs.keep(recording(folder, 'c'), str(folder)) == 3
    assert sorted(os.listdir(folder)) == ['2.db', '3.db']
    assert numbered_runs.found() == {2: f'{folder}/2.db', 3: f'{folder}/3.db'}


def test_two_runs_that_end_at_once_get_two_numbers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording(folder, '1')
    monkeypatch.setattr(numbered_runs, 'found', dict)
    assert numbered_runs.keep(recording(folder, 'a'), str(folder)) == 2


def test_the_oldest_are_removed(folder: Path) -> None:
    for number in range(1, 51):
        recording(folder, str(number), ended=number)
    assert numbered_runs.keep(recording(folder, 'a', ended=51), str(folder)) == 51
    assert list(numbered_runs.found()) == list(range(2, 52))


def test_the_recordings_of_killed_runs_count(folder: Path) -> None:
    killed = '20260101-000000-abcdef'
    recording(folder, killed, ended=1)
    (folder / f'{killed}.run').touch()
    (folder / f'{killed}.db-journal').touch()
    recording(folder, '1', ended=2)
    numbered_runs.remove_oldest(str(folder), most=1)
    assert sorted(os.listdir(folder)) == ['1.db', f'{killed}.run']


def test_together_they_have_a_size(folder: Path) -> None:
    for number, size in ((1, 1), (2, 60), (3, 50), (4, 50)):
        recording(folder, str(number), ended=number, size=size)
    numbered_runs.remove_oldest(str(folder), largest=100)
    assert list(numbered_runs.found()) == [3, 4]


def test_the_newest_is_the_one_that_ended_last_and_goes_on_no_more(folder: Path) -> None:
    assert numbered_runs.newest() is None
    recording(folder, '2', ended=5)
    recording(folder, '10', ended=4)
    assert numbered_runs.newest() == '2'
    recording(folder, '20260101-000000-abcdef', ended=6)
    run = folder / '20260101-000000-abcdef.run'
    run.touch()
    assert numbered_runs.newest() == '20260101-000000-abcdef'
    holder = """
import fcntl, sys
file = open(sys.argv[1], 'r+')
fcntl.lockf(file, fcntl.LOCK_SH)
print('', flush=True)
input()
"""
    with start(holder, run, stdin=subprocess.PIPE) as program:
        program.stdout.readline()
        assert numbered_runs.newest() == '2'
        program.communicate('\n')


def test_a_folder_that_hangs_costs_the_run_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(numbered_runs, 'keep', lambda *_: os.read(reading, 1)[0])
    assert numbered_runs.keep_in_time('a.db', '', 0.01) is None
    os.write(writing, b'x')


def test_what_cannot_be_kept_is_not_kept(folder: Path) -> None:
    assert numbered_runs.keep_in_time(f'{folder}/gone.db', str(folder)) is None
    assert numbered_runs.keep_in_time('/gone/a.db', str(folder)) is None
    assert os.listdir(folder) == []


def test_one_that_is_larger_than_all_may_be_is_not_kept(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbered_runs, 'LARGEST', 100)
    assert numbered_runs.keep_in_time(recording(tmp_path, 'live', size=101), str(folder)) is None
    assert os.listdir(folder) == []


def test_a_recording_elsewhere_is_copied(folder: Path, tmp_path: Path) -> None:
    path = recording(tmp_path, 'live', size=7)
    assert numbered_runs.keep(path, str(folder)) == 1
    assert os.listdir(folder) == ['1.db']
    assert (folder / '1.db').stat().st_size == 7
    assert os.path.exists(path)


def test_an_incomplete_copy_is_no_run_and_is_removed_in_its_turn(folder: Path) -> None:
    recording(folder, '.abcdef', ended=1)
    assert numbered_runs.newest() is None
    numbered_runs.remove_oldest(str(folder), most=0)
    assert os.listdir(folder) == []
