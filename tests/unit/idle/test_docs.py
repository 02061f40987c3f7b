"""What docs/idle.rst says of keys is what there is."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from gpu_tracker.idle import decision, status
from gpu_tracker.idle.config.key_table import KEYS
from gpu_tracker.idle.observing.gpu_processes import EXEMPT

DOCS = Path(__file__).parents[3] / 'docs'
PAGE = (DOCS / 'idle.rst').read_text()


@pytest.mark.parametrize('key', sorted({key.name for keys in KEYS.values() for key in keys}))
def test_each_key_of_the_file_is_documented(key: str) -> None:
    assert f'``{key}``' in PAGE


@pytest.mark.parametrize('part', [status.MonitorStatus, status.ActiveUserStatus, status.ProcessStatus,
                                  status.GpuStatus, status.ProgramStatus, status.Status])  # fmt: skip
def test_each_key_of_the_status_is_documented(part: type) -> None:
    assert [field.name for field in fields(part) if f'``{field.name}``' not in PAGE] == []


@pytest.mark.parametrize('program', sorted({name for kind in EXEMPT for name in (*kind.programs, *kind.commands)}))
def test_each_program_that_never_counts_is_documented(program: str) -> None:
    never = PAGE[PAGE.index('These programs never count') : PAGE.index('Without root, the monitor')]
    assert program.replace('gpu_tracker', 'gpu-tracker') in never


def test_the_rules_are_those_that_the_code_tells() -> None:
    table = (DOCS / '_idle_rules.rst.txt').read_text().strip()
    assert table in str(decision.__doc__)
