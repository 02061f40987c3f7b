"""That the benchmark of DRM clients measures what it says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks import drm
from benchmarks.environments import Environment
from benchmarks.peers import OURS
from benchmarks.session import FailedError

OURSELVES = Environment(OURS.name, Path(sys.executable).parent.parent, '6')


@pytest.mark.parametrize('kind', drm.ROWS)
def test_each_kind_of_processes_is_read(kind: str) -> None:
    assert 0 <= drm.read(OURSELVES, kind, 3, 4)['cpu'] < 1


def test_a_failure_is_reported() -> None:
    with pytest.raises(FailedError):
        drm.read(OURSELVES, 'idle', 3, -1)
