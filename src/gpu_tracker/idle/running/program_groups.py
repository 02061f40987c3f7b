"""A control group of version 2 for each program, where this process may make one: no process leaves it unseen.

A process that gets another session, another parent and another environment stays in its group, and ``cgroup.kill`` ends
all of one at once (Linux 5.14): cgroups(7), kernel documentation, cgroup-v2. Root may make groups, and so may others
below the one that is delegated to them, as systemd does with ``Delegate=yes``. Where none can be made, nothing is lost
but that certainty.
"""

from __future__ import annotations

import os
import re
import time

from gpu_tracker.control_groups.places import Group, folder_of, groups_of, mounts, unified_group

_PREFIX = 'gpu-tracker-idle-'
_MARKED = re.compile(rf'/{_PREFIX}((\d+)-(\d+)-[0-9a-f]{{16}})\.\d+(?:/|$)')
_PAUSE = 0.01
_MOST_PAUSES = 20


class ProgramGroup:
    """The group of one program.

    :param folder: Its folder, in the mounted hierarchy.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def kill(self) -> None:
        """Send SIGKILL to all that is in it, and to what is forked meanwhile."""
        _write(f'{self.folder}/cgroup.kill', '1')

    def remove(self) -> None:
        """Remove it once nothing is left in it, with what the program has made below; wait for a moment at most."""
        for _ in range(_MOST_PAUSES):
            for folder, _, _ in os.walk(self.folder, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    pass  # a process in it has not quite ended yet
            if not os.path.exists(self.folder):
                return
            time.sleep(_PAUSE)


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
    if os.path.exists(f'{group.folder}/cgroup.kill') and _write(f'{group.folder}/cgroup.procs', str(pid)):
        return group
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
        if marked is not None and not _is_populated(f'{own}/{name}'):
            found.append((marked[1], ProgramGroup(f'{own}/{name}')))
    return found


def _is_populated(folder: str) -> bool:
    try:
        with open(f'{folder}/cgroup.events', encoding='utf-8') as file:
            return 'populated 0\n' not in file.readlines()
    except OSError:
        return True


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


def _write(path: str, text: str) -> bool:
    try:
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
    except OSError:
        return False
    return True
