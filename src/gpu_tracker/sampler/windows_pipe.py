"""Waits for what comes through a pipe on Windows, where select(2) takes sockets alone."""

from __future__ import annotations

import sys
import time

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.02


def is_readable(handle: int, seconds: float) -> bool:
    """Return whether within ``seconds`` there is something to read from a pipe, or nobody left who could write to it.

    :param handle: The descriptor of its reading end.
    """
    if sys.platform != 'win32':
        raise NotImplementedError
    import _winapi  # noqa: PLC0415 - on Windows only
    import msvcrt  # noqa: PLC0415 - as above

    deadline = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    while True:
        try:
            if _winapi.PeekNamedPipe(msvcrt.get_osfhandle(handle), 0)[0]:
                return True
        except BrokenPipeError:
            return True
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE)
