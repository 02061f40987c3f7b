"""Ending what is in a control group, on a folder like one of version 2."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpu_tracker.control_groups import making

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SAMPLER, FORKING = 111, 112


def test_once_nobody_is_spared_any_more_all_are_ended_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / 'cgroup.procs').write_text(f'{SAMPLER}\n{FORKING}\n')  # what forks is there again, whoever is killed
    (tmp_path / 'cgroup.kill').write_text('')
    killed = []
    monkeypatch.setattr(os, 'kill', lambda pid, _: killed.append(pid))
    making.kill(str(tmp_path), 0.5, lambda pid: pid == SAMPLER and not killed)
    assert (tmp_path / 'cgroup.kill').read_text() == '1'
    assert killed == [FORKING]
