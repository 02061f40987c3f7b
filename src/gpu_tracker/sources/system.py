"""What the whole machine uses: RAM and CPU time."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class SystemSource(Protocol):
        """Reads the machine."""

        ram_capacity: int | None
        """Bytes of RAM of the machine."""
        cores: int | None
        """Logical cores of the machine."""

        def ram(self) -> int | None:
            """Return the bytes in use."""

        def cpu(self) -> float | None:
            """Return the CPU seconds that all cores together have been busy since some fixed moment."""


class LinuxSystem:
    """Reads ``/proc/meminfo`` and ``/proc/stat``, see proc(5), as psutil and free(1) do, at a tenth of psutil's cost.

    In use is what is not available to new programs without swapping: MemTotal - MemAvailable. Busy is all time but idle
    time, waiting for I/O included in idle; guest time is part of user time already.
    """

    def __init__(self, proc: str = '/proc') -> None:
        self._meminfo = os.open(f'{proc}/meminfo', os.O_RDONLY | os.O_CLOEXEC)
        self._stat = os.open(f'{proc}/stat', os.O_RDONLY | os.O_CLOEXEC)
        self._ticks = os.sysconf('SC_CLK_TCK')
        memory = self._memory()
        self.ram_capacity: int | None = memory.get(b'MemTotal:')
        self.cores: int | None = os.cpu_count()

    def ram(self) -> int | None:
        """Return the bytes in use."""
        memory = self._memory()
        try:
            return memory[b'MemTotal:'] - memory[b'MemAvailable:']
        except KeyError:
            return None

    def cpu(self) -> float | None:
        """Return the CPU seconds that all cores together have been busy since the machine started."""
        line = os.pread(self._stat, 512, 0)
        user, nice, system, _idle, _waiting, irq, softirq, steal = map(int, line.split(b'\n', 1)[0].split()[1:9])
        del steal  # the machine's host used it, not this machine
        return (user + nice + system + irq + softirq) / self._ticks

    def _memory(self) -> dict[bytes, int]:
        """Return the first lines of meminfo, in bytes: MemTotal, MemFree, MemAvailable."""
        lines = os.pread(self._meminfo, 256, 0).split(b'\n', 3)[:3]
        return {words[0]: int(words[1]) * 1024 for words in map(bytes.split, lines) if len(words) > 1}


class PortableSystem:
    """Reads the machine through psutil."""

    def __init__(self) -> None:
        import psutil  # noqa: PLC0415 - only where it is used: on Linux nothing needs it

        self._psutil = psutil
        self.ram_capacity: int | None = psutil.virtual_memory().total
        self.cores: int | None = psutil.cpu_count()

    def ram(self) -> int | None:
        """Return the bytes in use."""
        return int(self._psutil.virtual_memory().used)

    def cpu(self) -> float | None:
        """Return the CPU seconds that all cores together have been busy since some fixed moment."""
        times = self._psutil.cpu_times()
        idle = times.idle + getattr(times, 'iowait', 0.0)
        guest = getattr(times, 'guest', 0.0) + getattr(times, 'guest_nice', 0.0)
        return float(sum(times) - idle - guest - getattr(times, 'steal', 0.0))


def open_system(reader: str) -> SystemSource:
    """Return the machine, read in the way that ``reader`` names, as :func:`.open_process_tree` does."""
    return LinuxSystem() if reader == 'proc' else PortableSystem()
