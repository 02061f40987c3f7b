from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.fleet.claims.sharing import is_shared

if TYPE_CHECKING:
    from pathlib import Path

# Of a container: its own root and /run, and what was mounted into it from the machine.
MOUNTS = """\
700 650 0:50 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/var/lib/containers/l
701 700 0:60 / /run rw,nosuid - tmpfs tmpfs rw
702 701 0:25 /lock/gpu-tracker /run/lock/gpu-tracker rw,relatime - tmpfs tmpfs rw
703 700 8:1 /home/ann /home/ann rw,relatime shared:5 - ext4 /dev/sda1 rw
704 703 0:61 / /home/ann/own rw,relatime - tmpfs tmpfs rw
705 700 8:1 /srv/a\\040b\\134c /srv/a\\040b\\134c rw,relatime - ext4 /dev/sda1 rw
706 700 8:1 /old /covered rw,relatime - ext4 /dev/sda1 rw
707 706 0:62 / /covered rw,relatime - tmpfs tmpfs rw
708
"""


def shared(folder: Path, path: str, mounts: str = MOUNTS, *, has_machines_ids: bool = False) -> bool:
    file = folder / 'mountinfo'
    file.write_text(mounts)
    return is_shared(path, has_machines_ids=lambda: has_machines_ids, mounts=str(file))


@pytest.mark.parametrize(
    ('path', 'expected'),
    [
        ('/tmp/gpu-tracker-claims', False),
        ('/run/gpu-tracker', False),
        ('/run/lock/gpu-tracker', True),
        ('/run/lock/gpu-tracker-of-another', False),
        ('/home/ann/claims', True),
        ('/home/ann', True),
        ('/home/anna/claims', False),
        ('/home/ann/own/claims', False),
        ('/srv/a b\\c/claims', True),
        ('/covered/claims', False),
    ],
)
def test_a_folder_that_was_mounted_into_a_container_is_shared(tmp_path: Path, path: str, expected: bool) -> None:
    assert shared(tmp_path, path) is expected
    assert not shared(tmp_path, path, has_machines_ids=True)


def test_the_root_of_a_container_is_its_own_wherever_it_lies(tmp_path: Path) -> None:
    mounts = '700 650 8:1 /var/lib/machines/node / rw,relatime - ext4 /dev/sda1 rw\n'
    assert not shared(tmp_path, '/tmp/gpu-tracker-claims', mounts)


def test_a_link_on_the_way_is_followed_first(tmp_path: Path) -> None:
    (tmp_path / 'link').symlink_to('/home/ann')
    assert shared(tmp_path, f'{tmp_path}/link/claims')


def test_a_folder_on_which_something_is_mounted_is_shared(tmp_path: Path) -> None:
    assert os.path.ismount('/proc')
    assert shared(tmp_path, '/proc', '')
    assert not shared(tmp_path, str(tmp_path / 'claims'), '')


def test_without_a_list_of_mounts_nothing_is_known(tmp_path: Path) -> None:
    assert not is_shared(str(tmp_path), has_machines_ids=lambda: False, mounts=str(tmp_path / 'none'))
