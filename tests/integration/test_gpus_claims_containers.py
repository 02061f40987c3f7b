"""Claims that are seen from more than one PID namespace, as where containers share their folder with the machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.gpus.claim import describe
from gpu_tracker.gpus.claims.folder import ClaimFolder
from support.claims.claim_actors import Actors
from support.claims.claim_program import GPUS
from support.claims.containers import (
    check_claim_for_a_time,
    check_claim_of_process,
    in_container,
    in_container_with_boot_id,
    in_time_namespace,
    is_program,
    kill,
    let_end,
    on_host,
    seen_by,
)
from support.tracked_program import as_root
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.claims.claim_actors import Actor

pytestmark = as_root  # it makes PID namespaces


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / 'claims')


@pytest.fixture
def actors(path: str) -> Iterator[Actors]:
    with Actors(path) as actors:
        yield actors


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
    ],
)
def test_a_claim_is_seen_everywhere_and_ends_everywhere_with_its_process(
    actors: Actors,
    owner: Callable[[Actors], Actor],
    other: Callable[[Actors], Actor],
    end: Callable[[Actor], None],
) -> None:
    check_claim_of_process(owner(actors), other(actors), end)


@pytest.mark.parametrize(
    ('owner', 'other'),
    [
        (on_host, in_container_with_boot_id),
        (in_container_with_boot_id, on_host),
        (on_host, in_time_namespace),
        (in_time_namespace, on_host),
    ],
)
def test_a_claim_for_a_time_is_seen_where_boot_id_or_clock_are_others(
    actors: Actors, owner: Callable[[Actors], Actor], other: Callable[[Actors], Actor]
) -> None:
    check_claim_for_a_time(owner(actors), other(actors))


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
