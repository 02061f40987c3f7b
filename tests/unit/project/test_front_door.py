"""README.rst is short, leads to pages that are there, and has the figures of the comparison."""

from __future__ import annotations

import re
from pathlib import Path

from support.scripts import load_script

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / 'README.rst').read_text()
COMPARISON = (ROOT / 'docs' / 'comparison.rst').read_text()
MOST_LINES = 120
tiers = load_script('tiers')


def row(what: str) -> tuple[str, str]:
    """Return the figures of gpu-tracker and of other tools in a row of the comparison."""
    cell = r'     - ([^\n]+)\n'
    found = re.search(rf'   \* - {re.escape(what)}[^*]*?\n{2 * cell}', COMPARISON)
    assert found, what
    return found[1], found[2]


def test_it_is_read_in_a_minute():
    assert len(README.splitlines()) <= MOST_LINES


def test_its_links_and_pictures_lead_to_files():
    targets = re.findall(r'`[^`<]+<([^`>]+)>`_', README) + re.findall(r'\.\. image:: (\S+)', README)
    assert len(targets) > 20
    assert [target for target in targets if ':' not in target and not (ROOT / target).is_file()] == []


def test_it_calls_pages_by_their_titles():
    links = re.findall(r'`([^`<]+)\s<docs/(\w+)\.rst>`_', README)
    titles = {page: (ROOT / 'docs' / f'{page}.rst').read_text().partition('\n')[0] for _, page in links}
    assert [(name, page) for name, page in links if page != 'index' and name != titles[page]] == []


def test_each_guide_has_a_picture():
    part = README.partition('Guides\n')[2].partition('Documentation\n')[0]
    pages = re.findall(r'<(docs/[^>]+)>', part)
    assert len(pages) == part.count('\n- ') == 10
    picture = re.compile(r'\.\. (?:image|figure):: _static/')
    assert [page for page in pages if not picture.search((ROOT / page).read_text())] == []


def test_its_two_commands_are_there():
    for script in ('scripts/try.sh', 'scripts/test.sh'):
        assert f'.. code-block:: sh\n\n   sh {script}\n' in README
        assert (ROOT / script).is_file()


def test_its_figures_are_those_of_the_comparison():
    words = ' '.join(README.split())
    assert row('CPU time of 200 children that live 20 ms each') == ('1.003', 'psrecord 0.035, GNU time 1.000')
    assert 'counted the CPU time of all 200, and the tool psrecord counted 7.' in words  # 0.035 * 200
    assert row('Peaks of 500 MB that last 0.1 s, sampled every second') == ('10', 'psrecord 1, GNU time 10')
    assert 'used 500 MB for 0.1 s, ten times.' in words
    assert 'found all ten peaks, and psrecord found one.' in words
    shared = row('Peak memory of a process with 300 MB and of four forks that inherit them')
    assert shared == ('1.000', 'psrecord 2.846, GNU time 0.583')
    assert 'memory that five processes shared, gpu-tracker reported the true size, and psrecord 2.8 times' in words
    assert '``python -m benchmarks truth`` repeats these measurements' in README
    assert 'print the rows: ``truth`` (rows 1 to 4)' in ' '.join(COMPARISON.split())


def test_what_the_tests_need_is_named():
    table = (ROOT / 'CONTRIBUTING.rst').read_text()
    for name, tier in tiers.TIERS.items():
        assert f'   * - ``{name}``\n' in table
        assert [package for names in tier.packages for package in names.split() if f'``{package}``' not in table] == []
