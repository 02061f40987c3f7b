from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpu_tracker.errors import ClaimsError, GpuTrackerError, ParameterError
from gpu_tracker.gpus.claims import shared_folder
from gpu_tracker.system.users import user_name

ME = user_name(os.geteuid())


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refusal(path: Path) -> str:
    with pytest.raises(ClaimsError) as caught:
        shared_folder.open_folder(str(path))
    assert isinstance(caught.value, GpuTrackerError)
    return str(caught.value)


def test_the_lock_folder_of_the_machine_comes_first(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert shared_folder.default_path({}, str(tmp_path)) == f'{tmp_path}/gpu-tracker'
    assert shared_folder.default_path({'GPU_TRACKER_CLAIMS': ''}, str(tmp_path)) == f'{tmp_path}/gpu-tracker'


@pytest.mark.parametrize('mode', [0o755, 0o777, 0o1775])
def test_the_claims_of_the_machine_in_a_lock_folder_that_is_for_root_alone(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    claims = tmp_path / 'gpu-tracker'
    claims.mkdir()
    claims.chmod(0o1777)
    assert shared_folder.default_path({}, str(tmp_path)) == str(claims)
    for unsafe in (0o755, 0o777, 0o1775):
        claims.chmod(unsafe)
        assert shared_folder.default_path({}, str(tmp_path)) == '/tmp/gpu-tracker-claims'
    claims.chmod(0o1777)
    claims.rename(tmp_path / 'elsewhere')
    claims.symlink_to('elsewhere')
    assert shared_folder.default_path({}, str(tmp_path)) == '/tmp/gpu-tracker-claims'


@pytest.mark.parametrize('mode', [0o755, 0o777, 0o1775])
def test_a_lock_folder_that_not_everybody_can_write_to_safely_is_left_alone(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    assert shared_folder.default_path({}, str(tmp_path)) == '/tmp/gpu-tracker-claims'


def test_without_a_lock_folder_it_is_in_tmp(tmp_path: Path) -> None:
    assert shared_folder.default_path({}, str(tmp_path / 'none')) == '/tmp/gpu-tracker-claims'
    assert shared_folder.default_path({}, '/dev/null') == '/tmp/gpu-tracker-claims'


def test_the_variable_chooses_another() -> None:
    assert shared_folder.default_path({'GPU_TRACKER_CLAIMS': '/srv/claims'}) == '/srv/claims'


@pytest.mark.parametrize('value', ['claims', './claims', '~/claims'])
def test_the_variable_needs_an_absolute_path(value: str) -> None:
    with pytest.raises(ParameterError) as caught:
        shared_folder.default_path({'GPU_TRACKER_CLAIMS': value})
    assert str(caught.value) == f"GPU_TRACKER_CLAIMS must be an absolute path, not '{value}'"


@pytest.mark.parametrize('umask', [0o000, 0o022, 0o077, 0o177])
def test_the_folder_is_made_for_all_users_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / 'claims'
    before = os.umask(umask)
    try:
        shared_folder.make_folder(str(folder))
    finally:
        os.umask(before)
    assert mode_of(folder) == 0o1777
    assert os.listdir(tmp_path) == ['claims']


def test_a_folder_with_something_in_it_is_never_replaced(tmp_path: Path) -> None:
    folder = tmp_path / 'claims'
    folder.mkdir(0o755)
    (folder / 'file').touch()
    shared_folder.make_folder(str(folder))
    assert os.listdir(tmp_path) == ['claims']
    assert os.listdir(folder) == ['file']
    assert mode_of(folder) == 0o755


def test_neither_is_anything_else(tmp_path: Path) -> None:
    (tmp_path / 'file').touch()
    (tmp_path / 'link').symlink_to('nowhere')
    shared_folder.make_folder(str(tmp_path / 'file'))
    shared_folder.make_folder(str(tmp_path / 'link'))
    assert sorted(os.listdir(tmp_path)) == ['file', 'link']
    assert (tmp_path / 'link').readlink() == Path('nowhere')


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(ClaimsError) as caught:
        shared_folder.make_folder(str(tmp_path / 'none' / 'claims'))
    assert str(caught.value) == (
        f'The folder {tmp_path}/none/claims for GPU claims cannot be made: no such file or directory. '
        'GPU_TRACKER_CLAIMS chooses another folder.'
    )


@pytest.mark.parametrize('mode', [0o1777, 0o1775, 0o1770, 0o755, 0o700])
def test_folders_that_are_fine_for_their_owner(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    descriptor = shared_folder.open_folder(str(tmp_path))
    assert descriptor is not None
    assert shared_folder.is_at(str(tmp_path), descriptor)
    assert not shared_folder.is_at(str(tmp_path / 'none'), descriptor)
    assert not shared_folder.is_at('/', descriptor)
    os.close(descriptor)
    assert mode_of(tmp_path) == mode


@pytest.mark.parametrize('mode', [0o777, 0o775, 0o757, 0o722])
def test_a_folder_in_which_others_may_remove_claims_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    assert refusal(tmp_path) == (
        f'GPU claims cannot be stored in {tmp_path} (a folder of {ME}, mode {mode:04o}): other users may write to it, '
        'and without the sticky bit (chmod +t) they may remove the claims in it. '
        'GPU_TRACKER_CLAIMS chooses another folder.'
    )


def test_a_missing_folder_is_none(tmp_path: Path) -> None:
    assert shared_folder.open_folder(str(tmp_path / 'none')) is None
    assert shared_folder.open_folder(str(tmp_path / 'none' / 'claims')) is None


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / 'folder'
    shared_folder.make_folder(str(folder))
    link, dangling, file, fifo = (tmp_path / name for name in ('link', 'dangling', 'file', 'fifo'))
    link.symlink_to(folder)
    dangling.symlink_to('nowhere')
    file.touch(0o644)
    os.mkfifo(fifo, 0o644)
    assert refusal(link) == (
        f'GPU claims cannot be stored in {link} (a symbolic link of {ME}, mode 0777): it is not a folder. '
        'GPU_TRACKER_CLAIMS chooses another folder.'
    )
    assert f'(a symbolic link of {ME}, mode 0777): it is not a folder.' in refusal(dangling)
    assert f'(a file of {ME}, mode ' in refusal(file)
    assert f'(no folder of {ME}, mode ' in refusal(fifo)
    assert 'it is not a folder' in refusal(file / 'claims')
