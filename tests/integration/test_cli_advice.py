"""Advice of a tracked command."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

import pytest

from support.cli_program import gpu_tracker

if TYPE_CHECKING:
    from pathlib import Path

TEXT = 'The job took 2 h 47 min of its limit of 3 h 03 min. Next time: --time=03:30:00'


def near_the_limit() -> dict[str, str]:
    """Return the environment of a job of Slurm that is near its time limit."""
    begin = int(time.time()) - 10_000
    return {
        **os.environ,
        'SLURM_JOB_ID': '4711',
        'SLURM_JOB_START_TIME': f'{begin}',
        'SLURM_JOB_END_TIME': f'{begin + 11_000}',
    }


def test_a_job_near_its_time_limit(tmp_path: Path) -> None:
    path = tmp_path / 'run.db'
    finished = gpu_tracker('-q', '-f', 'json', '--record', str(path), 'true', env=near_the_limit())
    assert finished.returncode == 0, finished.stderr
    (advice,) = json.loads(finished.stdout)['advice']
    assert (advice['rule'], advice['text']) == ('time_limit', TEXT)
    shown = gpu_tracker('show', str(path), '-f', 'summary')  # elsewhere, and later
    assert shown.stdout.endswith(f'\nAdvice      {TEXT}\n')


@pytest.mark.parametrize('arguments', [('--no-advice',), ('-f', 'csv')])
def test_no_advice(arguments: tuple[str, ...]) -> None:
    finished = gpu_tracker('-q', *arguments, 'true', env=near_the_limit())
    assert finished.returncode == 0, finished.stderr
    assert 'dvice' not in finished.stdout


IMPORTS = """
import sys
assert not [name for name in sys.modules if 'advice' in name]
import gpu_tracker
with gpu_tracker.Tracker(disable_logs=True):
    pass
assert not [name for name in sys.modules if 'advice' in name]
"""


def test_the_measured_process_does_not_import_it() -> None:
    finished = gpu_tracker('-q', '-f', 'json', '-o', os.devnull, sys.executable, '-c', IMPORTS)
    assert finished.returncode == 0, finished.stderr
