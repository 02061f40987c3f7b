"""A control group of version 2 for each program, where this process may make one: no process leaves it unseen.

A process that gets another session, another parent and another environment stays in its group, and ``cgroup.kill`` ends
all of one at once (Linux 5.14): cgroups(7), kernel documentation, cgroup-v2. Root may make groups, and so may others
below the one that is delegated to them, as systemd does with ``Delegate=yes``. Where none can be made, nothing is lost
but that certainty.
"""

from __future__ import annotations

import os
import re

from gpu_tracker.control_groups import making
from gpu_tracker.control_groups.places import Group, folder_of, groups_of, mounts, unified_group

_PREFIX = 'gpu-tracker-idle-'
_LONGEST_END = 0.2
"""Seconds to wait for processes that were killed: the monitor has other programs as well."""
_MARKED = re.compile(rf'/{_PREFIX}((\d+)-(\d+)-[0-9a-f]{{16}})\.\d+(?:/|$)')


class ProgramGroup:
    """The group of one program.

    :param folder: Its folder, in the mounted hierarchy.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def kill(self) -> None:
        """Send SIGKILL to all that is in it, and to what is forked meanwhile."""
        making.kill(self.folder)

    def remove(self) -> None:
        """Remove it once nothing is left in it, with what the program has made below; wait for a moment at most."""
        making.remove(self.folder, _LONGEST_END)


def make_group(mark: str, pid: int, proc: str = '/proc') -> ProgramGroup | None:
    """Put a process into a new group below this process' own; None where that is not possible.

    :param mark: Of the monitor: see :func:`gpu_tracker.idle.running.program_orphans.mark`.
    """
    own = _folder(_path_of('self', proc), proc)
    if own is None:
        return None
    group = ProgramGroup(f'{own}/{_PREFIX}{mark}.{pid}')
    try:
        os.mkdir(group.folder)
    except OSError:
        return None
    try:
        if making.can_be_killed(group.folder):
            making.enter(group.folder, pid)
            return group
    except OSError:
        pass  # it may be permitted to make a group and not to fill it
    group.remove()
    return None


def mark_by_group(pid: int, proc: str = '/proc') -> tuple[int, int] | None:
    """Return the pid of the monitor in whose program's group a process is, and what numbers it; None: in none."""
    found = _MARKED.search(_path_of(str(pid), proc) or '')
    return None if found is None else (int(found[2]), int(found[3]))


def group_of(pid: int, proc: str = '/proc') -> ProgramGroup | None:
    """Return the group of the program that a process belongs to; None where it is in none, or that is not mounted."""
    path = _path_of(str(pid), proc) or ''
    found = _MARKED.search(path)
    folder = None if found is None else _folder(path[: found.end()].rstrip('/'), proc)
    return None if folder is None else ProgramGroup(folder)


def empty_groups(proc: str = '/proc') -> list[tuple[str, ProgramGroup]]:
    """Return the groups below this process' own in which nothing is left, each with the mark of its monitor."""
    own = _folder(_path_of('self', proc), proc)
    found = []
    try:
        names = [] if own is None else os.listdir(own)
    except OSError:
        names = []
    for name in names:
        marked = _MARKED.fullmatch(f'/{name}')
        if marked is not None and making.is_empty(f'{own}/{name}'):
            found.append((marked[1], ProgramGroup(f'{own}/{name}')))
    return found


def _path_of(pid: str, proc: str) -> str | None:
    """Return the path of a process' group of version 2, from the root that this process sees."""
    try:
        group = unified_group(groups_of(pid, proc))
    except OSError:
        return None
    return None if group is None or group.is_removed else group.path


def _folder(path: str | None, proc: str) -> str | None:
    """Return the folder of a group of version 2 where its hierarchy is mounted."""
    if path is None:
        return None
    try:
        return folder_of(Group((), path), mounts(proc))
    except OSError:
        return None
