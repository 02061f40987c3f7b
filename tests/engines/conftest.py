"""Fixtures of the tests with real job launchers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.engines.slurm_cluster import SlurmCluster

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope='session')
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Give a Slurm cluster of two nodes."""
    with SlurmCluster(tmp_path_factory.mktemp('slurm')) as cluster:
        yield cluster
