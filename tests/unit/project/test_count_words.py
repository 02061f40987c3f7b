"""The words of the built documentation: articles only, and only pages of the last build."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.scripts import load_script

if TYPE_CHECKING:
    from pathlib import Path

count_words = load_script('count_words')

PAGE = """\
<html><head><title>Not counted</title></head><body><nav>nor <a href="b.html">this</a></nav>
<article role="main"><h1>Run it<a class="headerlink" href="#run-it">\N{PILCROW SIGN}</a></h1>
<nav class="contents"><ul><li><a>Not counted</a></li></ul></nav>
<p>It costs 3 &micro;s &mdash; see <code>gpu-tracker<span>.</span>run</code>.</p><ul><li>one</li><li>two</li></ul>
<pre><span>$</span> <span>gpu-tracker</span> <span>--live</span></pre></article><footer>nor this</footer></body></html>
"""
TABLE = """\
     12  index
      2  reference/api
     14  words in 2 pages, {} at most
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / 'reference').mkdir()
    (tmp_path / 'index.html').write_text(PAGE)
    (tmp_path / 'renamed.html').write_text(PAGE)
    (tmp_path / 'reference' / 'api.html').write_text('<article><p>All classes</p></article>')
    (tmp_path / 'searchindex.js').write_text('Search.setIndex({"docnames":["index","reference/api"],"terms":{}})')
    return tmp_path


@pytest.mark.parametrize(('most', 'code'), [(14, 0), (13, 1)])
def test_words_of_articles_are_printed_and_compared_with_the_limit(
    most: int, code: int, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count_words, 'MOST_WORDS', most)
    assert count_words.main([str(folder)]) == code
    assert capsys.readouterr().out == TABLE.format(most)


def test_a_folder_that_is_not_built_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert count_words.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f'{tmp_path}/searchindex.js is missing. Run python -m sphinx ')
