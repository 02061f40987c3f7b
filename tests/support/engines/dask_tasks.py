"""Tasks that workers of Dask run: functions of a module that they can import."""

from __future__ import annotations

import os
import time

import gpu_tracker


def work(number: int) -> tuple[int, float, float]:
    """Use RAM and CPU time by a number; return the process, the wall time and the CPU time of the thread."""
    started, used = time.monotonic(), time.thread_time()
    data = bytearray(number * 20_000_000)
    end = time.thread_time() + number / 20
    while time.thread_time() < end:
        pass
    with gpu_tracker.region('inside'):
        del data
    return os.getpid(), time.monotonic() - started, time.thread_time() - used


async def wait(number: int) -> int:
    """Do nothing, in the event loop of the worker."""
    return number


def fail(number: int) -> None:
    """Fail."""
    raise LookupError(number)
