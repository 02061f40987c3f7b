"""What programs use that are started by tests to track processes whose end nobody in them is told of."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import struct
import threading
import time
from typing import TYPE_CHECKING, Any

from support.truth.program import child, gate

if TYPE_CHECKING:
    from collections.abc import Callable

    import gpu_tracker as gput

__all__ = ['Foreign', 'burn_in_threads', 'forbid_task_clocks', 'seconds']


def burn_in_threads(seconds: float, number: int) -> None:
    """Use CPU time of this process in several threads, so much in each."""

    def work() -> None:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            hashlib.pbkdf2_hmac('sha256', b'password', b'salt', 2000)  # lets the other threads run

    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Foreign:
    """A process whose parent, which is another process, waits for it and so takes it away as soon as it has ended.

    :param work: What it does when it is let go.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        wait, self.let_go = gate()
        reading, writing = os.pipe()
        self._parent = os.fork()
        if self._parent == 0:
            pid = child(lambda: (wait(), work()))
            os.write(writing, f'{pid}\n'.encode())
            used = os.wait4(pid, 0)[2]
            os.write(writing, f'{used.ru_utime + used.ru_stime}\n'.encode())
            os._exit(0)
        os.close(writing)
        self._lines = os.fdopen(reading)
        self.pid = int(self._lines.readline())

    def truth(self) -> float:
        """Return what it and the children that it has waited for have used, once it is gone."""
        used = float(self._lines.readline())
        os.waitpid(self._parent, 0)
        return used


def forbid_task_clocks(error: int) -> None:
    """Have perf_event_open(2) fail with ``error`` in this process and all that it starts, see seccomp(2)."""
    number = {'x86_64': 298, 'aarch64': 241}[platform.machine()]
    load_number, jump_if_equal, return_, allow, fail = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000
    filters = [
        (load_number, 0, 0, 0),
        (jump_if_equal, 0, 1, number),
        (return_, 0, 0, fail | error),
        (return_, 0, 0, allow),
    ]
    code = ctypes.create_string_buffer(b''.join(struct.pack('=HBBI', *line) for line in filters))
    program = ctypes.create_string_buffer(struct.pack('@HP', len(filters), ctypes.addressof(code)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    no_new_privileges, seccomp, mode_filter = 38, 22, 2
    for words in ((no_new_privileges, 1, 0, 0, 0), (seccomp, mode_filter, program, 0, 0)):
        if prctl(*words) != 0:
            raise OSError(ctypes.get_errno(), 'prctl')


def seconds(tracker: gput.Tracker) -> dict[str, Any]:
    """Return the CPU seconds of a run, and whether they are a lower bound."""
    cpu = tracker._run.totals['cpu']
    return {
        'main': cpu['main'][0],
        'descendants': cpu['descendants'][0],
        'is_lower_bound': tracker.sampling.cpu_is_lower_bound,
    }
