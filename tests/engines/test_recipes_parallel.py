"""The recipe for GNU parallel, with the real one: each job is a rank, and its number that of its line."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from support.engines.recipe import RANK, merged_report, program, run_recipe

if TYPE_CHECKING:
    from pathlib import Path


def test_each_line_is_a_rank(tmp_path: Path):
    program('parallel', "Debian's package parallel")
    failing = RANK + "import sys\nassert sys.argv[1] != 'c', 'this one fails'"
    finished = run_recipe('parallel.sh', 'python', '-c', shlex.quote(failing), folder=tmp_path, text='a\nb\nc\n')
    assert finished.returncode == 1, finished.stderr
    assert finished.stdout == 'ran\n' * 3
    report = merged_report(tmp_path / 'results')
    assert report['launchers'] == ['parallel']
    assert [(rank['rank'], rank['state'], rank['exit_code']) for rank in report['ranks']] == [
        (1, 'ended', 0),
        (2, 'ended', 0),
        (3, 'failed', 1),
    ]
    assert report['problems'] == []
    assert min(rank['cpu_seconds'] for rank in report['ranks']) >= 0.1
    assert 'Ranks       3 on 1 node: 2 ended, 1 failed\n' in (tmp_path / 'results' / 'report.txt').read_text()
