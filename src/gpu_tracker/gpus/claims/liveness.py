"""What shows whether a claim still holds: clock, boot ID, PID namespace, and the process that holds it.

Processes are read from /proc itself, as psutil costs 30 ms to import.
"""

from __future__ import annotations

import binascii
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.processes import process_exists, stat
from gpu_tracker.processes.process import Process
from gpu_tracker.system.kernel import boot_id, pid_namespace

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_OF_A_STAT_FILE = 4096
_FIRST_TIME_NAMESPACE = 'time:[4026531834]'
"""That of the machine, whose number the kernel has fixed."""
_TICK = 1
"""What starts of processes are counted in."""


def start_of(pid: int, *, proc: str = '/proc') -> float | None:
    """Return when a process started, in clock ticks since the machine did.

    None if there is no such process, or if it cannot be read. It stays the same through execve(2) and in all time
    namespaces.
    """
    process = _read(pid, proc)
    return None if process is None else _start(process, proc)


def lives(pid: int, start: float | None, *, proc: str = '/proc') -> bool:
    """Return whether the process still runs and is no zombie.

    If it cannot be read, any process with its number counts: no GPU may have two owners.

    :param start: The result of :func:`start_of`; None: the number has to do.
    """
    process = _read(pid, proc)
    if process is None:
        return process_exists(pid)
    return not process.ended and (start is None or abs(start - _start(process, proc)) < _TICK)


def _read(pid: int, proc: str) -> Process | None:
    """Return the process as /proc shows it; None where there is none, or none to be seen (``hidepid``)."""
    try:
        if os.readlink(f'{proc}/self') != str(os.getpid()):
            return None  # a /proc of another PID namespace (unshare --pid): its numbers mean other processes
        descriptor = os.open(f'{proc}/{pid}/stat', os.O_RDONLY)
        try:
            line = os.read(descriptor, _MOST_OF_A_STAT_FILE)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    process = Process(pid)
    stat.update(process, line)
    return process


def _start(process: Process, proc: str) -> float:
    """Return when a process started, less than a tick beside what it is in another time namespace."""
    return process.start - clock_offset(proc) * os.sysconf('SC_CLK_TCK')


def clock_offset(proc: str = '/proc') -> float:
    """Return how many seconds a time namespace shows more than have passed since the machine started.

    See time_namespaces(7). 0 where there are no such namespaces, or where this is not known.
    """
    try:
        own = os.readlink(f'{proc}/self/ns/time')
        # The file is that of the namespace in which children start, in which this process may not be itself.
        if own == _FIRST_TIME_NAMESPACE or own != os.readlink(f'{proc}/self/ns/time_for_children'):
            return 0
        with open(f'{proc}/self/timens_offsets', encoding='utf-8') as file:
            offsets = dict(line.split(maxsplit=1) for line in file)
        seconds, nanoseconds = map(int, offsets['boottime'].split())
    except (OSError, ValueError, KeyError):
        return 0
    return seconds + nanoseconds / 1e9


class Circumstances(NamedTuple):
    """What it takes to tell whether a claim holds."""

    clock: float
    """Seconds since the machine started, on a clock that nobody sets, that runs on while it sleeps, and that all
    time namespaces have in common."""
    time: float
    """Seconds since 1970."""
    boot_id: str | None
    """Another one each time the machine starts, and in some containers; None where it cannot be known."""
    host: str
    """The machine's name."""
    machine: str
    """What distinguishes it from others of that name; empty where nothing does."""
    pid_namespace: int | None
    start_of: Callable[[int], float | None] = start_of
    lives: Callable[[int, float | None], bool] = lives

    @property
    def started(self) -> float:
        """When the machine was started, in seconds since 1970 by the clock as it now stands."""
        return max(0.0, self.time - self.clock)


def now() -> Circumstances:
    """Return what this process sees at present."""
    clock = time.clock_gettime(time.CLOCK_BOOTTIME) - clock_offset()
    return Circumstances(clock, time.time(), boot_id(), os.uname().nodename, machine(), pid_namespace())


def machine(file: str = '/etc/machine-id') -> str:
    """Return what another machine of the same name has not; empty where there is no machine-id(5).

    That page asks not to show the ID itself to others, so this is a checksum that it cannot be computed from.
    """
    try:
        with open(file, 'rb') as opened:
            known = opened.read(256).strip()
    except OSError:
        return ''
    return f'{binascii.crc32(known):08x}' if known else ''
