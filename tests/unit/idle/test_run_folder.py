"""Where the socket of the running monitor is: the monitor and who asks it have to come to the same place."""

from __future__ import annotations

import os

import pytest

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.idle.run_folder import check_folder, make_folder, socket_path
from gpu_tracker.system.users import user_name
from support.tracked_program import as_root

ME = os.geteuid()
STRANGER = 54321


def test_a_service_has_the_first_folder_that_systemd_gives_it():
    for user in (0, 1000):
        assert socket_path({'RUNTIME_DIRECTORY': '/run/of-it'}, user) == '/run/of-it/idle.sock'
    both = {'RUNTIME_DIRECTORY': '/run/one:/run/two', 'XDG_RUNTIME_DIR': '/run/user/1000'}
    assert socket_path(both, 1000) == '/run/one/idle.sock'


def test_root_has_its_place_whoever_it_was_before():
    assert socket_path({}, 0) == '/run/gpu-tracker/idle.sock'
    variables = {'XDG_RUNTIME_DIR': '/run/user/1000', 'TMPDIR': '/var/tmp', 'RUNTIME_DIRECTORY': ''}
    assert socket_path(variables, 0) == '/run/gpu-tracker/idle.sock'


def test_a_user_has_it_in_the_run_time_folder(tmp_path):
    if ME == 0:
        os.chown(tmp_path, STRANGER, STRANGER)
    user = os.stat(tmp_path).st_uid
    folder = str(tmp_path)
    assert socket_path({'XDG_RUNTIME_DIR': folder}, user) == f'{folder}/gpu-tracker/idle.sock'


@pytest.mark.parametrize('variable', ['', 'relative', '/does/not/exist', '/etc/passwd', '/'])
def test_without_a_run_time_folder_of_the_users_own_it_is_in_tmp(tmp_path, variable):
    variables = {'XDG_RUNTIME_DIR': variable, 'RUNTIME_DIRECTORY': 'relative', 'TMPDIR': str(tmp_path)}
    assert socket_path(variables, STRANGER) == f'{tmp_path}/gpu-tracker-54321/idle.sock'


@pytest.mark.parametrize('temporary', ['', 'relative', '/does/not/exist'])
def test_a_temporary_folder_that_is_none_does_not_count(temporary):
    assert socket_path({'TMPDIR': temporary}, 987654) == '/tmp/gpu-tracker-987654/idle.sock'


def test_a_folder_in_tmp_that_another_user_has_made_is_an_error(tmp_path):
    user = ME + 1
    folder = tmp_path / f'gpu-tracker-{user}'
    folder.mkdir(0o700)
    with pytest.raises(GpuTrackerError) as caught:
        socket_path({'TMPDIR': str(tmp_path)}, user)
    assert str(caught.value) == (
        f"the folder {folder} for the status socket cannot be trusted: it is {user_name(ME)}'s, not {user_name(user)}'s"
    )


def test_a_folder_that_is_the_users_alone_is_trusted_and_no_other(tmp_path):
    folder = tmp_path / 'folder'
    folder.mkdir()
    for mode in (0o700, 0o755):
        folder.chmod(mode)
        check_folder(str(folder), ME)
    for mode in (0o770, 0o707, 0o1777):
        folder.chmod(mode)
        with pytest.raises(GpuTrackerError, match=rf'others may write to it \(mode {mode:04o}\)'):
            check_folder(str(folder), ME)
    folder.chmod(0o700)
    (tmp_path / 'link').symlink_to(folder)
    with pytest.raises(GpuTrackerError, match='it is a symbolic link'):
        check_folder(str(tmp_path / 'link'), ME)
    (tmp_path / 'file').touch()
    with pytest.raises(GpuTrackerError, match='it is no folder'):
        check_folder(str(tmp_path / 'file'), ME)
    with pytest.raises(GpuTrackerError, match='cannot be used: no such file or directory'):
        check_folder(str(tmp_path / 'missing'), ME)


def test_the_folder_is_made_for_the_user_alone_and_one_that_is_there_stays(tmp_path):
    folder = tmp_path / 'folder'
    make_folder(str(folder), ME)
    assert oct(folder.stat().st_mode) == '0o40700'
    folder.chmod(0o755)
    make_folder(str(folder), ME)
    assert oct(folder.stat().st_mode) == '0o40755'


def test_in_a_sticky_folder_others_cannot_replace_the_socket_so_it_will_do(tmp_path):
    folder = tmp_path / 'folder'
    folder.mkdir()
    folder.chmod(0o1777)
    make_folder(str(folder), ME)
    (tmp_path / 'link').symlink_to(folder)
    with pytest.raises(GpuTrackerError, match='it is a symbolic link'):
        make_folder(str(tmp_path / 'link'), ME)


@as_root
def test_the_owner_of_a_sticky_folder_could_replace_the_socket_so_it_may_not_be_another_user(tmp_path):
    folder = tmp_path / 'folder'
    folder.mkdir()
    folder.chmod(0o1777)
    make_folder(str(folder), STRANGER)  # root is trusted, as with /tmp
    os.chown(folder, STRANGER, STRANGER)
    make_folder(str(folder), STRANGER)
    with pytest.raises(GpuTrackerError, match=f"cannot be trusted: it is {STRANGER}'s, not root's"):
        make_folder(str(folder), ME)


def test_where_the_folder_cannot_be_made(tmp_path):
    path = str(tmp_path / 'missing' / 'folder')
    with pytest.raises(GpuTrackerError) as caught:
        make_folder(path, ME)
    assert str(caught.value) == f'the folder {path} for the status socket cannot be made: no such file or directory'


def test_a_path_that_is_too_long_for_a_socket_is_an_error():
    fits = '/' + 'x' * 96
    assert len(socket_path({'RUNTIME_DIRECTORY': fits}, 0)) == 107
    with pytest.raises(GpuTrackerError) as caught:
        socket_path({'RUNTIME_DIRECTORY': fits[:-1] + 'é'}, 0)
    assert str(caught.value) == (
        f'the path of the status socket has 108 bytes, but the system allows only 107: {fits[:-1]}é/idle.sock. '
        'Set XDG_RUNTIME_DIR to a shorter folder (for a service, RUNTIME_DIRECTORY).'
    )
