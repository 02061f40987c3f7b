"""What slowed a run down: CPU time that a quota refused, and memory that was moved to swap."""

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
_SWAPPED_OUT = 'pswpout'


class Pressure:
    """The counters of the groups of a process, and of the machine, since this was made.

    :ivar throttled_seconds: For how long the tightest CPU quota stopped the processes of its group, summed over cores.
        None: there is no quota, or it is not known.
    :ivar group_swap: The most bytes in swap that the group of the process had beyond those at the start (version 2).
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
        self._vmstat = f'{proc}/vmstat'
        self._first_throttled = self._throttled()
        self._first_swap = self._swap()
        self._first_swapped_out = self._swapped_out()
        self.throttled_seconds: float | None = None if self._first_throttled is None else 0.0
        self.group_swap: int | None = None if self._first_swap is None else 0
        self.swapped_out: int | None = None

    def read(self, *, is_last: bool) -> None:
        """Read the counters of the groups; the last reading stands if a group was removed.

        :param is_last: Read those of the machine too, which takes longer.
        """
        throttled, swap = self._throttled(), self._swap()
        if throttled is not None and self._first_throttled is not None:
            self.throttled_seconds = max(0.0, throttled - self._first_throttled)
        if swap is not None and self._first_swap is not None and self.group_swap is not None:
            self.group_swap = max(self.group_swap, swap - self._first_swap)
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

    def _swapped_out(self) -> int | None:
        try:
            text = read_text(self._vmstat)
        except OSError:
            return None  # it is hidden
        for line in text.splitlines():
            name, _, number = line.partition(' ')
            if name == _SWAPPED_OUT and number.isdecimal():
                return int(number) * os.sysconf('SC_PAGE_SIZE')
        return None
