from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.fleet.claims.folder import ClaimFolder
from gpu_tracker.fleet.claims.record import MOST_BYTES
from simulated_machine import Machine, claim, claimed

if TYPE_CHECKING:
    from collections.abc import Callable

TEN_DAYS = 10 * 86400


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'claims'


@pytest.fixture
def folder(path: Path) -> ClaimFolder:
    return ClaimFolder(str(path), lock_timeout=5, moment=Machine().moment)


@pytest.mark.parametrize('umask', [0o000, 0o077, 0o777])
def test_files_are_for_all_to_read_and_safe_from_cleaners_of_old_files(
    folder: ClaimFolder, path: Path, umask: int
) -> None:
    claim(folder, 'GPU-1').release()  # makes the folder
    before = os.umask(umask)
    try:
        claim(folder, 'GPU-1')
    finally:
        os.umask(before)
    (name,) = os.listdir(path)
    info = (path / name).stat()
    assert stat.S_IMODE(info.st_mode) == 0o644
    assert info.st_mtime > time.time() + 300 * TEN_DAYS
    assert info.st_atime > info.st_mtime
    folder.claims()
    assert (path / name).stat().st_atime == info.st_atime


def record(**changes: object) -> str:
    fields: dict[str, object] = {
        'uuids': ['GPU-9'],
        'uid': 12345,
        'pid': None,
        'process_start': None,
        'pid_namespace': None,
        'boot_id': 'boot-1',
        'host': 'node7',
        'made': 5.0,
        'expires_at': 1000.0,
        'command': None,
    }
    return json.dumps(fields | changes)


def test_a_claim_belongs_to_the_owner_of_its_file(folder: ClaimFolder, path: Path) -> None:
    claim(folder, 'GPU-1').release()
    (path / '12345-7-0123456789abcdef.json').write_text(record())
    (found,) = folder.claims()
    assert (found.uuids, found.user_id) == (('GPU-9',), os.geteuid())


# What anybody can put into a sticky folder that all can write to.
PLANTS: dict[str, Callable[[Path], object]] = {
    'link to a record': lambda at: (
        (at.parent.parent / 'real').write_text(record()),
        at.symlink_to(at.parent.parent / 'real'),
    ),
    'dangling link': lambda at: at.symlink_to('/nowhere'),
    'endless link': lambda at: at.symlink_to('/dev/zero'),
    'FIFO': os.mkfifo,
    'folder': Path.mkdir,
    'empty': Path.touch,
    'garbage': lambda at: at.write_bytes(os.urandom(5000)),
    'nested': lambda at: at.write_bytes(b'[' * MOST_BYTES),
    'half': lambda at: at.write_text(record()[:70]),
    'large': lambda at: at.write_text(record() + ' ' * MOST_BYTES),
    'huge': lambda at: (at.touch(), os.truncate(at, 2**40)),
    'bad': lambda at: at.write_text(record(expires_at='never')),
}


@pytest.mark.parametrize('plant', PLANTS)
@pytest.mark.parametrize('name', ['12345-7-0123456789abcdef.json', '.12345-7-0123456789abcdef.tmp', 'README'])
def test_whatever_somebody_plants_is_passed_over(folder: ClaimFolder, path: Path, name: str, plant: str) -> None:
    held = claim(folder, 'GPU-1')
    PLANTS[plant](path / name)
    assert folder.claims() == [held.claim]
    claim(folder, 'GPU-2', process=8)
    assert claimed(folder) == [('GPU-1',), ('GPU-2',)]


def test_a_record_that_comes_out_of_a_fifo_is_passed_over(folder: ClaimFolder, path: Path) -> None:
    claim(folder, 'GPU-1').release()
    os.mkfifo(path / '12345-7-0123456789abcdef.json')
    fifo = os.open(path / '12345-7-0123456789abcdef.json', os.O_RDWR)
    os.write(fifo, record().encode())
    assert folder.claims() == []
    os.close(fifo)


def test_records_under_names_that_are_none_of_ours_are_passed_over(folder: ClaimFolder, path: Path) -> None:
    claim(folder, 'GPU-1').release()
    for name in ('a.json', '1-2-3.json', '1-7-0123456789abcdef.json~', '.1-7-0123456789abcdef.json', 'x\n.json'):
        (path / name).write_text(record())
    assert folder.claims() == []


def test_what_a_killed_writer_has_left_is_removed(folder: ClaimFolder, path: Path) -> None:
    claim(folder, 'GPU-1').release()
    (path / '.0-7-0123456789abcdef.tmp').write_text(record()[:50])
    (path / '.somebody.tmp').touch()
    claim(folder, 'GPU-1').release()
    assert os.listdir(path) == ['.somebody.tmp']
