"""What the kernel reports of orphans when they are reaped, see wait4(2)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.totals import UseWithFaults


class OrphansUse:
    """What the orphans of a command have used, and the children that they have reaped.

    :ivar cpu_seconds: CPU time of all of them.
    :ivar faults: Page faults of all of them.
    :ivar max_rss: The largest ``ru_maxrss`` of one of these processes: KiB on Linux.
    """

    __slots__ = ('cpu_seconds', 'faults', 'max_rss')

    def __init__(self, cpu_seconds: float = 0.0, faults: int = 0, max_rss: int = 0) -> None:
        self.cpu_seconds = cpu_seconds
        self.faults = faults
        self.max_rss = max_rss

    def plus(self, usage: UseWithFaults) -> OrphansUse:
        """Return the same with another orphan."""
        return OrphansUse(
            self.cpu_seconds + usage.ru_utime + usage.ru_stime,
            self.faults + usage.ru_minflt + usage.ru_majflt,
            max(self.max_rss, usage.ru_maxrss),
        )
