"""What the control groups of a process allow: RAM and cores, by the tightest limit of its groups and of those around.

Limits are those of this moment; who changes them later is not noticed. In a container the groups around its own are not
visible: version 1 says of memory what they allow all the same, version 2 does not.
"""

from __future__ import annotations

import os

from gpu_tracker.control_groups.places import folders_up, group_with, groups_of, mounts, read_text, unified_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpu_tracker.control_groups.places import Group, Mount

NO_LIMIT = float('inf')
_MOST_BYTES = 1 << 60
"""Version 1 has a number of bytes also where there is no limit: the largest one that pages can make."""
_HIERARCHICAL = 'hierarchical_memory_limit '


class Limits:
    """What a process may use. None is unknown, and infinite what nothing limits.

    :ivar memory: Bytes of RAM of all processes of the group together.
    :ivar quota: Cores for all processes of the group together, as a time of so many cores in each period.
    :ivar affinity: Cores on which the process may run: what its cpuset leaves, and itself or who has started it.
    """

    __slots__ = ('affinity', 'memory', 'quota')

    def __init__(self, memory: float | None, quota: float | None, affinity: int | None) -> None:
        self.memory = memory
        self.quota = quota
        self.affinity = affinity

    @property
    def cores(self) -> float | None:
        """The smaller of quota and affinity, as far as they are known."""
        known = [float(cores) for cores in (self.quota, self.affinity) if cores is not None]
        return min(known, default=None)

    def within(self, capacity: int | None, cores: int | None) -> Limits:
        """Return the same for a machine that has no more than this.

        :param capacity: Its bytes of RAM; None: unknown.
        :param cores: Its cores.
        """
        return Limits(
            _at_most(self.memory, capacity),
            _at_most(self.quota, None if cores is None else float(cores)),
            self.affinity,
        )


def limits_of(pid: int, proc: str = '/proc') -> Limits:
    """Return what a process may use.

    :param pid: The process; its affinity is that of its main thread.
    :param proc: Where processes are described.
    """
    try:
        return limits_in(groups_of(pid, proc), mounts(proc), affinity_of(pid))
    except OSError:
        return Limits(None, None, affinity_of(pid))


def limits_in(groups: Sequence[Group], mounted: Sequence[Mount], affinity: int | None) -> Limits:
    """Return what a process may use that is in these groups."""
    return Limits(memory_limit(groups, mounted), cpu_quota(groups, mounted), affinity)


def affinity_of(pid: int) -> int | None:
    """Return the cores on which a process may run; None where that is not known, as on other systems than Linux."""
    if not hasattr(os, 'sched_getaffinity'):
        return None
    try:
        return len(os.sched_getaffinity(pid))
    except OSError:
        return None  # it has ended


def expected_cores(pid: int, proc: str = '/proc') -> int | None:
    """Return how many cores a process can keep busy, a part of one counted as one; None where nothing limits that.

    :param pid: The process.
    :param proc: Where processes are described.
    """
    cores = limits_of(pid, proc).cores
    return None if cores is None or cores == NO_LIMIT else max(1, int(-(-cores // 1)))


def memory_limit(groups: Sequence[Group], mounted: Sequence[Mount]) -> float | None:
    """Return the bytes that the tightest limit of memory leaves."""
    of_version_1 = group_with(groups, 'memory')
    try:
        folders = _folders(of_version_1 or unified_group(groups), mounted)
        if of_version_1 is None:
            return min((_bytes_of(text) for text in _contents(folders, 'memory.max')), default=NO_LIMIT)
        for line in next(_contents(folders[:1], 'memory.stat'), '').splitlines():
            if line.startswith(_HIERARCHICAL):  # of all groups around, where these limit it
                return _bytes_of(line.removeprefix(_HIERARCHICAL))
        return min((_bytes_of(text) for text in _contents(folders, 'memory.limit_in_bytes')), default=NO_LIMIT)
    except (OSError, ValueError, ArithmeticError):  # the latter where something stands in for a kernel
        return None


def cpu_quota(groups: Sequence[Group], mounted: Sequence[Mount]) -> float | None:
    """Return the cores that the tightest quota of CPU time leaves."""
    return tightest_quota(groups, mounted)[0]


def tightest_quota(groups: Sequence[Group], mounted: Sequence[Mount]) -> tuple[float | None, str | None]:
    """Return the cores that the tightest quota of CPU time leaves, and the folder of its group; None: there is none."""
    of_version_1 = group_with(groups, 'cpu')
    names = ('cpu.max',) if of_version_1 is None else ('cpu.cfs_quota_us', 'cpu.cfs_period_us')
    tightest: tuple[float, str | None] = (NO_LIMIT, None)
    try:
        for folder in _folders(of_version_1 or unified_group(groups), mounted):
            words = ' '.join(text for name in names for text in _contents([folder], name)).split()
            cores = _cores_of(*words) if words else NO_LIMIT
            tightest = (cores, folder) if cores < tightest[0] else tightest
    except (OSError, TypeError, ValueError, ArithmeticError):  # the latter where something stands in for a kernel
        return None, None
    return tightest


def _folders(group: Group | None, mounted: Sequence[Mount]) -> list[str]:
    """Return the folders that have a process' limits; none where no group has a controller for them.

    :raises FileNotFoundError: They are not visible from here.
    """
    if group is None:
        return []
    folders = folders_up(group, mounted)
    if not folders or not os.path.isdir(folders[0]):
        raise FileNotFoundError(group.path)
    return folders


def _contents(folders: Iterable[str], name: str) -> Iterator[str]:
    """Yield the contents of the files of a name, for those groups that have one.

    :raises OSError: One is there, and cannot be read.
    """
    for folder in folders:
        try:
            yield read_text(f'{folder}/{name}').strip()
        except FileNotFoundError:
            continue  # the root of version 2 has none, nor has a group for which the controller is not switched on


def _bytes_of(text: str) -> float:
    limit = NO_LIMIT if text == 'max' else int(text)
    return limit if 0 <= limit < _MOST_BYTES else NO_LIMIT


def _cores_of(quota: str, period: str) -> float:
    cores = NO_LIMIT if quota == 'max' else int(quota) / int(period)
    return cores if cores > 0 else NO_LIMIT


def _at_most(limit: float | None, capacity: float | None) -> float | None:
    if limit is None or capacity is None:
        return None if limit == NO_LIMIT else limit
    return min(limit, capacity)
