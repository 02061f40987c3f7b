"""HTML as tests read it: the texts of its tables, what it has beside them, and whether each element is closed."""

from __future__ import annotations

from html.parser import HTMLParser

_ALONE = {'img'}
"""Elements without an end."""


class Page(HTMLParser):
    """A piece of HTML.

    :ivar tables: The texts of the cells of each table, by row.
    :ivar lines: The texts outside of tables.
    :ivar images: The title and the address of each image.
    :ivar tags: The names of all elements.
    :ivar attributes: The names of all attributes.
    """

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[list[list[str]]] = []
        self.lines: list[str] = []
        self.images: list[tuple[str, str]] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in _ALONE:
            self._open.append(tag)
        if tag == 'img':
            given = dict(attrs)
            assert given['alt'] == given['title']
            self.images.append((str(given['title']), str(given['src'])))
        elif tag == 'table':
            self.tables.append([])
        elif tag == 'tr':
            self.tables[-1].append([])
        elif tag in {'td', 'th'}:
            self.tables[-1][-1].append('')

    def handle_endtag(self, tag: str) -> None:
        if tag not in _ALONE:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if 'table' in self._open:
            self.tables[-1][-1][-1] += data
        else:
            self.lines.append(data)
