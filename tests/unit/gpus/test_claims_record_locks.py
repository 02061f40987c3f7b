from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.gpus.claims import record_files
from gpu_tracker.gpus.claims.folder import ClaimFolder
from gpu_tracker.gpus.claims.locks import RecordLock, is_held
from support.claims.claiming_machine import Machine, claim, claimed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    """Give a file that is open to be written."""
    descriptor = os.open(tmp_path / 'record', os.O_WRONLY | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


def asked(path: Path) -> bool:
    """Tell what a reader is told."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return is_held(descriptor)
    finally:
        os.close(descriptor)


def opened() -> set[int]:
    """Return the descriptors of this process."""
    # Without the one with which they are listed.
    return {int(name) for name in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{name}')}


@pytest.mark.parametrize('survives_exec', [False, True])
def test_a_lock_is_kept_by_a_descriptor_of_its_own_out_of_the_way_of_others(
    file: int, tmp_path: Path, survives_exec: bool
) -> None:
    before = opened()
    lock = RecordLock(survives_exec=survives_exec)
    lock.take(file)
    (own,) = opened() - before
    assert own >= 20
    assert os.get_inheritable(own) is survives_exec
    assert os.path.samestat(os.fstat(own), os.fstat(file))
    assert asked(tmp_path / 'record')
    lock.let_go()
    assert opened() == before
    lock.let_go()  # a second time does nothing


def test_those_who_ask_are_not_taken_for_holders(tmp_path: Path) -> None:
    (tmp_path / 'record').touch()
    descriptors = [os.open(tmp_path / 'record', os.O_RDONLY) for _ in range(3)]
    assert [is_held(descriptor) for descriptor in descriptors] == [False, False, False]
    for descriptor in descriptors:
        os.close(descriptor)


def test_where_it_cannot_be_told_somebody_holds_it() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    assert is_held(reader)
    os.close(writer)


def test_a_record_is_locked_before_others_can_see_it(tmp_path: Path) -> None:
    """Whoever reads it while it is written must not take it for one whose maker has ended."""
    folder = os.open(tmp_path, os.O_RDONLY)
    seen: list[bool] = []

    class Watched(RecordLock):
        def take(self, file: int) -> None:
            super().take(file)
            seen.append(os.path.exists(tmp_path / '1-2-3.json'))

    lock = Watched(survives_exec=False)
    record_files.write_record(folder, '1-2-3.json', b'{}', lock)
    assert seen == [False]
    assert asked(tmp_path / '1-2-3.json')
    lock.let_go()
    assert not asked(tmp_path / '1-2-3.json')
    os.close(folder)


STRANGER = """
import fcntl, os, struct, sys

os.setgroups([])
os.setgid(65534)
os.setuid(65534)
file = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(file, fcntl.LOCK_EX)
fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack('hhqqi', fcntl.F_RDLCK, 0, 0, 0, 0))
print('locked', flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason='becomes another user')
def test_a_stranger_who_locks_the_file_of_a_claim_does_not_keep_it_valid() -> None:
    machine = Machine()
    with tempfile.TemporaryDirectory() as shared:
        os.chmod(shared, 0o755)  # noqa: S103 - pytest's own folders are closed to other users
        folder = ClaimFolder(f'{shared}/claims', circumstances=machine.moment)
        held = claim(folder, 'GPU-1')
        (name,) = os.listdir(folder.path)
        held.lock.let_go()
        machine.pid_namespace = 4026532999
        words = [sys.executable, '-c', STRANGER, f'{folder.path}/{name}']
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stranger:
            assert (stranger.stdout.readline(), claimed(folder)) == ('locked\n', [])
            assert claim(folder, 'GPU-1', process=8) is not None
            stranger.stdin.close()


def test_no_file_stays_open_of_what_is_given_back_or_needs_no_process(tmp_path: Path) -> None:
    folder = ClaimFolder(f'{tmp_path}/claims', circumstances=Machine().moment)
    before = opened()
    claim(folder, 'GPU-1', process=None, seconds=60)
    assert len(opened()) == len(before)
    held = claim(folder, 'GPU-2')
    other = claim(folder, 'GPU-3', seconds=60)
    assert len(opened()) == len(before) + 2
    held.release()
    other.outlive_process()
    assert len(opened()) == len(before)
    with pytest.raises(ValueError, match='claimed already'):
        claim(folder, 'GPU-3')
    assert len(opened()) == len(before)


def test_a_claim_that_outlives_its_process_holds_in_other_containers_as_well(tmp_path: Path) -> None:
    machine = Machine()
    folder = ClaimFolder(f'{tmp_path}/claims', circumstances=machine.moment)
    claim(folder, 'GPU-1', seconds=60).outlive_process()
    machine.pid_namespace = 4026532999
    assert claimed(folder) == [('GPU-1',)]
