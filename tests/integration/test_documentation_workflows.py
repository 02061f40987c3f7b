"""The workflows for CI in docs/ci.rst: their shell lines run in a fresh environment, as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
import textwrap
import venv
from typing import TYPE_CHECKING

import pytest

from support.documentation_examples import ROOT
from support.programs import need_program
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from pathlib import Path

OLD = "import time\ndata = b'x' * 60_000_000\ntime.sleep(0.8)\n"
NEW = "import time\ndata = b'x' * 10_000_000\ntime.sleep(0.2)\n"
BLOCKS = re.findall(
    r'^\.\. code-block:: yaml\n((?:\n| {3}.*\n)+)', (ROOT / 'docs' / 'ci.rst').read_text(), re.MULTILINE
)
GITHUB, GITLAB = map(textwrap.dedent, BLOCKS)
GIT = 'git -c user.name=A -c user.email=a@example.org'


@pytest.fixture(scope='module')
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the variables of a fresh virtual environment, where the packages of the tests come last."""
    folder = tmp_path_factory.mktemp('environment')
    venv.create(folder, symlinks=True)
    (site_packages,) = folder.glob('lib/python*/site-packages')
    (site_packages / 'last.pth').write_text(f'{sysconfig.get_path("purelib")}\n')
    kept = {name: value for name, value in os.environ.items() if not name.startswith(('PYTHON', 'PIP_', 'GIT_'))}
    offline = {'PIP_NO_INDEX': '1', 'PIP_NO_BUILD_ISOLATION': 'false', 'PIP_QUIET': '1', 'PIP_NO_COMPILE': '1'}
    return kept | offline | {'PATH': f'{folder / "bin"}{os.pathsep}{os.environ["PATH"]}'}


def run(step: str, folder: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ['bash', '-eo', 'pipefail', '-c', step],
        check=False,
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


def test_the_workflow_for_github(variables: dict[str, str], tmp_path: Path) -> None:
    found = re.findall(r'^ {6}- run: ?([|>]?)\n?((?:(?: {10}|\S).*\n)+)', GITHUB, re.MULTILINE)
    install, record, compare = (
        textwrap.dedent(lines) if style == '|' else ' '.join(lines.split()) for style, lines in found
    )
    for side, program in (('old', OLD), ('new', NEW)):
        (tmp_path / side).mkdir()
        (tmp_path / side / 'train.py').write_text(program)
    (tmp_path / 'new' / 'gpu-tracker').symlink_to(ROOT)
    summary = tmp_path / 'summary.md'
    variables = variables | {'GITHUB_STEP_SUMMARY': str(summary)}
    for step in (install, record, compare):
        done = run(step, tmp_path, variables)
        assert done.returncode == 0, f'{step}: {done.stderr}'
    assert summary.read_text().startswith('**Passed: max_ram.combined > +5 %, compute_time > +10 %**\n')
    assert len(list(tmp_path.glob('*.db'))) == 6
    for number in '123':
        (tmp_path / f'old-{number}.db').rename(tmp_path / 'kept')
        (tmp_path / f'new-{number}.db').rename(tmp_path / f'old-{number}.db')
        (tmp_path / 'kept').rename(tmp_path / f'new-{number}.db')
    summary.unlink()
    assert run(compare, tmp_path, variables).returncode == 1
    assert summary.read_text().startswith('**Failed: max_ram.combined > +5 %, compute_time > +10 %**\n')


def test_the_workflow_for_gitlab(variables: dict[str, str], tmp_path: Path) -> None:
    need_program('git')
    script = GITLAB[GITLAB.index('script:') : GITLAB.index('artifacts:')]
    steps = [' '.join(step.split()) for step in re.findall(r'^ {4}- (.*\n(?: {6}.*\n)*)', script, re.MULTILINE)]
    project = tmp_path / 'project'
    project.mkdir()
    (project / 'train.py').write_text(OLD)
    for words in ('init -b main', 'add train.py', 'commit -m old', 'remote add origin .', 'switch -c faster'):
        assert run(f'{GIT} {words}', project, variables).returncode == 0, words
    (project / 'train.py').write_text(NEW)
    (project / 'gpu-tracker').symlink_to(ROOT)
    variables = variables | {'CI_PROJECT_DIR': str(project), 'CI_MERGE_REQUEST_TARGET_BRANCH_NAME': 'main'}
    for step in steps:
        done = run(step, project, variables)
        assert done.returncode == 0, f'{step}: {done.stderr}'
    assert len(steps) == 5
    assert len(list(project.glob('*.db'))) == 6
    assert '   passed  max_ram.combined > +5 %: max_ram.combined.total_rss shrank by ' in done.stdout
