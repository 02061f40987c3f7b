"""Programs in ``examples`` that the examples of the pages do not run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from support.documentation_examples import ROOT
from support.programs import need_program
from support.tracked_program import environment
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = ROOT / 'examples'
COMMITS = """
git init -q .
git config user.name A
git config user.email a@example.org
echo "data = b'x' * 10_000_000" > train.py
git add train.py
git commit -qm before
git tag before
echo "import time; data = b'x' * 90_000_000; time.sleep(0.2)" > train.py
git commit -qam after
"""


def test_two_commits_are_compared(tmp_path: Path) -> None:
    need_program('git')
    programs, repository = tmp_path / 'bin', tmp_path / 'repository'
    programs.mkdir()
    repository.mkdir()
    (programs / 'gpu-tracker').write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gpu_tracker "$@"\n')
    (programs / 'gpu-tracker').chmod(0o755)
    variables = environment({'PATH': f'{programs}{os.pathsep}{os.environ["PATH"]}'})

    def run(*words: str) -> str:
        options = {'cwd': repository, 'env': variables, 'text': True, 'timeout': TIMEOUT}
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, **options).stdout

    run('sh', '-ec', COMMITS)
    compared = run('sh', str(EXAMPLES / 'compare_commits.sh'), 'before', 'HEAD', sys.executable, 'train.py')
    (row,) = [line for line in compared.splitlines() if line.startswith('max_ram.combined.total_rss ')]
    assert row.endswith('larger')
    assert run('git', 'worktree', 'list').count('\n') == 1
    assert run('git', 'status', '--short') == ''


def test_a_stopped_program_continues_at_its_step(tmp_path: Path) -> None:
    words = [sys.executable, str(EXAMPLES / 'resume_after_stop.py'), '7']
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == 'starting at step 0\n'
        first.send_signal(signal.SIGTERM)
        saved = first.stdout.read()
        assert first.wait(TIMEOUT) == 0
    step = (tmp_path / 'step.txt').read_text()
    assert saved == f'saved step {step}\n'
    second = subprocess.run(words, cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT)
    assert second.stdout == f'starting at step {step}\nsaved step 7\n'
