"""Runs ``programs/device_watcher.py``, which is told in one way or another that a device is opened."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from benchmarks.running import PROGRAMS
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.environments import Environment

INOTIFY, FANOTIFY, FANOTIFY_FID, SCAN = 'inotify', 'fanotify', 'fanotify-fid', 'scan'

_LONGEST = 5
"""Seconds that it may take to be told; a look each second is the slowest."""


class RefusedError(FailedError):
    """The kernel does not tell in this way.

    :ivar number: That of the error.
    """

    def __init__(self, number: int) -> None:
        super().__init__(os.strerror(number))
        self.number = number


@dataclass(frozen=True)
class Watching:
    """A watcher that is ready."""

    pid: int
    output: IO[bytes]

    def told_at(self) -> int:
        """Return when it was told next, in nanoseconds of monotonic time."""
        if not select.select([self.output], [], [], _LONGEST)[0]:
            raise FailedError(f'was told nothing within {_LONGEST} s')
        line = self.output.readline()
        if not line:
            raise FailedError('has ended')
        return int(line)


@contextlib.contextmanager
def watcher(
    environment: Environment, way: str, devices: Sequence[str], *, interval: float = 1, as_nobody: bool = False
) -> Iterator[Watching]:
    """Watch devices; at the end the watcher is killed.

    :param interval: Seconds between two looks, where it looks.
    :param as_nobody: Whether it is to become the user nobody.
    :raises RefusedError: where the kernel does not allow it.
    """
    program = str(PROGRAMS / 'device_watcher.py')
    words = [environment.python, '-I', program, way, str(int(as_nobody)), f'{interval:g}', *devices]
    with subprocess.Popen(
        words, env=environment.variables(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            first = process.stdout.readline().split()
            if first[:1] == [b'failed']:
                raise RefusedError(int(first[1]))
            if first != [b'ready']:
                raise FailedError('it does not begin')
            yield Watching(process.pid, process.stdout)
        finally:
            process.kill()
