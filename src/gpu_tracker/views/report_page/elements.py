"""Elements of a page. All texts and attributes are escaped when they are written: many come from strangers."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, tostring

from gpu_tracker.system.terminal_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LINES = 1000
"""The width of a bar, in its own units."""
_DEEPEST_LEVEL = 8


def element(name: str, *children: Element | str | None, **attributes: str | None) -> Element:
    """Return an element with texts and other elements in it.

    :param children: In their order; None is left out.
    :param attributes: ``_`` in a name stands for ``-``, and one at its end for nothing; None is left out.
    """
    found = Element(name, {_name(key): printable(value) for key, value in attributes.items() if value is not None})
    last: Element | None = None
    for child in children:
        if child is None:
            continue
        if isinstance(child, str):
            text = printable(child)
            if last is None:
                found.text = (found.text or '') + text
            else:
                last.tail = (last.tail or '') + text
        else:
            found.append(child)
            last = child
    return found


def table(
    titles: Sequence[str], rows: Iterable[Sequence[Element | str]], texts: Sequence[int] = (0,), **attributes: str
) -> Element:
    """Return a table in a box that can be scrolled where the table is wider than the screen, without empty columns.

    :param texts: The columns without numbers; numbers are aligned to the right.
    """
    cells = list(rows)
    places = [place for place in range(len(titles)) if not place or any(row[place] != '' for row in cells)]
    classes = {place: None if place in texts else 'number' for place in places}
    head = element('tr', *(element('th', titles[place], scope='col', class_=classes[place]) for place in places))
    body = element('tbody')
    for row in cells:
        line = SubElement(body, 'tr')
        for place in places:
            scope = {} if place else {'scope': 'row'}
            line.append(element('td' if place else 'th', row[place], class_=classes[place], **scope))
    return element('div', element('table', element('thead', head), body, **attributes), class_='wide')


def definitions(class_: str, entries: Iterable[tuple[str, ...]]) -> Element:
    """Return a list of titles, each with its text and maybe a note."""
    parts = [
        element('div', element('dt', title), element('dd', text), *(element('p', note) for note in notes if note))
        for title, text, *notes in entries
    ]
    return element('dl', *parts, class_=class_)


def folded(title: str, *children: Element | str | None) -> Element:
    """Return elements that are shown when their title is pressed."""
    return element('details', element('summary', title), *children)


def level(name: str, depth: int) -> Element:
    """Return the name of a region that is so deep within others."""
    return element('span', name, class_=f'level level-{min(depth, _DEEPEST_LEVEL)}')


def bar(begin: float, end: float, said: str, class_: str | None = None) -> Element:
    """Return a bar from ``begin`` to ``end``, which are shares of the whole time."""
    left = min(max(_LINES * begin, 0.0), _LINES - 2.0)
    width = min(max(_LINES * (end - begin), 2.0), _LINES - left)
    drawn = element('rect', x=f'{left:.1f}', y='0', width=f'{width:.1f}', height='10', class_=class_)
    return element('svg', drawn, viewBox=f'0 0 {_LINES} 10', preserveAspectRatio='none', role='img', aria_label=said)


def text_of(root: Element) -> str:
    """Return an element as HTML."""
    return tostring(root, encoding='unicode', method='html')


def _name(key: str) -> str:
    return key.removesuffix('_').replace('_', '-')
