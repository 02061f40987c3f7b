"""Whether processes outside a container use the same claims as those in it.

In a container, a PID namespace of its own, processes have other IDs than outside. Outside nobody can tell whether the
process of such a claim still runs, so such a claim has to end by its time.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpu_tracker.sources.gpu_attribution import in_initial_pid_namespace

if TYPE_CHECKING:
    from collections.abc import Callable

_ROOT, _MOUNT_POINT = 3, 4
_ESCAPES = (('\\040', ' '), ('\\011', '\t'), ('\\012', '\n'), ('\\134', '\\'))
"""How the kernel writes what would not stand on a line as one word; the backslash last."""


def is_shared(
    path: str,
    *,
    has_machines_ids: Callable[[], bool] = in_initial_pid_namespace,
    mounts: str = '/proc/self/mountinfo',
) -> bool:
    """Tell whether a folder, which need not be there yet, is used from other PID namespaces than that of this process.

    That is taken to be so where this process is in a container and the folder was mounted into it from elsewhere. What
    a container has for itself is its root and whole file systems, such as a tmpfs. (One that is the machine's, and
    mounted as a whole somewhere above the folder, looks the same, so it is overlooked.)

    :param has_machines_ids: Tells whether process IDs are the machine's own here.
    :param mounts: The file that lists the mounts of this process, proc_pid_mountinfo(5).
    """
    if has_machines_ids():
        return False
    path = os.path.realpath(path)
    return os.path.ismount(path) or _is_bound(path, mounts)


def _is_bound(path: str, mounts: str) -> bool:
    """Tell whether the mount that the path lies on shows a folder of a file system, not the whole of it."""
    try:
        with open(mounts, encoding='utf-8', errors='surrogateescape') as file:
            lines = [line.split(' ') for line in file]
    except OSError:
        return False
    point, root = '/', '/'
    for words in lines:
        if len(words) > _MOUNT_POINT:
            candidate = _plain(words[_MOUNT_POINT])
            # Of several at the same point the last one covers the others.
            if len(candidate) >= len(point) and _lies_in(path, candidate):
                point, root = candidate, words[_ROOT]
    # The root of a container is its own even where it is a folder of the machine's.
    return point != '/' and root != '/'


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip('/') + '/')


def _plain(text: str) -> str:
    for escape, character in _ESCAPES:
        text = text.replace(escape, character)
    return text
