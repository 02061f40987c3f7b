"""The terminal of another process, for one line when that has ended.

It is not held open meanwhile: whoever reads what comes from it would wait for this process as well.
"""

from __future__ import annotations

import os
import stat

_STANDARD_ERROR = 2


class OwnerTerminal:
    """A terminal, known by its path, its device and when it was made: a path may be used again."""

    def __init__(self, path: str, identity: tuple[int, int]) -> None:
        self._path = path
        self._identity = identity

    def say(self, text: str) -> None:
        """Print ``gpu-tracker: text``; nothing if the terminal was closed, or its output is stopped."""
        shown = ''.join(character if character.isprintable() else '?' for character in text)
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:
            return
        try:
            if _identity(os.fstat(handle)) == self._identity:
                os.write(handle, f'gpu-tracker: {shown}\n'.encode(errors='replace'))
        except OSError:
            pass  # its output is stopped
        finally:
            os.close(handle)


def terminal_of(pid: int) -> OwnerTerminal | None:
    """Return the terminal to which a process writes its errors; None if there is none, or it may not be read."""
    try:
        path = os.readlink(f'/proc/{pid}/fd/{_STANDARD_ERROR}')
        found = os.stat(path) if path.startswith(('/dev/pts/', '/dev/tty')) else None
    except OSError:
        return None
    return OwnerTerminal(path, _identity(found)) if found is not None and stat.S_ISCHR(found.st_mode) else None


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_rdev, found.st_ctime_ns
