"""Descendants of a process: found in /proc, adopted, and sent signals, never mistaken for a stranger. Linux only."""

from __future__ import annotations

import ctypes
import os
import signal
import time

from gpu_tracker.processes import SAMPLER_MARK, SAMPLER_NAME, stat
from gpu_tracker.processes.process import Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST_STAT = 2048
_KERNEL_LISTS_CHILDREN = os.path.exists('/proc/thread-self/children')
"""It was built with CONFIG_PROC_CHILDREN."""


def read_process(pid: int) -> Process | None:
    """Return a process as it is now; None where there is none, or none that this one may see."""
    try:
        handle = os.open(f'/proc/{pid}/stat', os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        line = os.read(handle, _LONGEST_STAT)
    except ProcessLookupError:
        return None
    finally:
        os.close(handle)
    process = Process(pid)
    stat.update(process, line)
    return process


def now() -> float:
    """Return the time as that of :attr:`.Process.start`: clock ticks since the machine was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) * stat.TICKS_PER_SECOND


def all_processes() -> list[Process]:
    """Return all processes that are to be seen, as they were in the course of some milliseconds."""
    found = [read_process(int(name)) for name in os.listdir('/proc') if name.isdecimal()]
    return [process for process in found if process is not None]


def descendants(ancestors: Iterable[int], processes: Iterable[Process]) -> list[Process]:
    """Return those of ``processes`` that are below one of ``ancestors``, zombies too, parents before their children.

    One whose parent has ended while they were read may be missing: the next poll finds it below its new parent.
    """
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = list(ancestors)
    while waiting:
        below = children.pop(waiting.pop(), [])
        found += below
        waiting += [process.pid for process in below]
    return found


def is_sampler(pid: int) -> bool:
    """Return whether a process is a tracker's sampler, or is about to become one; a zombie is known by its name."""
    try:
        with open(f'/proc/{pid}/comm', 'rb') as name, open(f'/proc/{pid}/cmdline', 'rb') as line:
            return name.read().rstrip(b'\n') == SAMPLER_NAME or SAMPLER_MARK.encode() in line.read().split(b'\0')
    except OSError:
        return False


def children_now() -> list[int]:
    """Return children of this process' first thread as the kernel lists them, at the cost of reading one file.

    Some may be missing, and all are where the kernel was built without CONFIG_PROC_CHILDREN.
    """
    pid = os.getpid()
    try:
        with open(f'/proc/{pid}/task/{pid}/children', 'rb') as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def all_children() -> list[int]:
    """Return the children of this process, zombies too; one that came or went meanwhile may be missing."""
    try:
        return _listed_children() if _KERNEL_LISTS_CHILDREN else _found_children()
    except OSError:
        return _found_children()


def _listed_children() -> list[int]:
    found = []
    for task in os.listdir('/proc/self/task'):
        try:
            with open(f'/proc/self/task/{task}/children', 'rb') as file:
                found += [int(word) for word in file.read().split()]
        except (FileNotFoundError, ProcessLookupError):
            pass  # a thread that has ended; another one has its children now
    return found


def _found_children() -> list[int]:
    own = os.getpid()
    return [process.pid for process in all_processes() if process.parent == own]


def send(process: Process, *numbers: int) -> bool:
    """Send signals to a process that was read before, and to no other that has got its number since.

    Return whether it has got them: it may have ended, or be another user's.
    """
    handle: int | None = None
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # before Linux 5.3, or forbidden by a container: its number has to do, which is hardly given anew so soon
    try:
        same = read_process(process.pid)
        if same is None or same.start != process.start:
            return False
        for number in numbers:
            if handle is None:
                os.kill(process.pid, number)
            else:
                signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


_SET_PARENT_DEATH_SIGNAL = 1  # linux/prctl.h
_SET_CHILD_SUBREAPER = 36
_LIBRARY = ctypes.CDLL(None, use_errno=True)
"""Loaded with this module: a process between fork and exec should load nothing."""


def become_subreaper() -> None:
    """Have the orphans among this process' descendants handed to it instead of to init.

    :raises OSError: The kernel refuses.
    """
    _control(_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: int) -> None:
    """Have the kernel send this process the signal ``number`` when the thread that has forked it ends.

    A change of user takes that back, so it comes after.

    :raises OSError: The kernel refuses.
    """
    _control(_SET_PARENT_DEATH_SIGNAL, number)


def _control(option: int, value: int) -> None:
    if _LIBRARY.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
