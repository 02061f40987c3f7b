"""Whether rows in a file come from this run, so that ``overwrite`` must leave them."""

from __future__ import annotations

import os
import sys
import time


def is_of_this_run(modified: float) -> bool:
    """Return whether a file that was ``modified`` at this Unix time was written by another worker of this run.

    That is known of the workers of :mod:`multiprocessing` alone: they belong to one run with the process that has
    started them, and so does what was written since that one was started.
    """
    module = sys.modules.get('multiprocessing.process')
    parent = None if module is None else module.parent_process()
    if parent is None or parent.pid is None:
        return False
    started = start_time(parent.pid)
    return started is not None and modified >= started


def start_time(process_id: int) -> float | None:
    """Return the Unix time at which a process was started, up to a tick of 10 ms later; None where it is not known.

    No Python writes within its first tick, but the run before may have done so just before.
    """
    if not sys.platform.startswith('linux'):
        return _portable_start_time(process_id)
    try:
        with open(f'/proc/{process_id}/stat', 'rb') as file:
            ticks = int(file.read().rpartition(b')')[2].split()[19]) + 1  # proc_pid_stat(5): starttime
    except (OSError, ValueError, IndexError):
        return None
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf('SC_CLK_TCK'))


def _portable_start_time(process_id: int) -> float | None:
    import psutil  # noqa: PLC0415 - Linux does without

    try:
        return float(psutil.Process(process_id).create_time())
    except psutil.Error:
        return None


def writes_still(process_id: int, last_row: float) -> bool:
    """Return whether the process that wrote a row at the Unix time ``last_row`` is alive on this machine."""
    started = start_time(process_id)
    return started is not None and started <= last_row
