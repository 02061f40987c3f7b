from __future__ import annotations

import collections
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.claims.claim_actors import ONE, OTHER, Actors, shared_folder
from support.claims.claim_program import GPUS
from support.tracked_program import as_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = as_root  # it starts programs of other users


@pytest.fixture
def path() -> Iterator[Path]:
    with shared_folder() as folder:
        yield Path(folder, 'claims')


@pytest.fixture
def actors(path: Path) -> Iterator[Actors]:
    with Actors(str(path)) as actors:
        yield actors


@pytest.fixture
def owned_by_root(path: Path) -> None:
    """Make the folder as an administrator would."""
    path.mkdir()
    path.chmod(0o1777)


def test_users_see_and_respect_each_others_claims(actors: Actors, path: Path) -> None:
    one, other, root = actors.start(user=ONE), actors.start(user=OTHER), actors.start()
    assert one.ask('claim', 2) == ['GPU-0', 'GPU-1']
    assert (path.stat().st_uid, oct(path.stat().st_mode)) == (ONE, '0o41777')
    assert other.ask('claim', 3) is None
    assert other.ask('claim', 1) == ['GPU-2']
    assert root.ask('claim', 2) is None
    assert root.ask('claim', 1) == ['GPU-3']
    seen = [[ONE, 'GPU-0', 'GPU-1'], [OTHER, 'GPU-2'], [0, 'GPU-3']]
    assert [actor.ask('claims') for actor in (one, other, root)] == [seen, seen, seen]
    one.end(signal.SIGKILL)
    assert other.ask('claim', 2) == ['GPU-0', 'GPU-1']


@pytest.mark.parametrize('umask', [0o277, 0o077])
def test_a_user_whose_files_are_made_without_rights_claims_all_the_same(actors: Actors, path: Path, umask: int) -> None:
    one, other = actors.start(user=ONE), actors.start(user=OTHER)
    one.ask('take_rights', umask)
    assert one.ask('claim_for_both', 1, 1000) == ['GPU-0']
    assert (path.stat().st_uid, oct(path.stat().st_mode)) == (ONE, '0o41777')
    assert one.ask('outlive_process') is None
    (record,) = path.iterdir()
    assert (record.stat().st_uid, oct(record.stat().st_mode)) == (ONE, '0o100644')
    assert one.ask('claims') == other.ask('claims') == [[ONE, 'GPU-0']]
    assert os.listdir(path.parent) == ['claims']


def test_a_stranger_with_thousands_of_records_costs_others_little(
    actors: Actors, path: Path, owned_by_root: None
) -> None:
    one = actors.start(user=ONE)
    one.ask('claim', 1, 1000)
    (record,) = path.iterdir()
    text = record.read_text()
    for number in range(2000):
        bogus = path / f'{OTHER}-1-{number:016x}.json'
        bogus.write_text(text if number % 2 else text + ' ' * 20_000)  # half of them too large to be one
        os.chown(bogus, OTHER, OTHER)
    assert one.ask('count_opened') == [257, 257]


def test_nobody_takes_a_claim_away_from_another(actors: Actors, path: Path, owned_by_root: None) -> None:
    one, other = actors.start(user=ONE), actors.start(user=OTHER)
    one.ask('claim', 4)
    assert other.ask('harm') == ['PermissionError'] * 9
    assert other.ask('claims') == [[ONE, *GPUS]]
    assert other.ask('claim', 1) is None


def test_each_user_tidies_up_their_own_and_root_after_all(actors: Actors, path: Path, owned_by_root: None) -> None:
    os.chown(path, ONE, ONE)  # who could remove everything
    ended = [actors.start(user=user) for user in (ONE, OTHER, None)]
    for actor in ended:
        assert actor.ask('claim', 1)
    for user in (ONE, OTHER, 0):
        unfinished = path / f'.{user}-1-0123456789abcdef.tmp'
        unfinished.write_text('{')
        os.chown(unfinished, user, user)
    for actor in ended:
        actor.end(signal.SIGKILL)

    def left() -> dict[int, int]:
        return collections.Counter(file.lstat().st_uid for file in path.iterdir())

    assert left() == {ONE: 2, OTHER: 2, 0: 2}
    one = actors.start(user=ONE)
    one.ask('claim', 1)
    assert left() == {ONE: 1, OTHER: 2, 0: 2}
    actors.start().ask('claim', 1)
    assert left() == {ONE: 1, 0: 1}
    assert one.ask('claims') == [[ONE, 'GPU-0'], [0, 'GPU-1']]


def test_a_stranger_who_holds_the_lock_is_named(actors: Actors, path: Path, owned_by_root: None) -> None:
    stranger = actors.start(user=OTHER)
    stranger.ask('lock')
    for user in (ONE, None):
        error = actors.start(user=user, lock_timeout=0.1).ask('claim', 1)['error']
        assert error.startswith(f'No GPU can be claimed: {path} has been locked for 0.1 s by process {stranger.pid},')


def link(path: Path) -> None:
    path.symlink_to(path.parent / 'private')
    (path.parent / 'private').mkdir(0o700)


def folder(mode: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.mkdir()
        path.chmod(mode)

    return make


# What another user may have put where the folder is to be, and what is said of it to those who read, and who claim.
SQUATS: list[tuple[Callable[[Path], None], str, str]] = [
    (link, 'a symbolic link of 54322, mode 0777): it is not a folder.', ''),
    (Path.touch, 'a file of 54322, mode 0644): it is not a folder.', ''),
    (folder(0o700), 'a folder of 54322, mode 0700): permission denied.', ''),
    (folder(0o777), 'a folder of 54322, mode 0777): other users may write to it, and without the sticky bit', ''),
    (folder(0o755), '', 'a folder of 54322, mode 0755): permission denied.'),
]


@pytest.mark.parametrize(('squat', 'to_readers', 'to_claimers'), SQUATS, ids=range(len(SQUATS)))
def test_a_folder_that_another_has_spoilt_is_refused_with_that_name(
    actors: Actors, path: Path, squat: Callable[[Path], None], to_readers: str, to_claimers: str
) -> None:
    squat(path)
    os.chown(path, OTHER, OTHER, follow_symlinks=False)
    one = actors.start(user=ONE)
    if to_readers:
        assert to_readers in one.ask('claims')['error']
    else:
        assert one.ask('claims') == []
    error = one.ask('claim', 1)['error']
    assert error.startswith(f'GPU claims cannot be stored in {path} (')
    assert (to_readers or to_claimers) in error
    assert error.endswith(' GPU_TRACKER_CLAIMS chooses another folder.')


def test_a_record_belongs_to_its_owner_whatever_it_says(actors: Actors, path: Path, owned_by_root: None) -> None:
    one, other = actors.start(user=ONE), actors.start(user=OTHER)
    one.ask('claim', 1, 1000)
    (record,) = path.iterdir()
    os.chown(record, OTHER, OTHER)
    assert other.ask('claims') == [[OTHER, 'GPU-0']]
    one.ask('release')
    assert other.ask('claims') == [[OTHER, 'GPU-0']]
    other.ask('claim', 1, 1000)
    assert len(list(path.iterdir())) == 2
