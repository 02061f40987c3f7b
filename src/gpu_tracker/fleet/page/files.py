"""The files of which the page consists, as they are sent."""

from __future__ import annotations

import hashlib
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

_TYPES = {
    'html': 'text/html; charset=utf-8',
    'css': 'text/css; charset=utf-8',
    'js': 'text/javascript; charset=utf-8',
    'svg': 'image/svg+xml',
}
"""By the ending; whatever has another one, such as a licence, is plain text."""
_INDEX = 'index.html'
_START = 'main.js'


class PageFile(NamedTuple):
    """A file, ready to be sent."""

    body: bytes
    media_type: str
    etag: str


def page_files() -> dict[str, PageFile]:
    """Read the files below ``static/``, by their names there; there is no other way to a file of this machine."""
    folder = resources.files(__package__) / 'static'
    return {name: _page_file(name, file.read_bytes()) for name, file in _below(folder, '')}


def index(files: dict[str, PageFile], title: str) -> PageFile:
    """Return the page itself.

    It names all modules, so that the browser fetches them at once rather than one after the other.
    """
    modules = sorted(name for name in files if name.endswith('.js') and '/' not in name and name != _START)
    preloads = '\n'.join(f'<link rel="modulepreload" href="static/{name}">' for name in modules)
    text = files[_INDEX].body.decode().replace('{preloads}', preloads).replace('{title}', escape(title))
    return _page_file(_INDEX, text.encode(errors='replace'))


def _page_file(name: str, body: bytes) -> PageFile:
    media_type = _TYPES.get(name.rpartition('.')[2], 'text/plain; charset=utf-8')
    return PageFile(body, media_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def _below(folder: Traversable, parents: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _below(entry, f'{parents}{entry.name}/')
        else:
            yield parents + entry.name, entry
