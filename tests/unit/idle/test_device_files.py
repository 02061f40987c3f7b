from __future__ import annotations

import os

import pytest

from gpu_tracker.idle.observing.device_files import Identity, device_number, find_devices, identity_of


def test_finds_nodes_by_number_in_order(tmp_path):
    for name in ('nvidia10', 'nvidia2', 'nvidia0'):
        (tmp_path / name).touch()
    assert list(find_devices(str(tmp_path))) == [0, 2, 10]


@pytest.mark.parametrize('name', ['nvidiactl', 'nvidia-uvm', 'nvidia', 'nvidia00', 'nvidia0~', 'xnvidia0', 'nvidia٣'])
def test_leaves_out_what_is_no_gpu(name, tmp_path):
    (tmp_path / name).touch()
    assert find_devices(str(tmp_path)) == {}
    assert device_number(name) is None


def test_tells_a_plain_file_by_its_inode(tmp_path):
    (tmp_path / 'nvidia0').touch()
    file = os.stat(tmp_path / 'nvidia0')
    assert find_devices(str(tmp_path)) == {0: Identity(False, file.st_dev, file.st_ino)}


def test_tells_a_device_by_its_number_through_a_link(tmp_path):
    (tmp_path / 'nvidia3').symlink_to('/dev/zero')
    assert find_devices(str(tmp_path)) == {3: Identity(True, 1, 5)}


def test_tells_a_node_with_the_number_of_dev_null_by_its_inode(tmp_path):
    (tmp_path / 'nvidia0').symlink_to('/dev/null')
    file = os.stat('/dev/null')
    assert find_devices(str(tmp_path)) == {0: Identity(False, file.st_dev, file.st_ino)}


def test_leaves_out_a_link_that_leads_nowhere(tmp_path):
    (tmp_path / 'nvidia0').symlink_to(tmp_path / 'gone')
    (tmp_path / 'nvidia1').touch()
    assert list(find_devices(str(tmp_path))) == [1]


def test_finds_nothing_without_a_folder(tmp_path):
    assert find_devices(str(tmp_path / 'missing')) == {}
    (tmp_path / 'file').touch()
    assert find_devices(str(tmp_path / 'file')) == {}


def test_an_identity_of_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        identity_of(str(tmp_path / 'gone'))
