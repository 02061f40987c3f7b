"""The file systems that answer: a file on a dead network mount is not read, since whoever reads it never returns.

A file system is asked in a thread of its own, and asked again every few seconds: what answered a moment ago is read at
once. One that died in between holds its reader all the same.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.background import Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.cuda_probe.binaries.region import MappedPart

_TIMEOUT = 2.0
"""Seconds in which a file system has to answer."""
_INTERVAL = 5.0
"""Seconds for which an answer holds."""
_MOST = 256


class _Asked(NamedTuple):
    call: Call
    time: float


class FileSystems:
    """Remembers which file systems answer.

    :param read: What a file system is asked: it reads a file, or hangs.
    :param timeout: Seconds to wait for an answer.
    :param clock: Monotonic seconds.
    """

    def __init__(
        self,
        read: Callable[[str], None] | None = None,
        timeout: float = _TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read or _read
        self._timeout = timeout
        self._clock = clock
        self._asked: dict[int, _Asked] = {}

    def answers(self, mapping: MappedPart, folder: str) -> bool:
        """Return whether the file system of a mapped file answers; one that does not is waited for once.

        That the file cannot be read is an answer too.

        :param folder: That of the process: ``/proc/PID``.
        """
        now = self._clock()
        asked = self._asked.get(mapping.device)
        if asked is not None and not asked.call.has_ended(0.0):
            return False  # it still hangs
        if asked is not None and now - asked.time < _INTERVAL:
            return True
        if len(self._asked) >= _MOST:
            self._asked = {device: asked for device, asked in self._asked.items() if not asked.call.has_ended(0.0)}
        call = Call(lambda: self._read(mapping.reached_through(folder)))
        self._asked[mapping.device] = _Asked(call, now)
        return call.has_ended(self._timeout)


def _read(path: str) -> None:
    """Read a byte of a file; no device is opened, which has effects of its own."""
    with contextlib.suppress(OSError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            os.pread(descriptor, 1, 0)
        finally:
            os.close(descriptor)
