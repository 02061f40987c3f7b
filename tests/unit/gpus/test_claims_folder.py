from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.errors import ClaimsError, ClaimsLockedError, ParameterError
from gpu_tracker.gpus.claims.folder import ClaimFolder
from gpu_tracker.gpus.claims.locks import lock
from support.claims.claiming_machine import Machine, claim, claimed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpu_tracker.gpus.claim import Claim
    from gpu_tracker.gpus.claims.liveness import Circumstances


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'claims'


@pytest.fixture
def folder(path: Path, machine: Machine) -> ClaimFolder:
    return ClaimFolder(str(path), lock_timeout=5, circumstances=machine.moment)


def test_without_a_folder_there_are_no_claims_and_none_is_made(folder: ClaimFolder, path: Path) -> None:
    assert folder.claims() == []
    assert not path.exists()


def test_a_claim_is_seen_by_all_and_given_back(folder: ClaimFolder, path: Path, machine: Machine) -> None:
    first = claim(folder, 'GPU-1', 'GPU-2', command='python a.py')
    second = claim(folder, 'GPU-3', process=8, seconds=60)
    other = ClaimFolder(f'{path}//', circumstances=machine.moment)
    assert other.claims() == [first.claim, second.claim]
    assert first.claim._asdict() == {
        'uuids': ('GPU-1', 'GPU-2'),
        'user_id': os.geteuid(),
        'process_id': 7,
        'made': 1_700_000_100.0,
        'expires': None,
        'command': 'python a.py',
        'in_another_container': False,
    }
    assert second.claim.expires == 1_700_000_160.0
    first.release()
    assert other.claims() == [second.claim]
    second.release()
    assert other.claims() == []
    assert os.listdir(path) == []


def test_releasing_twice_takes_nothing_from_who_claims_in_between(folder: ClaimFolder) -> None:
    first = claim(folder, 'GPU-1')
    first.release()
    claim(folder, 'GPU-1', process=8)
    first.release()
    assert claimed(folder) == [('GPU-1',)]


def test_releasing_what_is_gone_is_no_error(folder: ClaimFolder, path: Path) -> None:
    held = claim(folder, 'GPU-1')
    for name in os.listdir(path):
        (path / name).unlink()
    held.release()
    held = claim(folder, 'GPU-1')
    for name in os.listdir(path):
        (path / name).unlink()
    path.rmdir()
    held.release()
    held = claim(folder, 'GPU-1')
    path.chmod(0o777)
    held.release()


def test_the_choice_knows_what_is_claimed(folder: ClaimFolder) -> None:
    seen: list[Claim] = []

    def choose(claims: list[Claim]) -> Sequence[str]:
        seen.extend(claims)
        return []

    held = claim(folder, 'GPU-1')
    assert folder.claim(choose, process_id=8, seconds=None, command=None) is None
    assert seen == [held.claim]
    assert claimed(folder) == [('GPU-1',)]


def test_nothing_is_claimed_twice_whatever_is_chosen(folder: ClaimFolder) -> None:
    claim(folder, 'GPU-1', 'GPU-2')
    with pytest.raises(ValueError, match=r'^claimed already: GPU-1, GPU-2$'):
        claim(folder, 'GPU-2', 'GPU-3', 'GPU-1', process=8)
    assert claimed(folder) == [('GPU-1', 'GPU-2')]


@pytest.mark.parametrize('error', [OSError('asked a GPU'), ValueError('no such GPU'), KeyboardInterrupt()])
def test_an_error_of_the_choice_goes_through(folder: ClaimFolder, path: Path, error: BaseException) -> None:
    def choose(_: list[Claim]) -> Sequence[str]:
        raise error

    with pytest.raises(type(error)) as caught:
        folder.claim(choose, process_id=7, seconds=None, command=None)
    assert caught.value is error
    assert os.listdir(path) == []
    claim(folder, 'GPU-1')


def test_what_is_no_uuid_is_not_claimed(folder: ClaimFolder, path: Path) -> None:
    with pytest.raises(ValueError, match=r'^invalid claim: '):
        claim(folder, 'GPU 1')
    assert os.listdir(path) == []


@pytest.mark.parametrize('end', ['process', 'number', 'time', 'restart'])
def test_a_void_claim_is_passed_over_and_then_removed(
    folder: ClaimFolder, path: Path, machine: Machine, end: str
) -> None:
    held = claim(folder, 'GPU-1', seconds=60)
    if end == 'process':
        del machine.processes[7]
    elif end == 'number':
        machine.processes[7] = 71.0
    elif end == 'time':
        machine.clock += 60
    else:
        machine.restart()
        held.lock.let_go()
    assert folder.claims() == []
    assert len(os.listdir(path)) == 1  # reading changes nothing
    claim(folder, 'GPU-1', process=8)
    assert claimed(folder) == [('GPU-1',)]
    assert len(os.listdir(path)) == 1


def test_claims_of_another_machine_that_shares_the_folder_stay(
    folder: ClaimFolder, path: Path, machine: Machine
) -> None:
    claim(folder, 'GPU-1').lock.let_go()  # which is of that machine alone
    for host, identity in (('node8', 'a1b2c3d4'), ('node7', 'ffffffff'), ('node7', '')):
        machine.restart('boot-of-another')
        machine.host, machine.machine = host, identity
        claim(folder, 'GPU-1').release()
        machine.boot_id, machine.host, machine.machine = 'boot-1', 'node7', 'a1b2c3d4'
        assert claimed(folder) == [('GPU-1',)]


def test_machines_without_an_identity_are_told_apart_by_their_names(
    folder: ClaimFolder, path: Path, machine: Machine
) -> None:
    machine.machine = ''
    claim(folder, 'GPU-1').lock.let_go()
    machine.restart()
    claim(folder, 'GPU-2')
    assert len(os.listdir(path)) == 1


def test_a_claim_with_a_shorter_timeout(path: Path, machine: Machine) -> None:
    folder = ClaimFolder(str(path), lock_timeout=1e9, circumstances=machine.moment)
    other = lock(str(path), 5)
    for patience, lasting in ((0.01, 'has been locked for 0.01 s'), (0.0, 'is locked'), (-1.0, 'is locked')):
        with pytest.raises(ClaimsLockedError) as caught:
            folder.claim(lambda _: ['GPU-1'], process_id=7, seconds=None, command=None, lock_timeout=patience)
        assert str(caught.value).startswith(f'No GPU can be claimed: {path} {lasting} by process ')
    os.close(other)
    for patience in (0.0, -1.0):
        held = folder.claim(lambda _: ['GPU-1'], process_id=7, seconds=None, command=None, lock_timeout=patience)
        assert held is not None
        held.release()


def test_a_claim_for_a_time_alone_outlives_its_maker(folder: ClaimFolder, machine: Machine) -> None:
    held = claim(folder, 'GPU-1', process=None, seconds=60)
    assert held.claim.process_id is None
    machine.processes.clear()
    machine.clock += 59.5
    assert claimed(folder) == [('GPU-1',)]
    machine.clock += 0.5
    assert claimed(folder) == []


def test_setting_the_clock_moves_no_end(folder: ClaimFolder, machine: Machine) -> None:
    claim(folder, 'GPU-1', process=None, seconds=60)
    machine.clock += 30
    assert folder.claims()[0].expires == 1_700_000_160.0
    ahead = machine.moment()._replace(time=1_800_000_000.0)
    assert ClaimFolder(folder.path, circumstances=lambda: ahead).claims()[0].expires == 1_800_000_030.0


@pytest.mark.parametrize('seconds', [0, -1, float('nan'), float('inf'), 1e11])
def test_no_time_is_refused(folder: ClaimFolder, seconds: float) -> None:
    with pytest.raises(ParameterError, match=r'^seconds must be above 0 and at most 1e\+10, not '):
        claim(folder, 'GPU-1', seconds=seconds)


def test_a_claim_that_nothing_would_end_is_refused(folder: ClaimFolder) -> None:
    with pytest.raises(ValueError, match=r'^seconds must be a number of seconds if no process_id is given, not None$'):
        claim(folder, 'GPU-1', process=None)


def test_a_process_that_is_gone_cannot_claim(folder: ClaimFolder, path: Path) -> None:
    with pytest.raises(ProcessLookupError):
        claim(folder, 'GPU-1', process=9)
    assert not path.exists()


def test_where_a_restart_would_not_be_noticed_nothing_is_claimed(folder: ClaimFolder, machine: Machine) -> None:
    held = claim(folder, 'GPU-1')
    machine.boot_id = None
    assert folder.claims() == [held.claim]
    with pytest.raises(ClaimsError, match='without /proc'):
        claim(folder, 'GPU-2')


def test_a_link_in_place_of_the_folder_is_not_followed(path: Path, machine: Machine) -> None:
    path.symlink_to(path.parent)
    for spelled in (f'{path}', f'{path}/', f'{path}//'):
        folder = ClaimFolder(spelled, lock_timeout=0, circumstances=machine.moment)
        with pytest.raises(ClaimsError, match='a symbolic link of'):
            folder.claims()
        with pytest.raises(ClaimsError, match='a symbolic link of'):
            claim(folder, 'GPU-1')
    assert os.listdir(path.parent) == ['claims']


def test_a_folder_that_is_removed_while_somebody_chooses_is_made_again(folder: ClaimFolder, path: Path) -> None:
    calls = []

    def choose(claims: list[Claim]) -> Sequence[str]:
        calls.append(claims)
        if len(calls) == 1:
            path.rmdir()
        return ['GPU-1']

    assert folder.claim(choose, process_id=7, seconds=None, command=None) is not None
    assert calls == [[], []]
    assert claimed(folder) == [('GPU-1',)]


def test_a_folder_that_is_removed_while_it_is_read(path: Path, machine: Machine) -> None:
    asked = []

    def moment() -> Circumstances:
        """Remove the folder when it is open."""
        asked.append(path.exists())
        if path.exists() and asked.count(True) == 1:
            path.rmdir()
        return machine.moment()

    path.mkdir()
    folder = ClaimFolder(str(path), lock_timeout=5, circumstances=moment)
    assert folder.claims() == []
    asked.clear()
    claim(folder, 'GPU-1')
    assert asked == [False, True, True]
    assert claimed(folder) == [('GPU-1',)]


def test_a_folder_that_is_removed_again_and_again(path: Path, machine: Machine) -> None:
    def choose(_: list[Claim]) -> Sequence[str]:
        path.rmdir()
        return ['GPU-1']

    folder = ClaimFolder(str(path), lock_timeout=0.02, circumstances=machine.moment)
    with pytest.raises(ClaimsError, match='another program keeps removing the folder'):
        folder.claim(choose, process_id=7, seconds=None, command=None)


def test_the_path_has_to_be_absolute() -> None:
    with pytest.raises(ParameterError, match=r"^path must be an absolute path, not 'claims'$"):
        ClaimFolder('claims')
