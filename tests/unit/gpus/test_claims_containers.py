from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.gpus.claims.folder import ClaimFolder
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
    return ClaimFolder(str(path), lock_timeout=5, circumstances=machine.moment)


def test_a_claim_of_another_container_holds_while_its_file_is_locked(folder: ClaimFolder, machine: Machine) -> None:
    held = claim(folder, 'GPU-1')
    claim(folder, 'GPU-2', process=None, seconds=60)
    machine.pid_namespace = 4026532999
    machine.processes.clear()
    assert [(claim.uuids, claim.in_another_container) for claim in folder.claims()] == [
        (('GPU-1',), True),
        (('GPU-2',), False),
    ]
    held.lock.let_go()
    assert claimed(folder) == [('GPU-2',)]


def test_in_its_own_container_a_claim_holds_whatever_files_its_process_closes(
    folder: ClaimFolder, path: Path, machine: Machine
) -> None:
    claim(folder, 'GPU-1').lock.let_go()
    inside = machine.pid_namespace
    assert claimed(folder) == [('GPU-1',)]
    machine.pid_namespace = 4026532999
    claim(folder, 'GPU-2').release()  # which takes the other for void and leaves its file where it is
    assert claimed(folder) == []
    machine.pid_namespace = inside
    assert claimed(folder) == [('GPU-1',)]
    del machine.processes[7]
    claim(folder, 'GPU-2', process=8)
    assert len(os.listdir(path)) == 1


def test_what_other_containers_have_left_is_removed_once_it_is_much(
    folder: ClaimFolder, path: Path, machine: Machine
) -> None:
    for _ in range(64):
        machine.pid_namespace += 1
        claim(folder, 'GPU-1').lock.let_go()
    machine.pid_namespace += 1
    claim(folder, 'GPU-1').lock.let_go()
    assert len(os.listdir(path)) == 65
    machine.pid_namespace += 1
    claim(folder, 'GPU-1')
    assert len(os.listdir(path)) == 1


@pytest.mark.parametrize('end', ['time', 'restart'])
def test_what_other_containers_have_left_and_is_over_is_removed_at_once(
    folder: ClaimFolder, path: Path, machine: Machine, end: str
) -> None:
    held = claim(folder, 'GPU-1', seconds=60)
    machine.pid_namespace = 4026532999
    if end == 'time':
        machine.clock += 60
    else:
        machine.restart()
        held.lock.let_go()
    assert claimed(folder) == []
    claim(folder, 'GPU-2').release()
    assert os.listdir(path) == []
