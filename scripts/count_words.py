"""Counts the words of the documentation, and fails if there are more than ``MOST_WORDS``.

    python scripts/count_words.py docs/_build/html

It reads the HTML that Sphinx has built. A word is anything between spaces that has a letter or a digit, so examples and
signatures count too. Navigation, lists of contents, footers, the index and the search page do not. Pages that an
earlier build has left in the folder do not count either: Sphinx never removes them, but its search index has the pages
of the last build.
"""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

MOST_WORDS = 38_000
"""Only ever lowered."""
_WITHIN_WORDS = {'a', 'code', 'em', 'span', 'strong', 'wbr'}
_WORD = re.compile(r'\S*\w\S*')


class Article(HTMLParser):
    """Collects the text of the article of a page."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0
        self._in_contents = 0
        self._texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - of the parser
        """Notice where the article begins, and that most elements end a word."""
        self._depth += tag == 'article'
        self._in_contents += tag == 'nav'
        if tag not in _WITHIN_WORDS:
            self._texts.append(' ')

    def handle_endtag(self, tag: str) -> None:
        """Notice where the article ends."""
        self._depth -= tag == 'article'
        self._in_contents -= tag == 'nav'
        if tag not in _WITHIN_WORDS:
            self._texts.append(' ')

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        if self._depth and not self._in_contents:
            self._texts.append(data)

    def words(self) -> int:
        """Return the number of words read so far."""
        return len(_WORD.findall(''.join(self._texts)))


def words_by_page(folder: Path) -> dict[str, int]:
    """Return the number of words of each page by its name, largest first."""
    index = (folder / 'searchindex.js').read_text(encoding='utf-8')
    words = {}
    for page in json.loads(index[index.index('(') + 1 : index.rindex(')')])['docnames']:
        article = Article()
        article.feed((folder / f'{page}.html').read_text(encoding='utf-8'))
        words[page] = article.words()
    return dict(sorted(words.items(), key=lambda item: (-item[1], item[0])))


def main(arguments: list[str]) -> int:
    """Print the words of each page and of all, and return the exit code."""
    if len(arguments) != 1:
        print('usage: python scripts/count_words.py FOLDER, with the HTML that Sphinx has built', file=sys.stderr)
        return 2
    try:
        words = words_by_page(Path(arguments[0]))
    except FileNotFoundError as error:
        print(f'{error.filename} is missing. Run python -m sphinx -b html docs {arguments[0]}', file=sys.stderr)
        return 2
    total = sum(words.values())
    for page, count in words.items():
        print(f'{count:7,}  {page}')
    print(f'{total:7,}  words in {len(words)} pages, {MOST_WORDS:,} at most')
    return int(total > MOST_WORDS)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
