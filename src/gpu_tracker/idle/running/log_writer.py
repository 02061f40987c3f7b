"""Writes a guardian's lines to a log that may not take them: a FIFO that nobody reads, or a file system that hangs."""

from __future__ import annotations

import _thread
import os
import time

from gpu_tracker.idle.running.program_log import line_at

_PATIENCE = 1.0
"""Seconds for which a line is waited for."""


class LogWriter:
    """Writes each line in a thread: a log is opened to block, as programs expect it, and the program has it open too.

    A line is dropped while one before it is still not taken. What lines say goes to the monitor as well.

    :param handle: The open log; None: lines go nowhere.
    """

    def __init__(self, handle: int | None = None, patience: float = _PATIENCE) -> None:
        self._handle = handle
        self._patience = patience
        self._busy = _thread.allocate_lock()

    def write(self, text: str) -> None:
        """Append a line, and return when it is written, at the latest after some time."""
        if self._handle is None or not self._busy.acquire(blocking=False):
            return
        try:
            _thread.start_new_thread(self._write, (self._handle, line_at(time.time(), text).encode(errors='replace')))
        except RuntimeError:  # no thread is to be had: no program ends for its log's sake
            self._busy.release()
            return
        if self._busy.acquire(timeout=self._patience):
            self._busy.release()

    def _write(self, handle: int, line: bytes) -> None:
        try:
            os.write(handle, line)
        except OSError:
            pass  # a full disk, or a reader that has gone: no program waits or ends for its log's sake
        finally:
            self._busy.release()
