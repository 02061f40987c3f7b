"""Claims that are seen from more than one PID namespace, as where containers share their folder with the machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.gpus.claims.claim import describe
from gpu_tracker.gpus.claims.folder import ClaimFolder
from support.claims.claim_actors import Actors, tool
from support.claims.claim_program import GPUS
from support.tracked_program import as_root
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.claims.claim_actors import Actor

pytestmark = as_root  # it makes PID namespaces


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / 'claims')


@pytest.fixture
def actors(path: str) -> Iterator[Actors]:
    with Actors(path) as actors:
        yield actors


def on_host(actors: Actors) -> Actor:
    return actors.start()


def in_container(actors: Actors) -> Actor:
    """Start an actor that ends when unshare, which is the process that the test knows, is killed."""
    return actors.start(words=tool('unshare', '--pid', '--fork', '--mount-proc', '--kill-child'))


OWN_BOOT_ID = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'


def in_container_with_boot_id(actors: Actors) -> Actor:
    """Start an actor where the boot ID is another one, as LXC, Incus and systemd-nspawn have it."""
    Path(actors.path).parent.joinpath('boot_id').write_text('0b0c0d0e-0000-4000-8000-000000000000\n')
    boot_id = str(Path(actors.path).parent / 'boot_id')
    unshare = tool('unshare', '--mount', '--pid', '--fork', '--mount-proc', '--kill-child')
    return actors.start(words=(*unshare, 'sh', '-c', OWN_BOOT_ID, boot_id))


def in_time_namespace(actors: Actors) -> Actor:
    """Start an actor for which the machine has been running for much longer."""
    return actors.start(words=tool('unshare', '--time', '--boottime', '1000000'))


def in_nspawn(actors: Actors) -> Actor:
    """Start an actor in a container of systemd-nspawn, which has all folders of this machine but its own /etc."""
    shared = Path(actors.path).parent
    root = Path(tempfile.mkdtemp(prefix='root-', dir=shared))
    for name in ('etc', 'tmp', 'usr'):
        (root / name).mkdir()
    (root / 'etc' / 'os-release').write_text('ID=test\n')
    binds = [f'--bind={shared}']
    for folder in sorted(Path('/').iterdir()):
        if folder.is_symlink():
            (root / folder.name).symlink_to(folder.readlink())
        elif folder.is_dir() and folder.name not in {'dev', 'etc', 'proc', 'run', 'sys', 'tmp'}:
            binds.append(f'--bind-ro={folder}')
    words = ('--quiet', '--pipe', '--register=no', '--keep-unit', f'--directory={root}', '--', '/usr/bin/env')
    variables = [f'{name}={os.environ[name]}' for name in ('PATH', 'PYTHONPATH') if name in os.environ]
    return actors.start(words=(*tool('systemd-nspawn'), *binds, *words, *variables))


IN_NSPAWN = [in_nspawn] if shutil.which('systemd-nspawn') else []
"""Not everywhere is systemd-nspawn installed."""


def kill(actor: Actor) -> None:
    if is_program(actor.pid, 'systemd-nspawn'):  # what runs in it outlives it
        for pid in Path(f'/proc/{actor.pid}/task/{actor.pid}/children').read_text().split():
            os.kill(int(pid), signal.SIGKILL)
    actor.end(signal.SIGKILL)


def let_end(actor: Actor) -> None:
    actor.tell('leave')


def seen_by(actor: Actor) -> list[str]:
    return sorted(uuid for _, *uuids in actor.ask('claims') for uuid in uuids)


def is_program(pid: int, name: str) -> bool:
    return Path(f'/proc/{pid}/comm').read_text() == f'{name}\n'


@contextlib.contextmanager
def running(pid: int) -> Iterator[None]:
    """End a process that an actor has started, by its number here."""
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize('end', [kill, let_end])
@pytest.mark.parametrize(
    ('owner', 'other'),
    [
        (on_host, in_container),
        (in_container, on_host),
        (in_container, in_container),
        (on_host, in_container_with_boot_id),
        (in_container_with_boot_id, on_host),
        (on_host, in_time_namespace),
        (in_time_namespace, on_host),
        (in_time_namespace, in_container_with_boot_id),
        *((on_host, nspawn) for nspawn in IN_NSPAWN),
        *((nspawn, on_host) for nspawn in IN_NSPAWN),
        *((nspawn, nspawn) for nspawn in IN_NSPAWN),
    ],
)
def test_a_claim_is_seen_everywhere_and_ends_everywhere_with_its_process(
    actors: Actors,
    owner: Callable[[Actors], Actor],
    other: Callable[[Actors], Actor],
    end: Callable[[Actor], None],
) -> None:
    job, beside = owner(actors), other(actors)
    assert job.ask('claim', 3) == ['GPU-0', 'GPU-1', 'GPU-2']
    assert seen_by(beside) == ['GPU-0', 'GPU-1', 'GPU-2']
    assert beside.ask('claim', 2) is None
    assert beside.ask('claim', 1) == ['GPU-3']
    assert seen_by(job) == list(GPUS)
    end(job)
    assert eventually(lambda: seen_by(beside) == ['GPU-3'])
    assert beside.ask('claim', 3) == ['GPU-0', 'GPU-1', 'GPU-2']


@pytest.mark.parametrize(
    ('owner', 'other'),
    [
        (on_host, in_container_with_boot_id),
        (in_container_with_boot_id, on_host),
        (on_host, in_time_namespace),
        (in_time_namespace, on_host),
        *((on_host, nspawn) for nspawn in IN_NSPAWN),
        *((nspawn, on_host) for nspawn in IN_NSPAWN),
    ],
)
def test_a_claim_for_a_time_is_seen_where_boot_id_or_clock_are_others(
    actors: Actors, owner: Callable[[Actors], Actor], other: Callable[[Actors], Actor]
) -> None:
    job, beside = owner(actors), other(actors)
    job.ask('claim', 1, 1000)
    job.end(signal.SIGKILL)
    assert beside.ask('claim', 3) == ['GPU-1', 'GPU-2', 'GPU-3']
    assert seen_by(beside) == list(GPUS)


def test_a_claim_of_a_container_is_given_back_everywhere(actors: Actors, path: str) -> None:
    job, beside = in_container(actors), on_host(actors)
    assert job.ask('claim', 4) == list(GPUS)
    job.ask('release')
    assert os.listdir(path) == []
    assert beside.ask('claim', 4) == list(GPUS)


def test_a_claim_of_a_container_in_words(actors: Actors, path: str) -> None:
    in_container(actors).ask('claim', 1)
    (claim,) = ClaimFolder(path).claims()
    assert describe(claim, 0.0, lambda _: 'root') == 'claimed by root (pid 1 in another container, actor)'


def test_a_claim_for_a_time_and_a_process_ends_with_either(actors: Actors) -> None:
    first, second, beside = in_container(actors), in_container(actors), on_host(actors)
    assert first.ask('claim_for_both', 1, 1000) == ['GPU-0']
    assert second.ask('claim_for_both', 1, 1000) == ['GPU-1']
    assert first.ask('outlive_process') is None
    kill(first)
    kill(second)
    assert eventually(lambda: seen_by(beside) == ['GPU-0'])
    assert beside.ask('claim_for_both', 1, 0.001) == ['GPU-1']
    assert eventually(lambda: seen_by(beside) == ['GPU-0'])


@pytest.mark.parametrize(('owner', 'other'), [(on_host, in_container), (in_container, on_host)])
def test_a_claim_for_programs_is_kept_by_the_program_that_its_process_becomes(
    actors: Actors, owner: Callable[[Actors], Actor], other: Callable[[Actors], Actor]
) -> None:
    job, beside = owner(actors), other(actors)
    job.ask('claim_for_programs', 1)
    job.tell('execute', sys.executable, '-c', 'import os; print(os.getpid(), flush=True); input()')
    assert job.answer() == (job.pid if owner is on_host else 1)  # it runs, and is the same process
    assert seen_by(beside) == ['GPU-0']
    kill(job)
    assert eventually(lambda: seen_by(beside) == [])


def test_a_claim_for_this_program_is_not_kept_elsewhere_by_another(actors: Actors) -> None:
    """On the host the process counts, and it is the same one."""
    job, beside, inside = on_host(actors), on_host(actors), in_container(actors)
    job.ask('claim', 1)
    job.tell('execute', shutil.which('cat'))
    assert eventually(lambda: is_program(job.pid, 'cat'))
    assert seen_by(beside) == ['GPU-0']
    assert eventually(lambda: seen_by(inside) == [])  # files are closed after a process has its new name


CLOSES_ALL = 'import os; os.closerange(3, 1000); print(1, flush=True); input()'


def test_a_program_that_closes_what_it_inherits_keeps_its_claim_among_its_own(actors: Actors, path: str) -> None:
    """As sudo does; elsewhere it is taken to have ended, and still nobody takes its file away."""
    job, beside, inside = on_host(actors), on_host(actors), in_container(actors)
    job.ask('claim_for_programs', 1)
    job.tell('execute', sys.executable, '-c', CLOSES_ALL)
    assert job.answer() == 1
    assert seen_by(inside) == []
    inside.ask('claim', 4)
    inside.ask('release')
    assert seen_by(beside) == ['GPU-0']
    kill(job)
    assert seen_by(beside) == []
    beside.ask('claim', 1)
    assert len(os.listdir(path)) == 1


LEAVES_A_DESCENDANT = 'sleep 1000 > /dev/null & echo $!'


def test_a_descendant_of_the_command_keeps_its_claim_elsewhere(actors: Actors) -> None:
    """It has inherited the file; on the host only the process counts that was claimed for."""
    job, beside, inside = on_host(actors), on_host(actors), in_container(actors)
    job.ask('claim_for_programs', 1)
    job.tell('execute', shutil.which('sh'), '-c', LEAVES_A_DESCENDANT)
    with running(job.answer()):
        assert eventually(lambda: seen_by(beside) == [])
        assert seen_by(inside) == ['GPU-0']
    assert eventually(lambda: seen_by(inside) == [])


def test_a_program_that_a_process_starts_does_not_keep_its_claim(actors: Actors) -> None:
    job, beside, inside = on_host(actors), on_host(actors), in_container(actors)
    job.ask('claim', 1)
    with running(job.ask('spawn', shutil.which('sleep'), '1000')):
        kill(job)
        assert eventually(lambda: seen_by(inside) == [])
        assert seen_by(beside) == []


def test_a_forked_child_keeps_the_claim_of_its_parent_elsewhere(actors: Actors) -> None:
    job, beside, inside = on_host(actors), on_host(actors), in_container(actors)
    job.ask('claim', 1)
    with running(job.ask('fork')):
        kill(job)
        assert seen_by(beside) == []
        assert seen_by(inside) == ['GPU-0']
    assert eventually(lambda: seen_by(inside) == [])


def test_a_process_that_is_stopped_keeps_what_it_has_elsewhere(actors: Actors) -> None:
    job, inside = on_host(actors), in_container(actors)
    job.ask('claim', 1)
    os.kill(job.pid, signal.SIGSTOP)
    assert seen_by(inside) == ['GPU-0']
