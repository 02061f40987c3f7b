"""Elements of a page. All texts and attributes are escaped when they are written: many come from strangers."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, tostring

from gpu_tracker.system.terminal_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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
    titles: Sequence[str], rows: Iterable[Sequence[Element | str]], *, numbers: Sequence[bool], **attributes: str
) -> Element:
    """Return a table in a box that can be scrolled where the table is wider than the screen.

    :param numbers: Which columns hold numbers, and are aligned to the right.
    """
    classes = ['number' if is_number else None for is_number in numbers]
    head = element(
        'tr', *(element('th', title, scope='col', class_=of) for title, of in zip(titles, classes, strict=True))
    )
    body = element('tbody')
    for row in rows:
        line = SubElement(body, 'tr')
        for place, (cell, of) in enumerate(zip(row, classes, strict=True)):
            line.append(element('td' if place else 'th', cell, class_=of, **({} if place else {'scope': 'row'})))
    return element('div', element('table', element('thead', head), body, **attributes), class_='wide')


def text_of(root: Element) -> str:
    """Return an element as HTML."""
    return tostring(root, encoding='unicode', method='html')


def _name(key: str) -> str:
    return key.removesuffix('_').replace('_', '-')
