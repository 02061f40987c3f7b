from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.errors import ClaimsError, ClaimsLockedError
from gpu_tracker.gpus.claims import shared_folder
from gpu_tracker.gpus.claims.locks import _is_locked, holder_of, lock, under_lock

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / 'claims')


def is_locked(folder: str) -> bool:
    descriptor = shared_folder.open_folder(folder)
    assert descriptor is not None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_the_folder_is_made_and_locked(folder: str) -> None:
    assert under_lock(folder, 5, lambda _: is_locked(folder))
    assert not is_locked(folder)
    assert os.listdir(folder) == []


def test_unlocking_also_ends_the_lock_of_copies_of_the_descriptor(folder: str) -> None:
    copy = under_lock(folder, 5, os.dup)  # as a process has it that was forked meanwhile
    assert not is_locked(folder)
    os.close(copy)


@pytest.mark.parametrize('kind', [fcntl.LOCK_EX, fcntl.LOCK_SH])
def test_waiting_ends_and_names_the_holder(folder: str, kind: int) -> None:
    shared_folder.make_folder(folder)
    descriptor = shared_folder.open_folder(folder)
    assert descriptor is not None
    fcntl.flock(descriptor, kind)
    with pytest.raises(ClaimsLockedError) as caught:
        lock(folder, 0.05)
    assert isinstance(caught.value, ClaimsError)
    os.close(descriptor)
    assert str(caught.value) == (
        f'No GPU can be claimed: {folder} has been locked for 0.05 s by process {os.getpid()}, and gpu-tracker itself '
        'locks it for milliseconds only. GPU_TRACKER_CLAIMS chooses another folder.'
    )


def test_a_deadline_that_has_passed_leaves_one_attempt_and_is_not_named(folder: str) -> None:
    held = lock(folder, 5)
    with pytest.raises(ClaimsLockedError, match=r'claims is locked by process \d+,'):
        lock(folder, -1)
    os.close(held)


def test_a_folder_that_was_replaced_is_locked_anew(folder: str) -> None:
    first = lock(folder, 5)
    os.rmdir(folder)
    second = lock(folder, 5)
    assert not shared_folder.is_at(folder, first)
    assert shared_folder.is_at(folder, second)
    os.close(first)
    os.close(second)


def test_a_folder_that_was_moved_since_it_was_opened_is_not_used(folder: str) -> None:
    shared_folder.make_folder(folder)
    descriptor = shared_folder.open_folder(folder)
    assert descriptor is not None
    os.rename(folder, f'{folder}.away')
    shared_folder.make_folder(folder)
    assert not _is_locked(descriptor, folder)
    os.close(descriptor)


def holder(path: Path, lines: str) -> str | None:
    (path / 'proc').mkdir()
    info = path.stat()
    at = f'{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{info.st_ino}'
    (path / 'proc' / 'locks').write_text(lines.replace('HERE', at))
    return holder_of(str(path), f'{path}/proc')


LOCKS = """\
1: POSIX  ADVISORY  WRITE 11 HERE 0 EOF
2: FLOCK  ADVISORY  WRITE 12 00:01:99999999 0 EOF
3: FLOCK  ADVISORY  READ  13 HERE 0 EOF
3: -> FLOCK  ADVISORY  WRITE 14 HERE 0 EOF
"""


def test_the_holder_of_a_lock(tmp_path: Path) -> None:
    assert holder(tmp_path, LOCKS) == 'process 13'


@pytest.mark.parametrize('lines', ['', 'nonsense\n\n', '1: FLOCK ADVISORY WRITE 0 HERE 0 EOF\n', '1: FLOCK\n'])
def test_a_holder_that_is_not_told(tmp_path: Path, lines: str) -> None:
    assert holder(tmp_path, lines) is None


def test_without_proc_no_holder_is_told(tmp_path: Path) -> None:
    assert holder_of(str(tmp_path), str(tmp_path / 'proc')) is None
