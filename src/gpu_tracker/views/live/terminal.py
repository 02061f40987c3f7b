"""The alternate screen of a terminal, which is left as it was."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Self

from gpu_tracker.system.files import write_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ENTER = '\x1b[?1049h\x1b[?25l'
"""Switch to the alternate screen, and hide the cursor."""
_LEAVE = '\x1b[0m\x1b[?25h\x1b[?1049l'
_HOME = '\x1b[H'
_CLEAR_LINE = '\x1b[K'
_CLEAR_BELOW = '\x1b[J'
_LONGEST_WAIT = 1.0
"""Seconds for a thread that is writing: whoever has stopped the output with Ctrl-S must not stop more than that."""


class Terminal:
    """A terminal on which screens are drawn in place. Use it as a context manager.

    :param handle: Its descriptor.
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._is_entered = False
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Return the terminal; its alternate screen is entered with the first drawing."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the alternate screen."""
        self.leave()

    def size(self) -> tuple[int, int]:
        """Return columns and lines; a terminal that does not know them, as over a serial line, has 80 and 24."""
        columns, lines = os.get_terminal_size(self._handle)
        return columns or 80, lines or 24

    def is_ours(self) -> bool:
        """Return whether this program may draw: in the background it may not."""
        if sys.platform == 'win32':
            return True
        try:
            return os.tcgetpgrp(self._handle) == os.getpgrp()
        except OSError:
            return True  # it is not the terminal of this session, and nobody's jobs are on it

    def show(self, lines: Iterable[str]) -> None:
        """Draw lines that fit on the screen, in the place of those before."""
        drawn = '\r\n'.join(f'{_CLEAR_LINE}{line}' for line in lines)
        with self._lock:
            begin = '' if self._is_entered else _ENTER
            self._is_entered = True
            write_all(self._handle, f'{begin}{_HOME}{drawn}{_CLEAR_BELOW}'.encode(errors='replace'))

    def print(self, lines: Iterable[str]) -> None:
        """Print lines that stay, below what was there before."""
        with self.left(), contextlib.suppress(OSError):  # the window was closed
            write_all(self._handle, ''.join(f'{line}\n' for line in lines).encode(errors='replace'))

    def leave(self) -> None:
        """Show again what was there before; the next drawing enters the alternate screen anew."""
        with self.left():
            pass

    @contextlib.contextmanager
    def left(self) -> Iterator[None]:
        """Leave the alternate screen, on which other threads draw nothing before the block ends.

        Not from a signal handler that may interrupt a drawing: it would wait for it in vain.
        """
        is_locked = self._lock.acquire(timeout=_LONGEST_WAIT)
        try:
            if is_locked and self._is_entered:
                self._is_entered = False
                with contextlib.suppress(OSError):  # the window was closed
                    write_all(self._handle, _LEAVE.encode())
            yield
        finally:
            if is_locked:
                self._lock.release()
