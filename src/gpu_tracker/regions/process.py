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
_LONGEST_WAIT = 1.0
"""Seconds that writing the sums waits for a thread that writes them."""


class Process:
    """One process; a forked one is another, which has no sums and counts anew.

    :param outer: The region in which the program was started.
    :param inherited: KiB of the high-water mark that an exec has left from the program before.
    """

    __slots__ = ('_inherited', 'next_id', 'outer', 'pid', 'sums')

    def __init__(self, outer: int | None, inherited: int = 0) -> None:
        self.pid = os.getpid()
        first = self.pid << _PROCESS_BITS | (time.monotonic_ns() // 1000) % (1 << _PROCESS_BITS)
        self.next_id: Callable[[], int] = itertools.count(first).__next__
        self.outer = outer
        self.sums = Sums(self.pid, self.next_id, write_sums)
        self._inherited = inherited

    def peak(self) -> int | str:
        """Return the high-water mark of this process' RSS in KiB, ``-`` if it is unknown."""
        mark = _kept_mark()
        return mark if mark > self._inherited else _own_mark() or '-'


def _kept_mark() -> int:
    """Return the high-water mark of getrusage(2), which is read fastest but survives an exec; 0 if it is unknown."""
    return int(getrusage(RUSAGE_SELF)[_MAXRSS]) // _PER_KIB


def _own_mark() -> int:
    """Return VmHWM of this process in KiB, proc_pid_status(5); 0 if it is unknown."""
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
        return 0


def _inherited_mark() -> int:
    """Return the kept mark if an exec has left it, else 0."""
    if sys.platform != 'linux':
        return 0
    mark = _kept_mark()
    return mark if mark > _own_mark() + _INACCURACY else 0


def write_sums() -> None:
    """Write what has been added up so far, such as before an ``os._exit``."""
    current.sums.write(time.monotonic_ns(), wait=_LONGEST_WAIT)


def _forked() -> None:
    """Begin anew in a forked process: what waits to be written is its parent's."""
    global current  # noqa: PLW0603 - the one state of a process
    current = Process(current.outer)


current = Process(log.outer_region(), _inherited_mark())
"""This process."""
log.before_change = write_sums
atexit.register(write_sums)
if sys.platform != 'win32':
    os.register_at_fork(after_in_child=_forked)
