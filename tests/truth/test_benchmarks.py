"""Each part of ``python -m benchmarks`` can be run, and its table has the row that was asked for."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from benchmarks.environments import CHECKOUT

from support.compiled import require_compiler
from support.cuda.probed_program import opened
from support.truth import need_root

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONGEST = 300
"""Seconds that a part may take."""


def need_probe() -> None:
    """Skip if the machine does not let us probe."""
    require_compiler()
    with opened():
        pass


def need_browser() -> None:
    if shutil.which('chromium') is None or importlib.util.find_spec('playwright') is None:
        pytest.skip('needs chromium and playwright')


def need_nothing() -> None:
    pass


@pytest.mark.parametrize(
    ('part', 'row', 'shown', 'need'),
    [
        ('cost', '1 process, 50 MB', '1 process, 50 MB', need_nothing),
        ('latency', 'import', 'import', need_nothing),
        ('effect', 'computes', 'computes', need_nothing),
        ('scale', '100 threads', '100 threads', need_nothing),
        ('gpu', '1 process on 2 GPUs', '1 process on 2 GPUs', require_compiler),
        ('drm', 'no descriptor of a GPU', 'no descriptor of a GPU', need_nothing),
        ('inventory', 'which GPUs are free', 'gpu-tracker available', require_compiler),
        ('atopgpud', '1 client', '1 client', require_compiler),
        ('idle', 'sleep, looked at each 1 s', 'sleep, looked at each 1 s', need_root),
        ('idle', 'nothing runs, with a driver', 'nothing runs, with a driver', require_compiler),
        ('fleet', '20 well', '20 well', need_nothing),
        ('fleet', 'open: 125 hosts, 1,000 GPUs', '125 hosts, 1,000 GPUs', need_browser),
        ('cuda', '10,000 launches a second', '10,000', need_probe),
        ('recording', 'a sample each 0.1 s', '0.1 s', need_nothing),
        ('jobs', '10 ranks, reports only', '10 ranks, reports only', need_nothing),
        (
            'truth',
            '200 children of 20 ms, sampled each 0.1 s',
            '200 children of 20 ms, sampled each 0.1 s',
            need_nothing,
        ),
        ('truth', 'hard: a command that ends at once, --st=1', 'a command that ends at once', need_nothing),
        ('children', '0.1 s, eight at once, --st=0.1', '0.1 s, eight at once', need_root),
        ('children-cost', 'none, a process that sleeps, --st=1', 'none, a process that sleeps', require_compiler),
    ],
)
def test_a_part_can_be_run(tmp_path: Path, part: str, row: str, shown: str, need: Callable[[], None]) -> None:
    need()
    file = tmp_path / 'results.json'
    only = [f'--rows=^{re.escape(row)}$', '--peers=gpu-tracker', '--here']
    words = [sys.executable, '-m', 'benchmarks', '--quick', '--rounds=1', *only, f'--json={file}', part]
    done = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, timeout=LONGEST, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(file.read_text())
    assert [gap for gap in results['gaps'] if gap['row'] == row and gap['peer'].startswith('gpu-tracker')] == []
    assert any(line.startswith(shown) for line in done.stdout.splitlines()), done.stdout
