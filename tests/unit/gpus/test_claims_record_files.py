from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.errors import ClaimsError
from gpu_tracker.gpus.claims.folder import ClaimFolder
from gpu_tracker.gpus.claims.record import MOST_BYTES
from gpu_tracker.gpus.claims.record_files import MOST_RECORDS
from gpu_tracker.system.users import user_name
from support.claims.claiming_machine import Machine, claim, claimed
from support.tracked_program import as_root
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

TEN_DAYS = 10 * 86400


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'claims'


@pytest.fixture
def folder(path: Path) -> ClaimFolder:
    return ClaimFolder(str(path), lock_timeout=5, circumstances=Machine().moment)


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
        'machine': 'a1b2c3d4',
        'made': 5.0,
        'expires_at': 1000.0,
        'command': None,
        'started': 1_700_000_000.0,
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


@pytest.mark.parametrize('kind', PLANTS)
@pytest.mark.parametrize('name', ['12345-7-0123456789abcdef.json', '.12345-7-0123456789abcdef.tmp', 'README'])
def test_whatever_somebody_plants_is_passed_over(folder: ClaimFolder, path: Path, name: str, kind: str) -> None:
    held = claim(folder, 'GPU-1')
    PLANTS[kind](path / name)
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


def plant(path: Path, count: int, text: str, owner: int) -> None:
    """Write files that look like claims, one after the other."""
    path.mkdir(exist_ok=True)
    for number in range(count):
        file = path / f'12345-{owner}-{number:016x}.json'
        file.write_text(text.replace('GPU-9', f'GPU-{owner}-{number}'))
        os.chown(file, owner, -1)


def wait_for_a_later_moment(path: Path) -> None:
    """Return when what changes now is later than all in a folder: the kernel's clock of files goes on in ticks."""
    last = max(file.stat().st_ctime_ns for file in path.iterdir())
    probe = path.with_name('probe')

    def is_later() -> bool:
        probe.touch()
        return probe.stat().st_ctime_ns > last

    eventually(is_later)


def test_so_many_claims_of_one_user_are_read_and_no_more_can_be_made(folder: ClaimFolder, path: Path) -> None:
    plant(path, MOST_RECORDS - 1, record(), os.geteuid())
    wait_for_a_later_moment(path)
    held = claim(folder, 'GPU-1')
    assert len(folder.claims()) == MOST_RECORDS
    assert folder.claims()[-1] == held.claim
    with pytest.raises(ClaimsError) as caught:
        claim(folder, 'GPU-2')
    assert str(caught.value) == (
        f'No GPU can be claimed: {path} already has 256 files of this user, which is the maximum. Remove files '
        'that are not claims. gpu-tracker itself removes only expired claims.'
    )
    assert len(os.listdir(path)) == 256
    held.release()
    claim(folder, 'GPU-2')


def test_a_folder_with_too_many_files_that_are_named_as_claims_is_not_read(path: Path) -> None:
    folder = ClaimFolder(str(path), lock_timeout=5, circumstances=Machine().moment, most_files=50)
    held = claim(folder, 'GPU-1')
    for number in range(49):
        (path / f'54321-7-{number:016x}.json').touch()
    assert claimed(folder) == [('GPU-1',)]
    (path / '54322-7-0123456789abcdef.json').touch()
    with pytest.raises(ClaimsError) as caught:
        folder.claims()
    assert str(caught.value) == (
        f'GPU claims cannot be stored in {path} (a folder of {user_name(os.geteuid())}, mode 1777): '
        'it has more than 50 '
        'files that are named as claims; remove those that are none. GPU_TRACKER_CLAIMS chooses another folder.'
    )
    with pytest.raises(ClaimsError, match='has more than 50 files'):
        claim(folder, 'GPU-2')
    held.release()  # and is no more than 50 again
    assert claimed(folder) == []


@pytest.mark.parametrize('name', ['{}', '{:016x}.json', '.54321-7-{:016x}.tmp', '.0-7-{:016x}.tmp'])
def test_files_with_other_names_keep_nobody_from_claiming(path: Path, name: str) -> None:
    folder = ClaimFolder(str(path), lock_timeout=5, circumstances=Machine().moment, most_files=5)
    claim(folder, 'GPU-1')
    for number in range(60):
        (path / name.format(number)).touch()
    claim(folder, 'GPU-2')
    assert claimed(folder) == [('GPU-1',), ('GPU-2',)]


@as_root
def test_files_of_strangers_keep_nobody_from_claiming(folder: ClaimFolder, path: Path) -> None:
    claim(folder, 'GPU-1')
    for number in range(MOST_RECORDS + 1):  # under a name that others would write under
        file = path / f'{os.geteuid()}-7-{number:016x}.json'
        file.touch()
        os.chown(file, 54321, -1)
    claim(folder, 'GPU-2')
    assert claimed(folder) == [('GPU-1',), ('GPU-2',)]


def test_void_claims_in_any_number_are_in_nobodys_way_for_long(folder: ClaimFolder, path: Path) -> None:
    plant(path, 400, record(expires_at=1.0), os.geteuid())
    assert claimed(folder) == []
    claim(folder, 'GPU-1')
    assert len(os.listdir(path)) == 145
    claim(folder, 'GPU-2')
    assert len(os.listdir(path)) == 2


@as_root
def test_a_stranger_with_any_number_of_claims_hides_none_of_others(folder: ClaimFolder, path: Path) -> None:
    plant(path, 300, record(), 54321)
    plant(path, 300, record(), 54322)
    claim(folder, 'GPU-1')
    claims = folder.claims()
    assert [claim.uuids for claim in claims if claim.user_id == os.geteuid()] == [('GPU-1',)]
    for owner in (54321, 54322):
        read = [claim.uuids for claim in claims if claim.user_id == owner]
        assert read == [(f'GPU-{owner}-{number}',) for number in range(256)]  # those that are longest there


def test_what_a_killed_writer_has_left_is_removed(folder: ClaimFolder, path: Path) -> None:
    claim(folder, 'GPU-1').release()
    (path / '.0-7-0123456789abcdef.tmp').write_text(record()[:50])
    (path / '.somebody.tmp').touch()
    claim(folder, 'GPU-1').release()
    assert os.listdir(path) == ['.somebody.tmp']
