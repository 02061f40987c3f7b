"""What the monitor says: lines on standard error, which never hold it up."""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections import deque

from gpu_tracker.system.terminal_text import printable

_LONGEST = 4000
"""Bytes of a line: it reaches a pipe that others write to as well in one piece, pipe(7)."""
_MOST_LINES = 1000
"""Lines that wait for somebody who reads them; those that come when there are as many are lost."""
_TIMEOUT = 0.1
"""Seconds to wait until a line is out, unless one before it is not: then what it reports has not happened yet."""
_FLUSH_TIMEOUT = 1.0
"""Seconds to wait at the end."""
_PAUSE = 0.01
"""Seconds until the next attempt: a terminal may report room, and take nothing."""


def open_log(*, verbose: bool, handle: int = 2) -> logging.Logger:
    """Return the monitor's log.

    :param verbose: Whether it takes debug messages.
    :param handle: The descriptor that lines are written to.
    """
    log = logging.getLogger('gpu_tracker.idle')
    log.propagate = False
    log.setLevel(logging.DEBUG if verbose else logging.INFO)
    handler = _LineHandler(handle)
    handler.setFormatter(logging.Formatter('%(asctime)s %(levelname)s %(message)s', '%Y-%m-%d %H:%M:%S'))
    log.handlers = [handler]
    return log


def flush(log: logging.Logger) -> None:
    """Wait until everything is out, unless nobody reads it."""
    for handler in log.handlers:
        handler.flush()


class _LineHandler(logging.Handler):
    """Writes from a thread of its own.

    A line to a terminal waits while nobody reads that, also where poll(2) has reported room for some of it;
    this must not keep a program on a GPU that somebody wants.
    """

    def __init__(self, handle: int) -> None:
        super().__init__()
        self._handle = handle
        self._lines: deque[bytes] = deque()
        """Those that are not out, the one that is being written among them."""
        self._lost = 0
        self._is_behind = False
        """Whether the writer was waited for in vain."""
        self._changed = threading.Condition()
        threading.Thread(target=self._write_all, name='log', daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Have a line written, unless too many wait already."""
        line = self._line_of(record)
        with self._changed:
            if self._lost or len(self._lines) >= _MOST_LINES:
                self._lost += 1  # and so on until the others are out, so that the log says where lines are missing
                return
            self._lines.append(line)
            self._changed.notify_all()
            if not self._is_behind:
                self._wait(_TIMEOUT)

    def flush(self) -> None:
        """Wait until everything is out, for a short time."""
        with self._changed:
            self._wait(_FLUSH_TIMEOUT)

    def _wait(self, timeout: float) -> None:
        self._is_behind = not self._changed.wait_for(lambda: not self._lines, timeout)

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                line = self._lines[0]
            self._write(line)
            with self._changed:
                self._lines.popleft()
                if not self._lines:
                    self._is_behind = False
                    self._report_lost()
                self._changed.notify_all()

    def _report_lost(self) -> None:
        if self._lost:
            text = f'{self._lost} line{"" if self._lost == 1 else "s"} left out here: nobody has read those before'
            self._lost = 0
            self._lines.append(
                self._line_of(logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, None, None))
            )

    def _line_of(self, record: logging.LogRecord) -> bytes:
        return printable(self.format(record)).encode(errors='replace')[:_LONGEST] + b'\n'

    def _write(self, line: bytes) -> None:
        left = line
        while left:
            try:
                left = left[os.write(self._handle, left) :]
            except BlockingIOError:  # it is not to wait, as somebody has set it who has it too
                self._wait_for_room()
            except OSError:
                return  # closed or broken, and there is no other place

    def _wait_for_room(self) -> None:
        room = select.poll()
        room.register(self._handle, select.POLLOUT)
        room.poll()
        time.sleep(_PAUSE)
