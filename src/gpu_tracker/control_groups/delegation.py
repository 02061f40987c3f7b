"""A group of version 2 below which this process may make others, with the controllers that it can give them.

Root may make groups everywhere, and others below the group that is delegated to them, as systemd does with
``Delegate=yes``. A group that gives controllers to those below it may hold no processes itself, but for the root of the
whole hierarchy: where nobody but this process is in its group, it makes itself a group beside the new one and moves
there until the end. Processes that are not its own are never moved. cgroups(7); kernel documentation, cgroup-v2, "No
Internal Process Constraint".
"""

from __future__ import annotations

import os

from gpu_tracker.control_groups import making, marks
from gpu_tracker.control_groups.places import text_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

WANTED = ('memory', 'io', 'pids')
"""The controllers that count something. Not ``cpu``: CPU time is counted without it, and it changes the scheduling."""
_OF_THIS_PROCESS = '.tracker'
_CONTROL = 'cgroup.subtree_control'


class Delegation:
    """The group, made ready for others below it. Undo that with :meth:`close`, when these are gone.

    :param folder: That of the group.
    :param ours: The processes that may be moved out of its way, by pid.
    :raises OSError: No group can be made here.
    :ivar controllers: Those that a group below has.
    :ivar strangers: The processes of others that keep it from having more.
    """

    def __init__(self, folder: str, ours: Iterable[int]) -> None:
        self.folder = folder
        self.controllers: set[str] = set()
        self.strangers: list[int] = []
        self._leaf: str | None = None
        self._enabled: list[str] = []
        self._left_at = folder
        self.remove_abandoned()
        self._make_ready(set(ours))

    def make(self) -> str:
        """Make a group below it, and return its folder.

        :raises OSError: That is not permitted.
        """
        made = f'{self.folder}/{marks.own_name()}'
        os.mkdir(made)
        return made

    def close(self, *, keeps_processes: bool = True) -> None:
        """Put everything back as it was.

        :param keeps_processes: The processes that were moved go back; otherwise the group goes as soon as they end.
        """
        # Somebody else may have made groups here since, which would lose what they count.
        if self._enabled and not self._has_others():
            for name in self._enabled:
                _try_to_write(f'{self.folder}/{_CONTROL}', f'-{name}')
        self._enabled = []
        if self._leaf is not None:
            if keeps_processes:
                for pid in making.own_processes(self._leaf):
                    try:
                        making.enter(self.folder, pid)
                    except OSError:
                        pass  # it has ended
            making.remove(self._leaf)
            self._leaf = None

    def remove_abandoned(self) -> None:
        """Remove the groups here that trackers have left which were killed, once nothing is in these any more."""
        for name in _names(self.folder):
            folder = f'{self.folder}/{name}'
            if marks.is_abandoned(name.removesuffix(_OF_THIS_PROCESS)) and making.is_empty(folder):
                making.remove(folder, 0)

    def _make_ready(self, ours: set[int]) -> None:
        if not os.access(self.folder, os.W_OK):
            os.mkdir(f'{self.folder}/{marks.own_name()}')  # which raises what stands in the way
        available = set(_words(self.folder, 'cgroup.controllers')).intersection(WANTED)
        self.controllers = available.intersection(_words(self.folder, _CONTROL))
        missing = sorted(available - self.controllers)
        if not missing or not self._make_room(ours):
            return
        for name in missing:
            if _try_to_write(f'{self.folder}/{_CONTROL}', f'+{name}'):
                self._enabled.append(name)
        self.controllers.update(self._enabled)
        if not self._enabled:
            self.close()

    def _make_room(self, ours: set[int]) -> bool:
        """Move this process out of the group, if need be; return whether the group may give controllers then."""
        if not os.path.exists(f'{self.folder}/cgroup.type'):
            return True  # the root of the whole hierarchy
        inside = making.own_processes(self.folder)
        self.strangers = [pid for pid in inside if pid not in ours]
        if self.strangers:
            return False
        if not inside:
            return True
        leaf = f'{self.folder}/{marks.own_name()}{_OF_THIS_PROCESS}'
        os.mkdir(leaf)
        self._leaf = leaf
        try:
            for pid in inside:
                making.enter(leaf, pid)
        except OSError:
            self.close()
            return False
        return True

    def _has_others(self) -> bool:
        leaf = None if self._leaf is None else os.path.basename(self._leaf)
        return any(name != leaf for name in _names(self.folder))


def _names(folder: str) -> list[str]:
    """Return the names of the groups right below a group."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _words(folder: str, name: str) -> list[str]:
    return (text_in(folder, name) or '').split()


def _try_to_write(path: str, text: str) -> bool:
    try:
        making.write(path, text)
    except OSError:
        return False
    return True
