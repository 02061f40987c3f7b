"""What the monitor says: lines on standard error, which never hold it up."""

from __future__ import annotations

import logging
import os
import select

from gpu_tracker.printable import printable

_LONGEST = 4000
"""Bytes of a line: a pipe that takes anything takes this much, so writing to it does not wait."""


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


class _LineHandler(logging.Handler):
    def __init__(self, handle: int) -> None:
        super().__init__()
        self._handle = handle

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, unless nobody takes it: a full pipe must not keep a program on a GPU that somebody wants."""
        line = printable(self.format(record)).encode(errors='replace')[:_LONGEST] + b'\n'
        try:
            if select.select([], [self._handle], [], 0)[1]:
                os.write(self._handle, line)
        except (OSError, ValueError):
            pass  # closed or broken, and there is no other place
