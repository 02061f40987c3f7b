"""What RAM and CPU figures do not show: time that a quota refused, memory in swap, and files in memory (tmpfs)."""

from __future__ import annotations

import os

from gpu_tracker.control_groups.allowed import tightest_quota
from gpu_tracker.control_groups.places import folders_up, group_with, read_text, text_in, unified_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.control_groups.places import Group, Mount

_IN_SECONDS = {'throttled_usec': 1e-6, 'throttled_time': 1e-9}
"""The counters of version 2 and 1 in cpu.stat."""
_KIBIBYTE = 1024


class Pressure:
    """The counters of the groups of a process, and of the machine, since this was made.

    :ivar throttled_seconds: For how long the tightest CPU quota stopped the processes of its group, summed over cores.
        None: there is no quota, or it is not known.
    :ivar group_swap: The most bytes in swap that the group of the process had beyond those at the start (version 2).
    :ivar shmem_growth: The most bytes of tmpfs and shared memory that the machine had beyond those at the start. Files
        there count against limits of memory, and belong to no process.
    :ivar swapped_out: Bytes that the machine moved to swap, of any process; None before the end.

    :param groups: The groups of the process.
    :param mounted: Where groups are visible.
    :param proc: The folder of /proc.
    """

    def __init__(self, groups: Sequence[Group], mounted: Sequence[Mount], proc: str = '/proc') -> None:
        self._quota_folder = tightest_quota(groups, mounted)[1]
        unified = unified_group(groups) if group_with(groups, 'memory') is None else None
        folders = [] if unified is None else folders_up(unified, mounted)
        self._swap_folder = next((one for one in folders if os.path.exists(f'{one}/memory.swap.current')), None)
        self._proc = proc
        self._first_throttled = self._throttled()
        self._first_swap = self._swap()
        self._first_shmem = self._shmem()
        self._first_swapped_out = self._swapped_out()
        self.throttled_seconds: float | None = None if self._first_throttled is None else 0.0
        self.group_swap: int | None = None if self._first_swap is None else 0
        self.shmem_growth: int | None = None if self._first_shmem is None else 0
        self.swapped_out: int | None = None

    def read(self, *, is_last: bool) -> None:
        """Read the counters of the groups; the last reading stands if a group was removed.

        :param is_last: Read those of the machine too, which takes longer.
        """
        throttled, swap, shmem = self._throttled(), self._swap(), self._shmem()
        if throttled is not None and self._first_throttled is not None:
            self.throttled_seconds = max(0.0, throttled - self._first_throttled)
        if swap is not None and self._first_swap is not None and self.group_swap is not None:
            self.group_swap = max(self.group_swap, swap - self._first_swap)
        if shmem is not None and self._first_shmem is not None and self.shmem_growth is not None:
            self.shmem_growth = max(self.shmem_growth, shmem - self._first_shmem)
        swapped_out = self._swapped_out() if is_last else None
        if swapped_out is not None and self._first_swapped_out is not None:
            self.swapped_out = swapped_out - self._first_swapped_out

    def _throttled(self) -> float | None:
        text = None if self._quota_folder is None else text_in(self._quota_folder, 'cpu.stat')
        for line in (text or '').splitlines():
            name, _, number = line.partition(' ')
            if name in _IN_SECONDS and number.isdecimal():
                return int(number) * _IN_SECONDS[name]
        return None

    def _swap(self) -> int | None:
        text = None if self._swap_folder is None else text_in(self._swap_folder, 'memory.swap.current')
        return None if text is None or not text.strip().isdecimal() else int(text)

    def _shmem(self) -> int | None:
        kibibytes = self._counter('meminfo', 'Shmem:')
        return None if kibibytes is None else kibibytes * _KIBIBYTE

    def _swapped_out(self) -> int | None:
        pages = self._counter('vmstat', 'pswpout')
        return None if pages is None else pages * os.sysconf('SC_PAGE_SIZE')

    def _counter(self, file: str, name: str) -> int | None:
        """Return a number of a file of /proc that has one in each line."""
        try:
            text = read_text(f'{self._proc}/{file}')
        except OSError:
            return None  # it is hidden
        for line in text.splitlines():
            if line.startswith(name):
                words = line.split()
                return int(words[1]) if len(words) > 1 and words[1].isdecimal() else None
        return None
