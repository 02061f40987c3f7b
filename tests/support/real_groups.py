"""Control groups of version 1 that tests make, below that of the test's own process."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from gpu_tracker.control_groups.places import folder_of, group_with, groups_of, mounts
from support.lack_of_memory import HOGS
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType


@contextmanager
def group_with_memory(limit: int) -> Iterator[RealGroup]:
    """Give a group that may have so many bytes of memory, and none swapped out."""
    with RealGroup('memory') as made:
        made.set('memory.limit_in_bytes', limit)
        made.set('memory.swappiness', 0)
        yield made


class RealGroup:
    """A group of one controller; a context, at whose end it is removed.

    :param controller: ``memory`` or ``cpu``.
    :param inside: The group in which it is made; None: that of this process.
    """

    def __init__(self, controller: str, inside: RealGroup | None = None) -> None:
        self.folder = _own_folder(controller) / f'gpu-tracker-test-{os.getpid()}'
        if inside is not None:
            self.folder = inside.folder / 'inner'
        self.folder.mkdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.folder.exists():
            eventually(self.remove)

    def remove(self) -> bool:
        """Remove it; return whether that was possible."""
        try:
            self.folder.rmdir()
        except OSError:  # the kernel still counts a process that has ended
            return False
        return True

    def set(self, name: str, value: int) -> None:
        """Write a limit."""
        (self.folder / name).write_text(f'{value}\n')

    def read(self, name: str) -> str:
        """Return what a file of it says."""
        return (self.folder / name).read_text().strip()

    @property
    def oom_kills(self) -> int:
        """What the kernel has counted."""
        counted = dict(line.split() for line in self.read('memory.oom_control').splitlines())
        return int(counted['oom_kill'])

    def hog(self, megabytes: int) -> str:
        """Return the words, for a shell, of a program of this group that has another take too much, and ends well."""
        words = [sys.executable, '-S', '-c', HOGS, str(self.folder / 'memory.usage_in_bytes'), str(megabytes)]
        return shlex.join(words)

    def take(self, pid: int) -> None:
        """Put a process into it."""
        (self.folder / 'cgroup.procs').write_text(f'{pid}\n')

    def words(self, *program: str) -> list[str]:
        """Return the words that start a program in it."""
        return ['/bin/sh', '-c', 'echo $$ > "$0"/cgroup.procs && exec "$@"', str(self.folder), *program]


def _own_folder(controller: str) -> Path:
    """Return the folder of this process' group; skip where it is not to be changed."""
    group = group_with(groups_of('self'), controller)
    folder = None if group is None else folder_of(group, mounts())
    if folder is None:
        pytest.skip(f'this machine has no {controller} controller of cgroup version 1')
    if not os.access(folder, os.W_OK):
        pytest.skip('needs root, or the right to change control groups')
    return Path(folder)
