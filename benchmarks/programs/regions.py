"""Prints, as JSON, the microseconds that a block of code costs in addition where it is a region, in several ways.

python regions.py this FOLDER, or python regions.py older FOLDER: with gpu-tracker of the checkout, or with 5.0.1.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Make = Callable[[int], Any]

TIMES = 400
COLD_TIMES = 40
PAUSE = 0.02
MANY = 50_000


def each(make: Make, times: int = TIMES, pause: float = 0.0) -> float:
    """Return the median of the microseconds of ``with make(number)``, one by one."""
    taken = []
    for number in range(times):
        if pause:
            time.sleep(pause)
        begin = time.perf_counter_ns()
        with make(number):
            pass
        taken.append(time.perf_counter_ns() - begin)
    return statistics.median(taken) / 1000


def many(make: Make) -> float:
    """Return the mean of the microseconds of ``with make(0)`` in a loop."""
    begin = time.perf_counter_ns()
    for _ in range(MANY):
        with make(0):
            pass
    return (time.perf_counter_ns() - begin) / MANY / 1000


class Lines:
    """Two lines to a file, with the clocks that a region reads."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __enter__(self) -> None:
        """Write one."""
        self._write()

    def __exit__(self, *_: object) -> None:
        """Write another one."""
        self._write()

    def _write(self) -> None:
        os.write(self._handle, b'%d\t%d\t%60d\n' % (time.monotonic_ns(), time.thread_time_ns(), 1))


def this(folder: str) -> dict[str, float]:
    """Return the figures of the checkout."""
    import gpu_tracker as gput  # noqa: PLC0415 - of the environment that runs this

    region = gput.region
    figures = {'off': many(lambda _: region('step')), 'nothing': many(lambda _: contextlib.nullcontext())}
    with gput.Tracker(tracking_file=f'{folder}/run.db', disable_logs=True):
        with region('first'):
            pass
        figures['hot'] = each(lambda number: region(f'step {number}'))
        figures['folded'] = many(lambda _: region('step'))
        figures['cold'] = each(lambda number: region(f'cold {number}'), COLD_TIMES, PAUSE)
        figures['nothing, cold'] = each(lambda _: contextlib.nullcontext(), COLD_TIMES, PAUSE)
        lines = Lines(os.open(f'{folder}/lines', os.O_CREAT | os.O_WRONLY | os.O_APPEND))
        figures['two lines'] = each(lambda _: lines)
        figures['two lines, cold'] = each(lambda _: lines, COLD_TIMES, PAUSE)
    return figures


def older(folder: str) -> dict[str, float]:
    """Return the figures of gpu-tracker 5.0.1."""
    from gpu_tracker.sub_tracker import SubTracker  # noqa: PLC0415 - as above

    figures = {}
    for ending in ('csv', 'sqlite'):
        file = f'{folder}/blocks.{ending}'
        figures[ending] = each(lambda _, file=file: SubTracker('step', sub_tracking_file=file), COLD_TIMES)  # type: ignore[misc]
    return figures


print(json.dumps({'this': this, 'older': older}[sys.argv[1]](sys.argv[2])))
