"""Lines for people from a program that must not stop where nobody reads them."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST = 256
"""Lines that wait: a moment in which a log is not read."""


class PatientOutput:
    """Has a thread write lines, which waits for the reader in place of whoever has something to say.

    What finds no room is counted, and told of as soon as there is some.

    :param write: Writes a line, however long that takes.
    :param most: Lines that may wait.
    """

    def __init__(self, write: Callable[[str], None], most: int = _MOST) -> None:
        self._write = write
        self._most = most
        self._lines: deque[str] = deque()
        self._left_out = 0
        self._is_writing = False
        self._changed = threading.Condition()
        threading.Thread(target=self._work, daemon=True).start()

    def __call__(self, line: str) -> None:
        """Have a line written; never waits."""
        with self._changed:
            if len(self._lines) < self._most:
                self._lines.append(line)
            else:
                self._left_out += 1
            self._changed.notify_all()

    def flush(self, patience: float) -> None:
        """Return when all is written, or after so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._lines or self._left_out or self._is_writing), patience)

    def _work(self) -> None:
        while True:
            line = self._next()
            self._write(line)

    def _next(self) -> str:
        """Wait for a line, and return it."""
        with self._changed:
            self._is_writing = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._lines or self._left_out)
            self._is_writing = True
            if self._lines:
                return self._lines.popleft()
            left_out, self._left_out = self._left_out, 0
            return f'{left_out} messages were left out: nobody took them in time'
