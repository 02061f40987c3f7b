"""What regions know of the process they run in: its ID, its counter of regions, its sums, and its high-water mark."""

from __future__ import annotations

import atexit
import itertools
import sys

from gpu_tracker.real import os, time
from gpu_tracker.regions import log
from gpu_tracker.regions.sums import Sums

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

if sys.platform != 'win32':
    from resource import RUSAGE_SELF, getrusage
else:
    RUSAGE_SELF = 0

    def getrusage(who: int) -> tuple[int, int, int]:
        """Stand in for what Windows has not: no mark is known."""
        del who
        return 0, 0, 0


_PROCESS_BITS = 41
_MAXRSS = 2  # its position in what getrusage(2) returns, which is read faster than its name
_INACCURACY = 1024
"""KiB by which the kernel's two figures of one mark may differ: it counts pages in batches for each CPU."""
_PER_KIB = 1024 if sys.platform == 'darwin' else 1


class Process:
    """One process; a forked one is another, which has no sums and counts anew."""

    __slots__ = ('_inherited', '_ready', 'next_id', 'outer', 'pid', 'sums')

    def __init__(self, outer: int | None) -> None:
        self.pid = os.getpid()
        first = self.pid << _PROCESS_BITS | (time.monotonic_ns() // 1000) % (1 << _PROCESS_BITS)
        self.next_id: Callable[[], int] = itertools.count(first).__next__
        self.outer = outer
        """The region in which the program was started."""
        self.sums = Sums(self.pid, self.next_id, write_finally)
        self._ready = False
        self._inherited = 0
        """KiB that an exec has left as the mark of the program before; 0 where the mark is that of this program."""

    def peak(self) -> int | str:
        """Return the high-water mark of this process' RSS in KiB, ``-`` where it is unknown.

        getrusage(2) is the fastest way to it, but what it returns survives an exec.
        """
        mark = int(getrusage(RUSAGE_SELF)[_MAXRSS]) // _PER_KIB
        if not mark:
            return '-'
        if self._ready and mark > self._inherited:
            self._inherited = 0
            return mark
        if sys.platform == 'linux':
            own = _own_mark()
            if own is None:
                return '-'
            if not self._ready:
                self._inherited = mark if mark > own + _INACCURACY else 0
                self._ready = True
            if self._inherited:
                return own
        self._ready = True
        return mark


def _own_mark() -> int | None:
    """Return VmHWM of this process in KiB, proc_pid_status(5)."""
    try:
        handle = os.open('/proc/self/status', os.O_RDONLY | getattr(os, 'O_CLOEXEC', 0))
        try:
            status = os.read(handle, 1 << 16)  # many groups of a user come before it
        finally:
            os.close(handle)
        return int(status.partition(b'\nVmHWM:')[2].split(None, 1)[0])
    except (OSError, ValueError, IndexError) as failure:  # no /proc, or no descriptor left
        if log.is_from_outside(failure):
            raise
        return None


current: Process | None = None
"""This process, once its first region has begun."""

of_process_id: dict[int, Process] = {}
"""The same by its ID: threads that begin their first regions at the same time get one and the same."""


def begin() -> Process:
    """Return this process, at its first region."""
    global current  # noqa: PLW0603 - the one state of a process
    if current is None:
        current = of_process_id.setdefault(os.getpid(), Process(log.outer_region()))
        if write_finally not in log.before_change:
            log.before_change.append(write_finally)
            atexit.register(write_finally)
            if sys.platform != 'win32':
                os.register_at_fork(after_in_child=_forked)
    return current


def write_sums() -> None:
    """Write what has been added up so far, such as before an ``os._exit``."""
    if current is not None:
        current.sums.write(time.monotonic_ns())


def write_finally() -> None:
    """Write what has been added up, because nothing may be written after this."""
    if current is not None:
        current.sums.write_finally(time.monotonic_ns())


def _forked() -> None:
    """Begin anew in a forked process: what waits to be written is its parent's."""
    global current  # noqa: PLW0603 - as above
    if current is not None:
        current = Process(current.outer)
