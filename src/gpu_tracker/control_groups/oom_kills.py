"""How many processes of a control group the kernel has killed for lack of memory, and what is said of it.

Version 2 counts those of the group and of all groups below it (``memory.events``), version 1 those of each group by
itself (``memory.oom_control``), and so does version 2 where it is mounted with ``memory_localevents``: kernel
documentation, admin-guide/cgroup-v2 and cgroup-v1/memory. Whose limit it was, that of the group, of one around it or of
the machine, does not matter to either. The counters say how many, and not which.
"""

from __future__ import annotations

import os

from gpu_tracker.control_groups import marks
from gpu_tracker.control_groups.places import folders_up, group_with, mounts, text_in, unified_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.control_groups.places import Group, Mount

OF_VERSION_1, OF_VERSION_2 = 'memory.oom_control', 'memory.events'
"""The files that have the counter."""

_COUNTER = 'oom_kill '
_MOST_BYTES = 4096
_LINKS_OF_LEAF = 2
_PAGES_AT_ONCE = 64
"""How many pages the kernel counts ahead: a group of version 1 may be full that much below its limit."""
_ONE = '1 process of this control group was killed for lack of memory.'
_MORE = '{} processes of this control group were killed for lack of memory.'


class KillCounter:
    """The kills in a group and in those below it, since they were made.

    Where each group counts by itself, the counters are added up; those of groups that were removed count as they were
    last read. The group's own file stays open: another group of its name, of which this would count nothing, can be
    made when it was removed.

    :param folder: That of the group.
    :param name: :data:`OF_VERSION_1` or :data:`OF_VERSION_2`.
    :param is_alone: The counters of the groups below are not added: its own has these kills already, or they are of
        strangers.
    :raises OSError: There is no such file.
    """

    def __init__(self, folder: str, name: str, *, is_alone: bool) -> None:
        self.folder = folder
        self._name = name
        self._is_alone = is_alone
        self._own: int | None = None
        self._below: dict[int, tuple[int, bool]] = {}
        self._handle: int | None = os.open(f'{folder}/{name}', os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> int | None:
        """Return how many there were; None where the kernel does not count them."""
        found = self._read_own()
        if found is not None:
            self._own = max(self._own or 0, found)
        if self._own is None:
            return None
        if not self._is_alone:
            self._read_below(self.folder, ())
        return self._own + sum(kills for kills, _ in self._below.values())

    @property
    def unexplained(self) -> int:
        """How many of the last reading no limit of a group below explains (version 1)."""
        return (self._own or 0) + sum(kills for kills, is_limited in self._below.values() if not is_limited)

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _read_own(self) -> int | None:
        if self._handle is None:
            return None
        try:
            return _kills_in(os.pread(self._handle, _MOST_BYTES, 0).decode('ascii', 'replace'))
        except OSError:
            return None  # ENODEV: the group was removed

    def _read_below(self, folder: str, between: tuple[str, ...]) -> None:
        """Read the counters of the groups below one.

        :param between: The folders from the one below that of this counter to this one.
        """
        try:
            if os.stat(folder).st_nlink == _LINKS_OF_LEAF:
                return
            with os.scandir(folder) as entries:
                below = [(entry.inode(), entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return  # it has been removed
        for number, path in below:
            kills = _kills_in(text_in(path, self._name))
            if kills:
                self._below[number] = kills, any(map(has_reached_limit, (*between, path)))
            self._read_below(path, (*between, path))


class OOMKills:
    """Counts what was killed in the group of a process since this was made.

    In version 2 that is with the groups below it, in version 1 only where the group is that of a run alone.

    :param groups: Those of the process.
    :param mounted: Where groups are visible.
    :ivar folder: That of the group; None: it is not known which it is.
    """

    def __init__(self, groups: Sequence[Group], mounted: Sequence[Mount]) -> None:
        self._counter: KillCounter | None = None
        of_version_1, unified = group_with(groups, 'memory'), unified_group(groups)
        if of_version_1 is not None:
            # Below any other group of version 1 may be those of strangers, down to all of the machine.
            folders = folders_up(of_version_1, mounted)[:1]
            self._open(folders, OF_VERSION_1, is_alone=not any(map(marks.is_of_run, folders)))
        elif unified is not None:  # where it has no such controller, its memory is that of the next group around it
            self._open(folders_up(unified, mounted), OF_VERSION_2, is_alone=sees_below(mounted))
        self.folder: str | None = None if self._counter is None else self._counter.folder
        self._first: int | None = None if self._counter is None else self._counter.read()
        self._last: int | None = self._first

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
        if self._counter is not None:
            self._last = self._counter.read()

    def close(self) -> None:
        """Close the file."""
        if self._counter is not None:
            self._counter.close()

    def _open(self, folders: Sequence[str], name: str, *, is_alone: bool) -> None:
        """Open the first of the files of that name.

        :param is_alone: The counters of the groups below are not added to its own.
        """
        for folder in folders:
            try:
                self._counter = KillCounter(folder, name, is_alone=is_alone)
            except FileNotFoundError:
                continue
            except OSError:
                pass
            return


def counter_of(unified: str | None, legacy: str | None) -> KillCounter | None:
    """Return the counter of a group; None where its memory is counted nowhere, or its kills are not.

    :param unified: The folder of the group of version 2, if that counts memory.
    :param legacy: That of version 1, if that counts memory.
    """
    try:
        if unified is not None:
            return KillCounter(unified, OF_VERSION_2, is_alone=sees_below(mounts()))
        return None if legacy is None else KillCounter(legacy, OF_VERSION_1, is_alone=False)
    except OSError:
        return None


def sees_below(mounted: Sequence[Mount]) -> bool:
    """Return whether the counters of version 2 have the kills in groups below."""
    return not any(mount.kind == 'cgroup2' and 'memory_localevents' in mount.options for mount in mounted)


def has_reached_limit(folder: str) -> bool | None:
    """Return whether a group of version 1 has ever been as large as its limit; None where that is not known.

    ``memory.failcnt`` stays 0 in newer kernels.
    """
    peak, limit = (text_in(folder, f'memory.{name}_in_bytes') for name in ('max_usage', 'limit'))
    if peak is None or limit is None or not (peak.strip().isdecimal() and limit.strip().isdecimal()):
        return None
    return int(peak) >= int(limit) - _PAGES_AT_ONCE * os.sysconf('SC_PAGE_SIZE')


def sentence(count: int) -> str:
    """Return what is said of processes that were killed: not that they were those that are tracked."""
    return _ONE if count == 1 else _MORE.format(count)


def _kills_in(text: str | None) -> int | None:
    """Return the number in a file that has the counter; None where it has none, as before Linux 4.13."""
    for line in (text or '').splitlines():
        number = line.removeprefix(_COUNTER)
        if number != line and number.isdecimal():
            return int(number)
    return None
