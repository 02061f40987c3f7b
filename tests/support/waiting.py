"""Waiting for what other processes and threads do, with one timeout for all of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar('Result')

TIMEOUT = 300
"""Seconds that pass only where something is broken."""


def eventually(condition: Callable[[], Result]) -> Result:
    """Return the first true value of ``condition``, which is called ever more rarely."""
    deadline = time.monotonic() + TIMEOUT
    pause = 0.005
    while not (value := condition()):
        assert time.monotonic() < deadline, 'it never happened'
        time.sleep(pause)
        pause = min(1.3 * pause, 0.05)
    return value
