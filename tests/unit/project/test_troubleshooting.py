"""Errors name entries of a page, and the page has an entry for each."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

from gpu_tracker.errors import ParameterError, see

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / 'docs' / 'troubleshooting.rst').read_text()
NAMED = re.compile(r'\bsee\([\'"]([a-z-]+)[\'"]\)')


def test_an_entry_is_named_in_a_sentence() -> None:
    assert see('proc') == 'See "proc" in docs/troubleshooting.rst.'


def test_what_errors_name_are_the_entries_of_the_page() -> None:
    sources = [path.read_text() for path in (ROOT / 'src' / 'gpu_tracker').rglob('*.py')]
    named = {entry for source in sources for entry in NAMED.findall(source)}
    entries = re.findall(r'^\.\. _([a-z-]+):\n\n\1\n~+$', PAGE, re.MULTILINE)
    assert sorted(named) == sorted(entries)
    assert entries == re.findall(r'  :ref:`([a-z-]+)`$', PAGE, re.MULTILINE)  # the table is in the same order


def test_advice_follows_what_is_wrong_and_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(ParameterError('process_id', 7, 'alive', 'Look for it.')))
    assert (str(error), error.advice) == ('process_id must be alive, not 7. Look for it.', 'Look for it.')
    assert str(ParameterError('process_id', 7, 'alive')) == 'process_id must be alive, not 7'
