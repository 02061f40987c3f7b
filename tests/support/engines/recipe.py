"""The recipes in ``examples/jobs``, run as they stand there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Mapping

RECIPES = Path(__file__).parents[3] / 'examples' / 'jobs'

RANK = """
import os, time
end = time.process_time() + 0.1
while time.process_time() < end:
    pass
os.write(1, b'ran\\n')  # in one piece: lines of ranks come at once
"""
"""What a rank runs in Python: it computes for a tenth of a second."""


def search_path() -> str:
    """Return PATH with the programs of this environment first: gpu-tracker, python and the launchers from wheels."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ['PATH']])


def program(name: str, package: str) -> str:
    """Return the path of a program; skip the test if it is missing.

    :param package: Where it comes from, for who reads that.
    """
    path = shutil.which(name, path=search_path())
    if path is None:
        pytest.skip(f'needs {name}, from {package}')
    return path


def without_launchers() -> dict[str, str]:
    """Return this process' environment without what a launcher may have put there, and with :func:`search_path`."""
    launchers = ('SLURM', 'PMI', 'OMPI', 'GPU_TRACKER')
    own = {name: value for name, value in os.environ.items() if not name.startswith(launchers)}
    return own | {'PATH': search_path()}


def run_recipe(
    name: str, *words: str, folder: Path, environment: Mapping[str, str] | None = None, text: str = ''
) -> subprocess.CompletedProcess[str]:
    """Run one of the shell scripts to its end.

    :param words: Its arguments: the command of the ranks.
    :param folder: Where it runs.
    :param environment: Further environment variables.
    :param text: Its standard input.
    """
    return subprocess.run(
        ['sh', str(RECIPES / name), *words],
        check=False,
        cwd=folder,
        env=without_launchers() | dict(environment or {}),
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


def merged_report(folder: Path) -> dict[str, Any]:
    """Return the merged report of a job's folder."""
    finished = subprocess.run(
        [sys.executable, '-m', 'gpu_tracker', 'merge', str(folder), '--format=json'],
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)
