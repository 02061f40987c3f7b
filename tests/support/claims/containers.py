"""Actors on the machine and in containers of several kinds, and what holds for the claims of any two of them."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from support.claims.claim_actors import tool
from support.claims.claim_program import GPUS
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.claims.claim_actors import Actor, Actors

_CHECKOUT = Path(__file__).parents[3]


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
    # The container has a /tmp of its own.
    hidden = [folder for folder in (str(_CHECKOUT), sys.prefix) if folder.startswith('/tmp/')]
    binds += [f'--bind-ro={folder}' for folder in hidden]
    words = ('--quiet', '--pipe', '--register=no', '--keep-unit', f'--directory={root}', '--', '/usr/bin/env')
    variables = [f'{name}={os.environ[name]}' for name in ('PATH', 'PYTHONPATH') if name in os.environ]
    return actors.start(words=(*tool('systemd-nspawn'), *binds, *words, *variables))


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


def check_claim_of_process(job: Actor, beside: Actor, end: Callable[[Actor], None]) -> None:
    """Check that a claim is seen by the other, and ends with its process."""
    assert job.ask('claim', 3) == ['GPU-0', 'GPU-1', 'GPU-2']
    assert seen_by(beside) == ['GPU-0', 'GPU-1', 'GPU-2']
    assert beside.ask('claim', 2) is None
    assert beside.ask('claim', 1) == ['GPU-3']
    assert seen_by(job) == list(GPUS)
    end(job)
    assert eventually(lambda: seen_by(beside) == ['GPU-3'])
    assert beside.ask('claim', 3) == ['GPU-0', 'GPU-1', 'GPU-2']


def check_claim_for_a_time(job: Actor, beside: Actor) -> None:
    """Check that a claim for a time is seen by the other when its process has ended."""
    job.ask('claim', 1, 1000)
    job.end(signal.SIGKILL)
    assert beside.ask('claim', 3) == ['GPU-1', 'GPU-2', 'GPU-3']
    assert seen_by(beside) == list(GPUS)
