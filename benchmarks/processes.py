"""Which processes a peer consists of, what CPU time they have used, and what memory they hold."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from dataclasses import dataclass

MARK = 'GPU_TRACKER_BENCHMARK'
"""The variable in the environment of a peer and of all that it starts; the measured program is started without it."""

_SCHEDULER_CLOCK = 2
_CHILDREN_TIMES = slice(13, 15)
"""cutime and cstime among the fields that follow the name in /proc/PID/stat."""
_START = 19
"""starttime among the same fields."""
_PRIVATE = re.compile(r'^Private_(?:Clean|Dirty): +(\d+) kB', re.MULTILINE)
_RESIDENT = re.compile(r'^Rss: +(\d+) kB', re.MULTILINE)
_PEAK = re.compile(r'^VmHWM:\s+(\d+) kB', re.MULTILINE)
_PROPORTIONAL = re.compile(r'^Pss: +(\d+) kB', re.MULTILINE)


@dataclass(frozen=True)
class Memory:
    """What a process holds, in bytes.

    :ivar resident: All that is in memory.
    :ivar private: What is its own alone.
    :ivar proportional: The same, and its share of what it has in common with others.
    """

    resident: int
    private: int
    proportional: int


def marked(mark: str) -> list[int]:
    """Return the processes that were started with the mark in their environment."""
    wanted = f'{MARK}={mark}'.encode()
    found = []
    for name in os.listdir('/proc'):
        if name.isdecimal() and int(name) != os.getpid():
            try:
                with open(f'/proc/{name}/environ', 'rb') as file:
                    variables = file.read().split(b'\0')
            except OSError:
                continue  # it has ended, or is another user's
            if wanted in variables:
                found.append(int(name))
    return found


def cpu_seconds(pid: int) -> float | None:
    """Return what a process and the children that it has reaped have used; None where it does not exist.

    Its own time is that of its CPU clock, in nanoseconds; its children's, of which only con-duct has many, in ticks.
    """
    try:
        own = time.clock_gettime(~pid << 3 | _SCHEDULER_CLOCK)
        with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as file:
            fields = file.read().rpartition(') ')[2].split()
    except OSError:
        return None
    return own + sum(int(ticks) for ticks in fields[_CHILDREN_TIMES]) / os.sysconf('SC_CLK_TCK')


def age(pid: int) -> float | None:
    """Return the seconds since a process was started; None where it does not exist."""
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as file:
            ticks = int(file.read().rpartition(') ')[2].split()[_START])
    except OSError:
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf('SC_CLK_TCK')


def memory(pid: int) -> Memory | None:
    """Return what a process holds; None where it does not exist."""
    try:
        with open(f'/proc/{pid}/smaps_rollup', encoding='ascii') as file:
            text = file.read()
    except OSError:
        return None
    resident, proportional = _RESIDENT.search(text), _PROPORTIONAL.search(text)
    if resident is None or proportional is None:
        return None
    private = sum(int(size) for size in _PRIVATE.findall(text))
    return Memory(int(resident[1]) * 1024, private * 1024, int(proportional[1]) * 1024)


def peak_memory(pid: int) -> int | None:
    """Return the most that a process has had in memory, in bytes; None where it does not exist."""
    try:
        with open(f'/proc/{pid}/status', encoding='utf-8', errors='replace') as file:
            found = _PEAK.search(file.read())
    except OSError:
        return None
    return None if found is None else int(found[1]) * 1024


def end(pids: list[int]) -> None:
    """Kill processes that a run has left."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
