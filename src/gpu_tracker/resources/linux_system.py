"""What the whole machine uses, from ``/proc``. Linux only."""

from __future__ import annotations

import os

_FIRST_LINES = 256
"""Bytes in which the lines stand that are of interest; the kernel writes no more than are asked for."""


class LinuxSystem:
    """Reads ``/proc/meminfo`` and ``/proc/stat``, see proc(5), as psutil and free(1) do, at a tenth of psutil's cost.

    In use is what is not available to new programs without swapping: MemTotal - MemAvailable. Busy is all time but idle
    time, waiting for I/O included in idle; guest time is part of user time already. A file that is missing makes its
    figures unknown: with the mount option subset=pid, which services of systemd may have, /proc has processes alone.
    """

    def __init__(self, proc: str = '/proc') -> None:
        self._meminfo = _opened(f'{proc}/meminfo')
        self._stat = _opened(f'{proc}/stat')
        self._ticks = os.sysconf('SC_CLK_TCK')
        self.ram_capacity: int | None = None
        if self._meminfo is not None:
            self.ram_capacity = _bytes(os.pread(self._meminfo, _FIRST_LINES, 0), b'MemTotal:')
        self.cores: int | None = os.cpu_count()

    def ram(self) -> int | None:
        """Return the bytes in use."""
        if self._meminfo is None:
            return None
        memory = os.pread(self._meminfo, _FIRST_LINES, 0)
        capacity, available = _bytes(memory, b'MemTotal:'), _bytes(memory, b'MemAvailable:')
        return None if capacity is None or available is None else capacity - available

    def cpu(self) -> float | None:
        """Return the CPU seconds that all cores together have been busy since the machine started."""
        if self._stat is None:
            return None
        _, user, nice, system, _, _, irq, softirq, _ = os.pread(self._stat, _FIRST_LINES, 0).split(None, 8)
        return (int(user) + int(nice) + int(system) + int(irq) + int(softirq)) / self._ticks


def _opened(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None  # it is not there, or hidden


def _bytes(memory: bytes, name: bytes) -> int | None:
    """Return the value of a line of meminfo."""
    at = memory.find(name)
    return None if at < 0 else int(memory[at + len(name) : memory.index(b'kB', at)]) * 1024
