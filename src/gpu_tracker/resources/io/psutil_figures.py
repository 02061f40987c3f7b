"""What other systems than Linux say of the I/O of one process, asked through psutil."""

from __future__ import annotations

import sys


class PsutilFigures:
    """What psutil has of a process: bytes through calls (Windows), page faults (macOS)."""

    def __init__(self) -> None:
        import psutil  # noqa: PLC0415 - only where it is used: on Linux nothing needs it

        self._psutil = psutil

    def __call__(self, pid: int) -> list[int | None] | None:
        """Return the values of ``BYTES``, then minor and major page faults; None where the process is gone.

        :raises PermissionError: where they may not be read.
        """
        try:
            process = self._psutil.Process(pid)
            memory = process.memory_info()
            read = written = None
            if sys.platform == 'win32':  # elsewhere they count blocks, or calls, or are not there
                counters = process.io_counters()
                read, written = counters.read_bytes, counters.write_bytes
        except self._psutil.AccessDenied as error:
            raise PermissionError(pid) from error
        except self._psutil.Error:
            return None
        # macOS counts all page faults, and beside them the pages that were read in. Windows has one sum of both.
        faults, from_storage = getattr(memory, 'pfaults', None), getattr(memory, 'pageins', None)
        minor = None if faults is None or from_storage is None else max(0, faults - from_storage)
        return [None, None, None, read, written, minor, from_storage]
