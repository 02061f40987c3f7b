from __future__ import annotations

import ast
import sys
from pathlib import Path

import support
from support.tracked_program import PACKAGE_PARENT, environment, run_words


def test_nothing_is_left_of_many_runs_in_one_process() -> None:
    path = f'{PACKAGE_PARENT}:{Path(support.__file__).parents[1]}'
    words = [sys.executable, '-m', 'support.repeated_runs', '20']
    left = ast.literal_eval(run_words(words, env=environment({'PYTHONPATH': path})).stdout)
    assert left.pop('objects') < 1
    assert left.pop('bytes') < 50_000
    assert left == {'descriptors': 0, 'threads': 0, 'children': 0, 'files': 0}
