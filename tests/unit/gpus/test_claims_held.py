from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.errors import ClaimsError, ClaimsLockedError
from gpu_tracker.gpus.claims.folder import ClaimFolder
from gpu_tracker.gpus.claims.locks import lock
from support.claims.claiming_machine import Machine, claim, claimed

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'claims'


@pytest.fixture
def folder(path: Path, machine: Machine) -> ClaimFolder:
    return ClaimFolder(str(path), lock_timeout=0.05, circumstances=machine.moment)


def test_a_claim_that_outlives_its_process_ends_by_its_time(folder: ClaimFolder, path: Path, machine: Machine) -> None:
    held = claim(folder, 'GPU-1', seconds=60, command='train')
    names = os.listdir(path)
    before = held.claim
    machine.clock += 20
    held.outlive_process()
    assert held.claim == before._replace(process_id=None)
    machine.processes.clear()
    assert folder.claims() == [held.claim]
    assert os.listdir(path) == names
    machine.clock += 39.5
    held.outlive_process()  # a second time changes nothing
    assert claimed(folder) == [('GPU-1',)]
    machine.clock += 0.5
    assert claimed(folder) == []


def test_the_file_says_nothing_of_the_process_any_more(folder: ClaimFolder, path: Path) -> None:
    held = claim(folder, 'GPU-1', seconds=60)
    (file,) = path.iterdir()
    before = json.loads(file.read_text())
    held.outlive_process()
    changes = {'pid': None, 'process_start': None, 'pid_namespace': None}
    assert json.loads(file.read_text()) == before | changes


def test_a_claim_that_outlives_its_process_can_be_given_back(folder: ClaimFolder, path: Path) -> None:
    held = claim(folder, 'GPU-1', seconds=60)
    held.outlive_process()
    held.release()
    assert os.listdir(path) == []


def test_without_a_time_nothing_would_end_it(folder: ClaimFolder, machine: Machine) -> None:
    held = claim(folder, 'GPU-1')
    with pytest.raises(ClaimsError, match='A claim without a time limit cannot outlive its process'):
        held.outlive_process()
    assert folder.claims() == [held.claim]
    del machine.processes[7]
    assert folder.claims() == []


def test_what_was_given_back_is_not_written_again(folder: ClaimFolder) -> None:
    held = claim(folder, 'GPU-1', seconds=60)
    held.release()
    with pytest.raises(ClaimsError, match='This process no longer has the claim'):
        held.outlive_process()
    assert folder.claims() == []


@pytest.mark.parametrize('end', ['time', 'file', 'folder', 'changed'])
def test_what_holds_no_more_is_not_written_again(folder: ClaimFolder, path: Path, machine: Machine, end: str) -> None:
    held = claim(folder, 'GPU-1', seconds=60)
    (file,) = path.iterdir()
    if end == 'time':
        machine.clock += 60
    elif end == 'changed':
        file.write_text(file.read_text().replace('GPU-1', 'GPU-2'))
    else:
        file.unlink()
        if end == 'folder':
            path.rmdir()
    left = file.read_text() if file.exists() else None
    with pytest.raises(ClaimsError) as caught:
        held.outlive_process()
    assert (
        str(caught.value) == f'The claim in {path} is no longer valid: the claim has expired, or its file was removed'
    )
    assert (file.read_text() if file.exists() else None) == left
    claim(folder, 'GPU-1', process=8)


def test_where_others_have_the_lock_it_stands_as_before(folder: ClaimFolder, path: Path, machine: Machine) -> None:
    held = claim(folder, 'GPU-1', seconds=60)
    before = folder.claims()
    other = lock(str(path), 5)
    with pytest.raises(ClaimsLockedError):
        held.outlive_process()
    os.close(other)
    assert folder.claims() == before == [held.claim]
    held.outlive_process()
    machine.processes.clear()
    assert claimed(folder) == [('GPU-1',)]


def test_where_the_folder_is_spoilt_it_stands_as_before(folder: ClaimFolder, path: Path) -> None:
    held = claim(folder, 'GPU-1', seconds=60)
    path.chmod(0o777)
    with pytest.raises(ClaimsError, match='without the sticky bit'):
        held.outlive_process()
    path.chmod(0o1777)
    assert folder.claims() == [held.claim]
    assert held.claim.process_id == 7
