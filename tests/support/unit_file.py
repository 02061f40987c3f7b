"""Units of systemd in ``deploy/``, and what systemd says of them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support.waiting import TIMEOUT

DEPLOY = Path(__file__).parents[2] / 'deploy'

with_systemd = pytest.mark.skipif(
    shutil.which('systemd-analyze') is None, reason="needs systemd-analyze, from Debian's package systemd"
)


class UnitFile:
    """A unit that is shipped.

    :param name: Of its file.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = (DEPLOY / name).read_text(encoding='ascii')

    @property
    def settings(self) -> list[str]:
        """The lines that are neither empty nor a comment."""
        return [line for line in self.text.splitlines() if line and not line.startswith('#')]

    def with_program(self, folder: Path, program: str, instead: str) -> str:
        """Write a copy in which a line starts another program, with the same arguments, and return its path."""
        assert f'={program}' in self.text
        copy = folder / self.name
        copy.write_text(self.text.replace(f'={program}', f'={instead}'), encoding='ascii')
        return str(copy)


def systemd_analyze(*words: str) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze; all that it says is its standard output."""
    return subprocess.run(
        ['systemd-analyze', '--no-pager', *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
