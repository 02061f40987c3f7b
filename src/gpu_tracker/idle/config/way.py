"""The way that the kernel goes to a file: through folders and symbolic links."""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

_MOST_LINKS = 40
"""As in the kernel: MAXSYMLINKS of its include/linux/namei.h."""


class Way(NamedTuple):
    """How a file is reached."""

    folders: tuple[str, ...]
    """Those in which something is looked up, each once, in their order and without links."""
    end: str
    """The file itself, without links; it need not be there."""


def way_to(path: str) -> Way:
    """Return the way to a file, whose path has to be absolute.

    :raises OSError: if there are more than 40 symbolic links on it.
    """
    folders: dict[str, None] = {}
    here, links = '/', 0
    ahead = _reversed_names(path)
    while ahead:
        name = ahead.pop()
        folders[here] = None
        if name == '..':
            here = os.path.dirname(here)
            continue
        entry = os.path.join(here, name)
        try:
            target = os.readlink(entry)
        except OSError:
            here = entry  # no link, or nothing at all
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if target.startswith('/'):
            here = '/'
        ahead += _reversed_names(target)
    return Way(tuple(folders), here)


def _reversed_names(path: str) -> list[str]:
    return [name for name in reversed(path.split('/')) if name not in {'', '.'}]
