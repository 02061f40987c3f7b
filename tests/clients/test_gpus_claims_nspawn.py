"""Claims that are seen in containers of systemd-nspawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.claims.claim_actors import Actors
from support.claims.containers import (
    check_claim_for_a_time,
    check_claim_of_process,
    in_nspawn,
    kill,
    let_end,
    on_host,
)
from support.tracked_program import as_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.claims.claim_actors import Actor

    Start = Callable[[Actors], Actor]

pytestmark = as_root


@pytest.fixture
def actors(tmp_path: Path) -> Iterator[Actors]:
    with Actors(str(tmp_path / 'claims')) as actors:
        yield actors


@pytest.mark.parametrize('end', [kill, let_end])
@pytest.mark.parametrize(('owner', 'other'), [(on_host, in_nspawn), (in_nspawn, on_host), (in_nspawn, in_nspawn)])
def test_a_claim_is_seen_everywhere_and_ends_everywhere_with_its_process(
    actors: Actors, owner: Start, other: Start, end: Callable[[Actor], None]
) -> None:
    check_claim_of_process(owner(actors), other(actors), end)


@pytest.mark.parametrize(('owner', 'other'), [(on_host, in_nspawn), (in_nspawn, on_host)])
def test_a_claim_for_a_time_is_seen_everywhere(actors: Actors, owner: Start, other: Start) -> None:
    check_claim_for_a_time(owner(actors), other(actors))
