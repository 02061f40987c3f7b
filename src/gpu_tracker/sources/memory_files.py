"""The files of ``/proc/PID`` that tell about a process' memory, read whole. Linux only."""

from __future__ import annotations

import os

from gpu_tracker.process_tree import stat

_PEAK = b'\nVmHWM:'
_FIELDS = (_PEAK, b'\nVmRSS:', b'\nRssAnon:')
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
        found = self.marks(pid)
        return None if found is None else found[0]

    def marks(self, pid: int) -> tuple[int, int, int] | None:
        """Return the same, all bytes that are resident at that moment, and the anonymous ones among them."""
        status = self._read(pid, 'status', _PEAK)
        if not status or _PEAK not in status:  # a zombie has no memory
            return None
        peak, resident, anonymous = (_kilobytes(status, field) for field in _FIELDS)
        return peak, resident, anonymous

    def resident(self, pid: int) -> tuple[int, int]:
        """Return the resident bytes, and those among them that belong to no file and no shared memory segment."""
        statm = self._read(pid, 'statm')
        return stat.resident(statm) if statm else (0, 0)

    def _read(self, pid: int, name: str, mark: bytes = b'') -> bytes | None:
        """Return what the file says; that of another thread where the first one has ended and knows no memory."""
        content = self._read_file(f'{pid}/{name}')
        if content is None or (content and mark in content and not content.startswith(b'0 ')):
            return content
        try:
            threads = os.listdir(f'{self._proc}/{pid}/task')
        except OSError:
            return content
        others = (self._read_file(f'{thread}/{name}') for thread in threads if int(thread) != pid)
        return next(filter(None, others), content)

    def _read_file(self, name: str) -> bytes | None:
        try:
            handle = os.open(f'{self._proc}/{name}', os.O_RDONLY | os.O_CLOEXEC)
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


def rollup(smaps_rollup: bytes) -> tuple[int, int, int] | None:
    """Return private, shared and proportional bytes from a smaps_rollup file; None where it has none (it has ended)."""
    if b'Pss:' not in smaps_rollup:
        return None
    private = _kilobytes(smaps_rollup, b'Private_Clean:') + _kilobytes(smaps_rollup, b'Private_Dirty:')
    shared = _kilobytes(smaps_rollup, b'Shared_Clean:') + _kilobytes(smaps_rollup, b'Shared_Dirty:')
    return private, shared, _kilobytes(smaps_rollup, b'Pss:')


def _kilobytes(status: bytes, field: bytes) -> int:
    """Return the value of a field in bytes; 0 where the kernel is too old to have it."""
    at = status.find(field)
    return 0 if at < 0 else int(status[at + len(field) : status.index(b'kB', at)]) * 1024
