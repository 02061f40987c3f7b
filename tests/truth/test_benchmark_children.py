"""That the benchmark of short-lived children can be run, and that its children are as long and as large as they say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import children
from benchmarks.children import OURS_BY_COMMAND, OURS_BY_LIBRARY, PART
from benchmarks.children_cost import IDLE, cost_of
from benchmarks.environments import Environment
from benchmarks.peers import OURS
from benchmarks.results import Results
from benchmarks.session import Session
from benchmarks.short_children import Case, Shared, program_words, true_sizes

from support.compiled import require_compiler
from support.truth import need_root

ENVIRONMENT = Environment(OURS.name, Path(sys.executable).parent.parent, '6')
FIGURES = {'measured descendants', 'measured combined', 'true descendants', 'true combined', 'life'}


@pytest.fixture(autouse=True)
def compiler():
    require_compiler()


@pytest.mark.parametrize('count', [1, 8])
def test_children_live_and_grow_as_long_and_as_large_as_they_are_to(tmp_path, count):
    notes = tmp_path / 'notes'
    case = Case(0.1, count, 1.0)
    subprocess.run(program_words(case, str(notes)), check=True)
    true = true_sizes(notes.read_text(), count, Shared(0, 0), None)
    grown = count * case.kilobytes * 1024
    assert grown < true['true descendants'] < grown + count * 4_000_000
    assert true['true descendants'] < true['true combined'] < true['true descendants'] + 4_000_000
    assert true['life'] >= 0.1


def test_each_way_has_what_it_measures_and_what_is_true():
    need_root()
    row = '0.1 s, eight at once, --st=0.1'
    session = Session([OURS], {OURS.name: ENVIRONMENT}, Results(), 1, quick=True, rows=re.compile(f'^{row}$'))
    children.measure(session)
    assert session.results.gaps == []
    for way in (OURS_BY_LIBRARY, OURS_BY_COMMAND):
        figures = {f.kind: f.value for f in session.results.figures if (f.part, f.row, f.peer) == (PART, row, way.name)}
        assert figures.keys() == FIGURES
        # Eight times what each grows by; of a megabyte each that they share, one is left.
        assert 80_000_000 < figures['true descendants'] < 90_000_000
        assert figures['true combined'] >= figures['true descendants']


@pytest.mark.parametrize('way', [OURS_BY_LIBRARY, OURS_BY_COMMAND])
def test_the_clock_of_the_sampler_is_found(way):
    costs = cost_of(way, ENVIRONMENT, IDLE, 0.3)
    assert costs.keys() == {'share', 'start', 'own share'}
    assert costs['start'] > 0
    assert 0 <= costs['share'] < 1
