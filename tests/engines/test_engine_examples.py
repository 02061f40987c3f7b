"""The programs in examples/engines, which the documentation shows, with the real engines."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.engines.mpi_launchers import open_mpi
from support.programs import need_package
from support.tracked_program import environment
from support.waiting import TIMEOUT

EXAMPLES = Path(__file__).parents[2] / 'examples' / 'engines'
NUMBER = r'\d+\.\d+(?:e-\d+)?'


@pytest.mark.parametrize(
    ('program', 'package', 'printed'),
    [
        (
            'dask_workers.py',
            'distributed',
            (
                rf'worker 0 had {NUMBER} GB at most\nworker 1 had {NUMBER} GB at most\n'
                rf'4 calls of squares took up to {NUMBER} s in one worker\n'
            ),
        ),
        ('ray_workers.py', 'ray', rf'job \S+ had \d+ workers with {NUMBER} s of CPU time\n'),
        ('ray_actors.py', 'ray', rf'(Adder had {NUMBER} GB at most\n){{2}}2 calls of squares\n'),
    ],
)
def test_an_example_prints_what_was_used(tmp_path: Path, program: str, package: str, printed: str) -> None:
    need_package(package)
    finished = subprocess.run(
        [sys.executable, str(EXAMPLES / program)],
        cwd=tmp_path,
        env=environment() | {'RAY_USAGE_STATS_ENABLED': '0'},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert re.fullmatch(printed, finished.stdout), finished.stdout


def test_rank_0_prints_what_all_have_used(tmp_path: Path) -> None:
    finished = open_mpi().start(4, [sys.executable, str(EXAMPLES / 'mpi_ranks.py')], cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    ranks = ''.join(rf'rank {rank} used {NUMBER} s of CPU time\n' for rank in range(4))
    assert re.fullmatch(rf'{ranks}rank \d was the slowest in squares\n', finished.stdout), finished.stdout
