"""The recipes for torchrun, Accelerate and Lightning, which are too large to install: their variables stand in."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.engines import stand_in_torchrun
from support.engines.recipe import RANK, RECIPES, merged_report, run_recipe, search_path, without_launchers
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from pathlib import Path


def test_ranks_of_torchrun_have_one_report(tmp_path: Path):
    _torchrun(tmp_path)
    program = RANK + "import sys\nsys.exit(os.environ['RANK'] == '2')"
    environment = {'PATH': f'{tmp_path}/bin:{search_path()}'}
    finished = run_recipe('torchrun.sh', 'python', '-c', program, folder=tmp_path, environment=environment)
    assert (finished.returncode, finished.stdout, finished.stderr) == (1, 'ran\n' * 4, '')
    report = merged_report(tmp_path / 'results')
    assert (report['launchers'], len(report['jobs'])) == (['torchrun'], 1)
    assert (report['ranks_expected'], report['never_started'], report['problems']) == (4, [], [])
    assert [(rank['rank'], rank['attempt'], rank['exit_code']) for rank in report['ranks']] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 0, 1),
        (3, 0, 0),
    ]
    text = (tmp_path / 'results' / 'report.txt').read_text()
    assert 'Ranks       4 of 4 on 1 node: 3 ended, 1 failed\n' in text


def test_a_node_is_the_unit_where_gpu_tracker_stands_before_torchrun(tmp_path: Path):
    _torchrun(tmp_path)
    words = ['gpu-tracker', '--job=results', '--', 'torchrun', '--standalone', '--nproc-per-node=4', '--no-python']
    environment = without_launchers() | {'PATH': f'{tmp_path}/bin:{search_path()}'}
    _run([*words, 'python', '-c', RANK], tmp_path, environment)
    (unit,) = merged_report(tmp_path / 'results')['ranks']
    assert unit['rank'] is None
    assert unit['cpu_seconds'] >= 0.4


@pytest.mark.parametrize(
    ('launcher', 'variables'),
    [
        # accelerate launch --multi_gpu is a torchrun that sets variables of its own as well
        (
            'torchrun',
            {'TORCHELASTIC_RUN_ID': 'none', 'TORCHELASTIC_RESTART_COUNT': '0', 'ACCELERATE_MIXED_PRECISION': 'no'},
        ),
        ('lightning', {'NODE_RANK': '0'}),
    ],
)
def test_ranks_that_track_themselves_have_one_report(tmp_path: Path, launcher: str, variables: dict[str, str]):
    for rank in ['0', '1', '2']:
        own = {'LOCAL_RANK': rank, 'WORLD_SIZE': '4'} | ({} if launcher == 'lightning' else {'RANK': rank})
        words = [sys.executable, str(RECIPES / 'track_in_ranks.py')]
        _run(words, tmp_path, without_launchers() | variables | own)
    report = merged_report(tmp_path / 'results')
    assert (report['launchers'], report['jobs']) == ([launcher], [])
    assert [rank['rank'] for rank in report['ranks']] == [0, 1, 2]
    assert (report['ranks_expected'], report['never_started']) == (4, ['3'])


def _torchrun(folder: Path) -> None:
    """Have a torchrun in the folder ``bin``."""
    (folder / 'bin').mkdir()
    program = folder / 'bin' / 'torchrun'
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(stand_in_torchrun.__file__)])} "$@"\n')
    program.chmod(0o755)


def _run(words: list[str], folder: Path, environment: dict[str, str]) -> None:
    subprocess.run(words, check=True, cwd=folder, env=environment, stdin=subprocess.DEVNULL, timeout=TIMEOUT)
