"""What programs use that are started by tests to track processes whose end nobody in them is told of."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from typing import TYPE_CHECKING

from support.truth.program import child, gate

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ['Foreign', 'burn_in_threads']


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
