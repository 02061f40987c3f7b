"""The files of ``/proc/PID`` that tell about a process' memory, read whole. Linux only."""

from __future__ import annotations

import os

from gpu_tracker.process_tree import stat

_PEAK = b'\nVmHWM:'
_CHUNK = 1 << 18


class MemoryFiles:
    """Reads what one process says about its memory; None where it has ended.

    :raises PermissionError: where the process is another user's (:meth:`smaps` and :meth:`smaps_rollup` only).
    """

    def __init__(self, proc: str = '/proc') -> None:
        self._proc = proc

    def smaps(self, pid: int) -> bytes | None:
        """Return each mapping with its private and shared sizes. The kernel walks every page: 16 µs a megabyte."""
        return self._read(pid, 'smaps')

    def smaps_rollup(self, pid: int) -> bytes | None:
        """Return the sums over all mappings: 5.4 µs a megabyte."""
        return self._read(pid, 'smaps_rollup')

    def peak(self, pid: int) -> int | None:
        """Return the most bytes that were ever resident in this program image (VmHWM); exec starts it anew."""
        status = self._read(pid, 'status')
        at = status.find(_PEAK) if status else -1
        if status is None or at < 0:  # a zombie has no memory
            return None
        return int(status[at + len(_PEAK) : status.index(b'kB', at)]) * 1024

    def resident(self, pid: int) -> tuple[int, int]:
        """Return the resident bytes, and those among them that belong to no file and no shared memory segment."""
        statm = self._read(pid, 'statm')
        if not statm:
            return 0, 0
        words = statm.split(b' ', 3)
        resident = int(words[1])
        return resident * stat.PAGE_SIZE, (resident - int(words[2])) * stat.PAGE_SIZE

    def _read(self, pid: int, name: str) -> bytes | None:
        try:
            handle = os.open(f'{self._proc}/{pid}/{name}', os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError):
            return None
        try:
            chunks = []
            while chunk := os.read(handle, _CHUNK):
                chunks.append(chunk)
        except ProcessLookupError:
            return None
        finally:
            os.close(handle)
        return b''.join(chunks)
