"""By which processes are known that come from the programs of this monitor: a variable in their environment."""

from __future__ import annotations

import os
from functools import cache

VARIABLE = 'GPU_TRACKER_IDLE'
"""Every program has it; the value is another one for each monitor."""


@cache
def mark() -> str:
    """Return the value for the programs of this process: its pid and 16 random digits."""
    return f'{os.getpid()}-{os.urandom(8).hex()}'


def has_mark(pid: int) -> bool:
    """Tell whether a process comes from a program of this one.

    False too where its environment is not to be seen: it has ended, or is another user's.
    """
    try:
        with open(f'/proc/{pid}/environ', 'rb') as file:
            return f'{VARIABLE}={mark()}'.encode() in file.read().split(b'\0')
    except OSError:
        return False
