"""Whether others than root can change a file by which root runs programs."""

from __future__ import annotations

import os
import stat

from gpu_tracker.idle.config.way import way_to

_ROOT = 0
_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def place_open_to_others(path: str) -> str | None:
    """Return the file, or a folder on the way to it, that others than root may write; None: there is none.

    Whoever may write a folder can put another file in the place of one that is there, unless only owners may delete
    there, as in ``/tmp``. Access lists (acl(5)) show as rights of the group.

    :raises OSError: if something of it is gone.
    """
    way = way_to(os.path.abspath(path))
    if _others_may_write(way.end, is_folder=False):
        return way.end
    return next((folder for folder in reversed(way.folders) if _others_may_write(folder, is_folder=True)), None)


def _others_may_write(path: str, *, is_folder: bool) -> bool:
    found = os.stat(path)
    is_shared = bool(found.st_mode & _BY_OTHERS) and not (is_folder and found.st_mode & stat.S_ISVTX)
    return found.st_uid != _ROOT or is_shared
