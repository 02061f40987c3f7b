"""Errors name entries of a page, and the page has an entry for each."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_tracker.cli import main
from gpu_tracker.errors import ParameterError, see

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / 'src' / 'gpu_tracker' / 'cli' / 'messages.rst').read_text()
NO_LOCKS = """\
What you see: The file system of run.db does not support file locks.

Why: without file locks, other programs cannot read a recording during the run. Some
network file systems have no file locks (NFS, Lustre without flock).

What to do: read the recording after the run. To watch the run, record to a local disk,
such as --record=/tmp/run.db.
"""
NAMED = re.compile(r'\bsee\([\'"]([a-z-]+)[\'"]\)')


def test_an_entry_is_named_in_a_sentence() -> None:
    assert see('proc') == 'See "gpu-tracker explain proc".'


def test_what_errors_name_are_the_entries_of_the_page() -> None:
    sources = [path.read_text() for path in (ROOT / 'src' / 'gpu_tracker').rglob('*.py')]
    named = {entry for source in sources for entry in NAMED.findall(source)}
    entries = re.findall(r'^\.\. _([a-z-]+):\n\n\1\n~+$', PAGE, re.MULTILINE)
    assert sorted(named) == sorted(entries)
    assert entries == re.findall(r'  :ref:`([a-z-]+)`$', PAGE, re.MULTILINE)  # the table is in the same order


def test_the_command_prints_an_entry_in_plain_text(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(['explain', 'no-locks']) == 0
    assert capfd.readouterr().out == NO_LOCKS
    assert main(['explain']) == 0
    names = capfd.readouterr().out.split()
    assert names == re.findall(r'^\.\. _([a-z-]+):$', PAGE, re.MULTILINE)
    for name in names:
        assert main(['explain', name]) == 0
        text = capfd.readouterr().out
        assert text.startswith('What you see: ')
        assert re.search(r'``|\.\. |~~~|---|:[a-z]+:`', text) is None
    assert main(['explain', 'no-lock']) == 125
    assert capfd.readouterr().err.startswith('gpu-tracker: explain has no entry no-lock: did you mean no-locks')


def test_advice_follows_what_is_wrong_and_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(ParameterError('process_id', 7, 'alive', 'Look for it.')))
    assert (str(error), error.advice) == ('process_id must be alive, not 7. Look for it.', 'Look for it.')
    assert str(ParameterError('process_id', 7, 'alive')) == 'process_id must be alive, not 7'
