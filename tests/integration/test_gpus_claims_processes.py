from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.gpus.claims import liveness
from gpu_tracker.gpus.claims.folder import ClaimFolder
from support.claims.claim_actors import ONE, OTHER, PROGRAM, Actors, environment, shared_folder, tool
from support.claims.claim_program import GPUS, first_free
from support.cli_program import state_of
from support.tracked_program import as_root, run, run_words
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / 'claims')


@pytest.fixture
def actors(path: str) -> Iterator[Actors]:
    with Actors(path) as actors:
        yield actors


def claimed(path: str) -> list[str]:
    return sorted(uuid for claim in ClaimFolder(path).claims() for uuid in claim.uuids)


def test_a_claim_ends_with_its_process_however_that_ends(actors: Actors, path: str) -> None:
    for end in (signal.SIGKILL, signal.SIGTERM, signal.SIGABRT):
        first, second = actors.start(), actors.start()
        assert first.ask('claim', 3) == ['GPU-0', 'GPU-1', 'GPU-2']
        assert second.ask('claim', 2) is None
        assert second.ask('claim', 1) == ['GPU-3']
        first.end(end)
        assert claimed(path) == ['GPU-3']
        assert second.ask('claim', 3) == ['GPU-0', 'GPU-1', 'GPU-2']
        second.end(end)
        assert claimed(path) == []


def test_a_claim_given_back_is_there_for_the_next(actors: Actors, path: str) -> None:
    first, second = actors.start(), actors.start()
    assert first.ask('claim', 4) == list(GPUS)
    assert second.ask('claim', 1) is None
    first.ask('release')
    assert os.listdir(path) == []
    assert second.ask('claim', 4) == list(GPUS)


def test_a_zombie_holds_nothing(actors: Actors, path: str) -> None:
    actor = actors.start()
    actor.ask('end_as_zombie')
    assert len(os.listdir(path)) == 1
    assert claimed(path) == []
    assert actor.ask('claim', 4) == list(GPUS)


def test_a_claim_is_kept_by_the_program_that_its_process_becomes(actors: Actors, path: str) -> None:
    actor = actors.start()
    actor.ask('claim', 1)
    actor.tell('execute', shutil.which('cat'))
    assert eventually(lambda: Path(f'/proc/{actor.pid}/comm').read_text() == 'cat\n')
    assert claimed(path) == ['GPU-0']
    actor.end(signal.SIGKILL)
    assert claimed(path) == []


def test_a_forked_child_cannot_give_back_what_its_parent_has(actors: Actors, path: str) -> None:
    actor = actors.start()
    actor.ask('claim', 1)
    assert actor.ask('release_in_a_child') == 0
    assert claimed(path) == ['GPU-0']
    actor.ask('release')
    assert claimed(path) == []


def test_a_claim_for_a_time_outlives_its_maker(actors: Actors, path: str) -> None:
    actor = actors.start()
    assert actor.ask('claim', 1, 1000) == ['GPU-0']
    actor.end(signal.SIGKILL)
    assert claimed(path) == ['GPU-0']
    other = actors.start()
    assert other.ask('claim', 1, 0.001) == ['GPU-1']
    assert eventually(lambda: claimed(path) == ['GPU-0'])


def test_a_claim_made_to_outlive_its_process_does_so_from_then_on(actors: Actors, path: str) -> None:
    first, second = actors.start(), actors.start()
    assert first.ask('claim_for_both', 1, 1000) == ['GPU-0']
    assert second.ask('claim_for_both', 1, 1000) == ['GPU-1']
    assert first.ask('outlive_process') is None
    for actor in (first, second):
        actor.end(signal.SIGKILL)
    assert claimed(path) == ['GPU-0']
    assert actors.start().ask('claim', 4) is None
    assert len(os.listdir(path)) == 1


def test_a_claim_that_cannot_be_made_to_outlive_its_process_stands_as_before(actors: Actors, path: str) -> None:
    actor = actors.start()
    actor.ask('claim_for_both', 1, 1000)
    (record,) = Path(path).iterdir()
    before = record.read_text()
    actor.ask('fill_the_disk')
    assert 'file too large' in actor.ask('outlive_process')['error']
    assert [file.read_text() for file in Path(path).iterdir()] == [before]
    actor.end(signal.SIGKILL)
    assert claimed(path) == []


FIRST_THREAD_ENDS = """
import ctypes, threading
threading.Thread(target=threading.Event().wait).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_claim_is_kept_while_any_thread_of_its_process_runs(actors: Actors, path: str) -> None:
    actor = actors.start()
    actor.ask('claim', 1)
    actor.tell('execute', sys.executable, '-c', FIRST_THREAD_ENDS)
    assert eventually(lambda: state_of(actor.pid) == 'Z')
    assert claimed(path) == ['GPU-0']
    assert liveness.lives(actor.pid, liveness.start_of(actor.pid))
    os.kill(actor.pid, signal.SIGKILL)
    assert eventually(lambda: claimed(path) == [])


def test_a_process_that_is_stopped_keeps_what_it_has(actors: Actors, path: str) -> None:
    actor = actors.start()
    actor.ask('claim', 1)
    os.kill(actor.pid, signal.SIGSTOP)
    assert eventually(lambda: state_of(actor.pid) == 'T')
    assert claimed(path) == ['GPU-0']


def test_a_holder_of_the_lock_costs_a_bounded_wait_and_is_named(actors: Actors, path: str) -> None:
    stranger, other = actors.start(), actors.start(lock_timeout=0.1)
    stranger.ask('claim', 1)
    stranger.ask('lock')
    error = other.ask('claim', 1)['error']
    assert error.startswith(f'No GPU can be claimed: {path} has been locked for 0.1 s by process {stranger.pid},')
    assert len(other.ask('claims')) == 1  # reading needs no lock
    stranger.ask('release')  # neither does giving back
    assert other.ask('claims') == []
    stranger.end(signal.SIGKILL)
    assert other.ask('claim', 1) == ['GPU-0']


def test_a_full_disk_is_told_and_leaves_nothing_behind(actors: Actors, path: str) -> None:
    actor = actors.start()
    actor.ask('claim', 1)
    actor.ask('fill_the_disk')
    assert actor.ask('claim', 1)['error'].endswith(
        'file too large. GPU_TRACKER_CLAIMS chooses another folder.'  # the limit of RLIMIT_FSIZE
    )
    assert len(os.listdir(path)) == 1


def test_threads_of_one_process_do_not_share_either(path: str) -> None:
    folder = ClaimFolder(path)

    def claim(_: int) -> tuple[str, ...]:
        held = folder.claim(first_free(1), process_id=os.getpid(), seconds=None, command=None)
        return () if held is None else held.claim.uuids

    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(claim, range(8)))
    assert sorted(uuid for uuids in claims for uuid in uuids) == list(GPUS)
    assert claims.count(()) == 4


def test_claims_cost_no_large_imports(path: str) -> None:
    text = """
import os, sys
before = set(sys.modules)
from gpu_tracker.gpus.claims.folder import ClaimFolder
folder = ClaimFolder(sys.argv[1])
folder.claim(lambda _: ['GPU-0'], process_id=os.getpid(), seconds=1, command='x')
folder.claims()[0]
print(*set(sys.modules) - before)
"""
    large = {
        'asyncio',
        'ctypes',
        'dataclasses',
        'inspect',
        'psutil',
        'secrets',
        'socket',
        'subprocess',
        'tempfile',
        'threading',
    }
    assert not large & set(run(text, path).stdout.split())


def test_on_other_systems_nothing_is_claimed(path: str) -> None:
    text = """
import os, sys
sys.platform = 'win32'
sys.modules['fcntl'] = sys.modules['pwd'] = None
for name in ('O_DIRECTORY', 'O_NOFOLLOW', 'O_NONBLOCK', 'O_NOCTTY', 'fchmod', 'geteuid', 'sysconf', 'uname'):
    delattr(os, name)
from gpu_tracker.errors import ClaimsError
from gpu_tracker.gpus.claims.folder import ClaimFolder
from gpu_tracker.system.users import user_name
print(ClaimFolder(sys.argv[1]).claims(), user_name(7))
try:
    ClaimFolder().claim(lambda _: ['GPU-0'], process_id=os.getpid(), seconds=1, command=None)
except ClaimsError as error:
    print(error)
"""
    assert run(text, path).stdout == '[] 7\nGPUs can be claimed on Linux only\n'


def test_fifty_processes_race_for_four_gpus_and_are_killed_at_random(tmp_path: Path) -> None:
    (tmp_path / 'witnesses').mkdir()
    path = f'{tmp_path}/claims'
    told = race(path, f'{tmp_path}/witnesses')
    assert told['twice'] == 0
    assert told['failed'] == 0
    assert told['claims'] > 4
    assert told['killed'] > 4
    assert told['killed_with_lock'] > 0
    assert claimed(path) == []
    folder = ClaimFolder(path, lock_timeout=1)
    held = folder.claim(lambda claims: GPUS[len(claims) :], process_id=os.getpid(), seconds=None, command=None)
    assert held is not None
    assert held.claim.uuids == GPUS
    assert len(os.listdir(path)) == 1


def race(path: str, witnesses: str) -> dict[str, int]:
    words = [*PROGRAM, 'race', '', path, witnesses, '50', '4']
    told = json.loads(run_words(words, env=environment()).stdout)
    assert isinstance(told, dict)
    return told


@as_root
def test_processes_that_proc_hides_keep_their_claims() -> None:
    script = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
    with shared_folder() as folder, Actors(f'{folder}/claims') as actors:
        one = actors.start(user=ONE)
        other = actors.start(user=OTHER, words=tool('unshare', '--mount', 'sh', '-c', script, 'sh'))
        one.ask('claim', 1)
        assert not other.ask('sees', one.pid)
        assert other.ask('claims') == [[ONE, 'GPU-0']]
        one.end(signal.SIGKILL)
        assert other.ask('claims') == []
