"""The manual pages in docs/man: that they are those of the help texts, and what groff makes of them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gpu_tracker.cli import COMMANDS
from gpu_tracker.cli.help_texts import help_of
from gpu_tracker.cli.man_pages import pages
from support.programs import need_program

FOLDER = Path(__file__).parents[2] / 'docs' / 'man'


def shown(path: Path) -> str:
    """Return the page as a terminal shows it, with every run of blanks as one; fail where groff complains."""
    need_program('groff')
    run = subprocess.run(
        ['groff', '-man', '-ww', '-rHY=0', '-rLL=300n', '-Tascii', '-P-c', str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stderr == ''
    without_bold = re.sub('.\b', '', run.stdout)
    return ' '.join(re.sub(r'-\n +', '-', without_bold).split())


def test_they_are_those_of_the_help_texts() -> None:
    made = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert made == pages(), 'make them again: python -m gpu_tracker.cli.man_pages docs/man'


@pytest.mark.parametrize('name', ['', *(name for name in COMMANDS if name != 'ls')])
def test_a_page_has_what_the_help_says(name: str) -> None:
    text = shown(FOLDER / (f'gpu-tracker-{name}.1' if name else 'gpu-tracker.1'))
    for option in help_of(name).options:
        for option_name in option.names:
            assert option_name in text
    for heading in ('NAME', 'SYNOPSIS', 'DESCRIPTION', 'OPTIONS', 'SEE ALSO'):
        assert heading in text


def test_a_page_reads_as_written() -> None:
    text = shown(FOLDER / 'gpu-tracker-export.1')
    assert 'gpu-tracker-export - writes a recording in the format of another program' in text
    assert 'SYNOPSIS gpu-tracker export [<file>] --format=<format> [options]' in text
    assert 'Write one of these formats: csv one line for each sample jsonl the whole recording' in text


def test_ls_is_gpus() -> None:
    assert (FOLDER / 'gpu-tracker-ls.1').read_text() == '.so man1/gpu-tracker-gpus.1\n'
