from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker import real
from gpu_tracker.sampler.kept_run import KeptRun, RunFile, is_locked, is_own, local_folders, remove_oldest
from support.tracked_program import run

if TYPE_CHECKING:
    from pathlib import Path

ABOUT = {'command': ['train'], 'recording': None, 'units': ['gigabytes', 'gigabytes', 'hours', None]}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / 'home').mkdir()
    (tmp_path / 'proc' / 'self').mkdir(parents=True)
    return tmp_path / 'home'


def folders(home: Path, mounts: dict[str, str], **environment: str) -> list[str]:
    lines = [
        f'{number} 1 0:{number} / {point} rw shared:1 - {kind} source rw\n'
        for number, (point, kind) in enumerate(mounts.items(), 20)
    ]
    (home.parent / 'proc' / 'self' / 'mountinfo').write_text(''.join(lines))
    return local_folders({'HOME': str(home), 'TMPDIR': '/nowhere', **environment}, str(home.parent / 'proc'))


def of_state(home: Path) -> str:
    return f'{home}/.local/state/gpu-tracker/runs'


TEMPORARY = f'/nowhere/gpu-tracker-{os.geteuid()}/runs'


def test_the_folders_of_a_local_machine(home: Path) -> None:
    assert folders(home, {'/': 'ext4'}) == [of_state(home), TEMPORARY]
    assert folders(home, {'/': 'ext4'}, TMPDIR='') == [of_state(home), TEMPORARY.replace('/nowhere', '/tmp')]
    assert folders(home, {'/': 'ext4'}, XDG_STATE_HOME=f'{home}/a/../state') == [
        f'{home}/state/gpu-tracker/runs',
        TEMPORARY,
    ]
    assert folders(home, {'/': 'ext4'}, HOME='') == [TEMPORARY]
    assert folders(home, {'/': 'ext4'}, HOME='home') == [TEMPORARY]


@pytest.mark.parametrize('kind', ['nfs4', 'cifs', 'fuse.sshfs', 'fuseblk', 'autofs', '9p', 'virtiofs', 'lustre'])
def test_file_systems_that_may_block_are_left_out(home: Path, kind: str) -> None:
    assert folders(home, {'/': 'ext4', str(home): kind}) == [TEMPORARY]
    assert folders(home, {'/': 'ext4', f'{home}/.local/state': kind}) == [TEMPORARY]
    assert folders(home, {'/': 'ext4', '/nowhere': kind}) == [of_state(home)]
    assert folders(home, {'/': kind}) == []


def test_the_last_of_several_mounts_at_one_place_counts(home: Path) -> None:
    (home.parent / 'proc' / 'self' / 'mountinfo').write_text(
        f'20 1 0:20 / / rw - ext4 a rw\n21 20 0:21 / {home} rw - autofs b rw\n22 21 0:22 / {home} rw - xfs c rw\n'
    )
    assert local_folders({'HOME': str(home)}, str(home.parent / 'proc'))[0] == of_state(home)


def test_symbolic_links_are_followed_before_anything_is_touched(home: Path) -> None:
    (home / '.local').symlink_to('../server/data')
    assert folders(home, {'/': 'ext4', f'{home.parent}/server': 'nfs'}) == [TEMPORARY]
    assert folders(home, {'/': 'ext4'})[0] == f'{home.parent}/server/data/state/gpu-tracker/runs'
    (home / '.local').unlink()
    (home / '.local').symlink_to('.local')
    assert folders(home, {'/': 'ext4'}) == [TEMPORARY]


def test_links_that_another_user_may_have_made_are_not_followed(home: Path) -> None:
    temporary, documents = home.parent / 'temporary', home / 'documents'
    own = temporary / f'gpu-tracker-{os.geteuid()}'
    own.mkdir(parents=True, mode=0o700)
    documents.mkdir(mode=0o700)
    assert folders(home, {'/': 'ext4'}, TMPDIR=str(temporary))[-1] == f'{own}/runs'
    (own / 'runs').symlink_to(documents)
    assert folders(home, {'/': 'ext4'}, TMPDIR=str(temporary)) == [of_state(home)]
    assert not is_own(f'{own}/runs')


def test_a_folder_that_others_can_write_to_is_no_own_one(tmp_path: Path) -> None:
    folder = tmp_path / 'gpu-tracker' / 'runs'
    assert not is_own(str(folder))
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    folder.parent.chmod(0o700)
    assert is_own(str(folder))
    folder.parent.chmod(0o770)
    assert not is_own(str(folder))


def test_a_home_that_does_not_exist_is_not_made(home: Path) -> None:
    assert folders(home, {'/': 'ext4'}, HOME=f'{home.parent}/none') == [TEMPORARY]


def test_looking_at_a_lock_takes_none(tmp_path: Path) -> None:
    path = tmp_path / 'run'
    path.touch()
    handle = os.open(path, os.O_RDONLY)
    assert not is_locked(handle)
    program = (
        f'import os; from gpu_tracker.sampler.kept_run import is_locked; print(is_locked(os.open({str(path)!r}, 0)))'
    )
    assert run(program).stdout == 'False\n'
    os.close(handle)


def test_files_of_others_are_not_removed(tmp_path: Path) -> None:
    names = ['notes.run', '.hidden', 'thesis.tex', '20260101-0000-aaaaaa.run', '2026010a-000000-aaaaaa.run']
    for name in names:
        (tmp_path / name).touch()
    remove_oldest(str(tmp_path), 0)
    assert sorted(os.listdir(tmp_path)) == sorted(names)


def test_a_mount_point_with_a_blank(home: Path) -> None:
    mounts = {'/': 'ext4', f'{home.parent}/a\\040b': 'nfs'}
    assert folders(home, mounts, XDG_STATE_HOME=f'{home.parent}/a b') == [TEMPORARY]


def test_without_proc_there_is_no_folder(tmp_path: Path) -> None:
    assert local_folders({'HOME': '/root'}, str(tmp_path)) == []


def test_the_home_of_another_user_is_left_out(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real.os, 'geteuid', lambda: 54_321)
    assert folders(home, {'/': 'ext4'}) == ['/nowhere/gpu-tracker-54321/runs']


def test_the_oldest_go_first_and_none_that_is_locked(tmp_path: Path) -> None:
    (tmp_path / '19990101-000000-aaaaaa.run').touch()
    (tmp_path / '.20000101-000000-aaaaaa').touch()
    going_on = KeptRun(str(tmp_path), ABOUT)
    remove_oldest(str(tmp_path), 2)
    assert sorted(os.listdir(tmp_path)) == ['.20000101-000000-aaaaaa', os.path.basename(going_on.path)]


def test_a_file_whose_result_was_taken_stays_empty(tmp_path: Path) -> None:
    kept = KeptRun(str(tmp_path), ABOUT)
    kept.write({'samples': 1})
    assert kept.is_wanted
    held = RunFile(kept.path)
    os.rename(kept.path, tmp_path / 'elsewhere')
    held.remove()
    kept.write({'samples': 2})
    assert (tmp_path / 'elsewhere').read_bytes() == b''
    assert not kept.is_wanted


def test_a_descriptor_that_became_another_file_is_left_alone(tmp_path: Path) -> None:
    kept = KeptRun(str(tmp_path), ABOUT)
    held = RunFile(kept.path)
    (tmp_path / 'other').write_text('text')
    other = os.open(tmp_path / 'other', os.O_RDWR)
    os.dup2(other, held._handle)
    handle = held._handle
    held.remove()
    assert (tmp_path / 'other').read_text() == 'text'
    assert not kept.is_wanted
    os.close(other)
    os.close(handle)


def test_the_recording_of_a_killed_run_goes_with_its_file(tmp_path: Path) -> None:
    kept = KeptRun(str(tmp_path), {**ABOUT, 'recording': ''})
    for path in (kept.recording, f'{kept.recording}-journal'):
        (tmp_path / path).touch()
    code = 'import sys; from gpu_tracker.sampler.kept_run import remove_oldest; remove_oldest(sys.argv[1], 0)'
    run(code, tmp_path)
    assert len(os.listdir(tmp_path)) == 3
    os.close(kept._store.handle)
    run(code, tmp_path)
    assert os.listdir(tmp_path) == []
