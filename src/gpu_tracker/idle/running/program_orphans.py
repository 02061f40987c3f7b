"""Processes whose guardian was killed: the monitor adopts them, knows them by a variable of theirs, and ends them."""

from __future__ import annotations

import os
import signal
from functools import cache
from typing import TYPE_CHECKING

from gpu_tracker.processes import descendants

if TYPE_CHECKING:
    from collections.abc import Collection

    from gpu_tracker.processes.process import Process


class Orphans:
    """Makes this process the one that orphans of its descendants are handed to.

    Not all of these come from its programs: as the first process of a container it gets all orphans there are, such as
    those of ``docker exec``, and those of the children that it had before. Where there may be such strangers, only
    those are ended that are proved to come from a program.
    """

    def __init__(self) -> None:
        self._has_strangers = os.getpid() == 1 or bool(descendants.all_children())
        self._proved: set[tuple[int, float]] = set()
        """The pids and starts of those that were found to come from a program: who had a proof may be known by it only
        as long as the one above it lives."""
        self._nameless: set[tuple[int, float]] = set()
        """Those that had no command line at the last scan."""
        descendants.become_subreaper()

    def reap(self, known: Collection[int]) -> None:
        """Reap children that have ended and that nobody waits for: samplers, for the most part.

        Takes some ten microseconds for each thread of this process, where the kernel lists children.

        :param known: The children that somebody waits for, by pid: guardians, and whatever else was started.
        """
        for pid in descendants.all_children():
            if pid not in known:
                try:
                    os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    pass  # another thread was quicker

    def end(self, known: Collection[int], lost: Collection[int] = ()) -> int:
        """Send SIGKILL to children that come from programs of this monitor, and to their descendants; reap the ended.

        To be called when a guardian was lost, and again until it returns 0: how many are left that had not ended yet.

        :param known: See :meth:`reap`.
        :param lost: The pids of the programs whose guardians were lost, by which those are known as well that cannot
            show the variable any more: they are ending, or have written over their environment.
        """
        self.reap(known)
        left = self._find(known, lost)
        for orphan in left:
            if _identity(orphan) not in self._nameless:
                descendants.send(orphan, signal.SIGKILL)
        return len(left)

    def _find(self, known: Collection[int], lost: Collection[int]) -> list[Process]:
        """Return those that are to be ended, and have not ended yet."""
        everybody = descendants.all_processes()
        own = os.getpid()
        children = [child for child in everybody if child.parent == own and child.pid not in known]
        nameless, self._nameless = self._nameless, set()
        orphans = [child for child in children if self._is_orphan(child, lost, nameless)]
        orphans += descendants.descendants([orphan.pid for orphan in orphans], everybody)
        left = [orphan for orphan in orphans if not orphan.ended]
        self._proved = {_identity(orphan) for orphan in left} - self._nameless
        return left

    def _is_orphan(self, child: Process, lost: Collection[int], nameless: Collection[tuple[int, float]]) -> bool:
        has_words = _has_command_line(child.pid)  # asked first: what has become a sampler by then is known as one
        if descendants.is_sampler(child.pid):
            return False
        identity = _identity(child)
        if identity in self._proved or _is_of_program(child, lost):
            return True
        if self._has_strangers:
            return False
        if not has_words and identity not in nameless and not child.ended:
            self._nameless.add(identity)  # may be a sampler in the course of exec: the next scan shows
        return True


def _identity(process: Process) -> tuple[int, float]:
    return process.pid, process.start


def _is_of_program(process: Process, lost: Collection[int]) -> bool:
    return process.session in lost or process.group in lost or has_mark(process.pid)


def _has_command_line(pid: int) -> bool:
    """Return whether its command line can be read: it cannot where it has ended, or is executing another program."""
    try:
        with open(f'/proc/{pid}/cmdline', 'rb') as file:
            return bool(file.read(1))
    except OSError:
        return False


VARIABLE = 'GPU_TRACKER_IDLE'
"""Every program has it; the value is another one for each monitor."""


@cache
def mark() -> str:
    """Return the value for the programs of this process: its pid, what numbers it, and 16 random digits."""
    return f'{os.getpid()}-{pid_namespace()}-{os.urandom(8).hex()}'


def pid_namespace(pid: int | None = None) -> int:
    """Return what numbers a process, this one by default; 0 where that is not to be seen."""
    try:
        return os.stat(f'/proc/{"self" if pid is None else pid}/ns/pid').st_ino
    except OSError:
        return 0


def has_mark(pid: int) -> bool:
    """Return whether a process comes from a program of this one.

    False too where its environment is not to be seen: it has ended, or is another user's.
    """
    try:
        with open(f'/proc/{pid}/environ', 'rb') as file:
            return f'{VARIABLE}={mark()}'.encode() in file.read().split(b'\0')
    except OSError:
        return False
