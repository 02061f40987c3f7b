"""How many processes of a control group the kernel has killed for lack of memory, and what is said of it.

Version 2 counts those of the group and of all groups below it (``memory.events``), version 1 those of the group itself
(``memory.oom_control``): kernel documentation, admin-guide/cgroup-v2 and cgroup-v1/memory. Whose limit it was, that of
the group, of one around it or of the machine, does not matter to either. The counters say how many, and not which.
"""

from __future__ import annotations

import os

from gpu_tracker.control_groups.places import folders_up, group_with, unified_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.control_groups.places import Group, Mount

_COUNTER = b'oom_kill '
_MOST_BYTES = 4096
_ONE = '1 process of this control group was killed for lack of memory.'
_MORE = '{} processes of this control group were killed for lack of memory.'


class OOMKills:
    """Counts what was killed in the group of a process since this was made.

    The file stays open: a group can be removed and another one made in its place, of which this would count nothing.

    :param groups: Those of the process.
    :param mounted: Where groups are visible.
    :ivar folder: That of the group; None: it is not known which it is.
    """

    def __init__(self, groups: Sequence[Group], mounted: Sequence[Mount]) -> None:
        self.folder: str | None = None
        self._handle: int | None = None
        of_version_1, unified = group_with(groups, 'memory'), unified_group(groups)
        if of_version_1 is not None:
            self._open(folders_up(of_version_1, mounted)[:1], 'memory.oom_control')
        elif unified is not None:  # where it has no such controller, its memory is that of the next group around it
            self._open(folders_up(unified, mounted), 'memory.events')
        self._first = self._last = self._read()

    @property
    def before(self) -> int | None:
        """How many had been killed in it before; None where that is not known."""
        return self._first

    @property
    def count(self) -> int | None:
        """How many were killed up to the last reading; None where that is not known."""
        return None if self._first is None or self._last is None else self._last - self._first

    def read(self) -> None:
        """Read the counter; where the group was removed the last reading stands."""
        found = self._read()
        if found is not None and self._last is not None:
            self._last = max(self._last, found)

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _open(self, folders: Sequence[str], name: str) -> None:
        """Open the first of the files of that name."""
        for folder in folders:
            try:
                self._handle = os.open(f'{folder}/{name}', os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            except OSError:
                return
            self.folder = folder
            return

    def _read(self) -> int | None:
        if self._handle is None:
            return None
        try:
            lines = os.pread(self._handle, _MOST_BYTES, 0).split(b'\n')
            return next((int(line.removeprefix(_COUNTER)) for line in lines if line.startswith(_COUNTER)), None)
        except (OSError, ValueError):
            return None  # ENODEV: the group was removed


def sentence(count: int) -> str:
    """Return what is said of processes that were killed: not that they were those that are tracked."""
    return _ONE if count == 1 else _MORE.format(count)
