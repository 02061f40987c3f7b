"""Processes whose guardian was killed: the monitor adopts them, and ends them."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from gpu_tracker.idle.running import family, kernel, ownership
from gpu_tracker.process_tree import SAMPLER_MARK, SAMPLER_NAME

if TYPE_CHECKING:
    from collections.abc import Collection

    from gpu_tracker.process_tree.process import Process


class Strays:
    """Makes this process the one that orphans of its descendants are handed to.

    Not all of these come from its programs: as the first process of a container it gets all orphans there are, such as
    those of ``docker exec``. They are left alone.
    """

    def __init__(self) -> None:
        kernel.become_subreaper()

    def reap(self, known: Collection[int]) -> None:
        """Reap children that have ended and that nobody waits for: samplers, for the most part.

        Takes some ten microseconds for each thread of this process, where the kernel lists children.

        :param known: The children that somebody waits for, by pid: guardians, and whatever else was started.
        """
        for pid in family.all_children():
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
        everybody = family.all_processes()
        own = os.getpid()
        strays = [
            child
            for child in everybody
            if child.parent == own and child.pid not in known and _is_of_program(child, lost) and not _is_sampler(child)
        ]
        strays += family.descendants([stray.pid for stray in strays], everybody)
        left = [stray for stray in strays if not stray.ended]
        for stray in left:
            family.send(stray, signal.SIGKILL)
        return len(left)


def _is_of_program(process: Process, lost: Collection[int]) -> bool:
    return process.session in lost or process.group in lost or ownership.has_mark(process.pid)


def _is_sampler(process: Process) -> bool:
    if process.name == SAMPLER_NAME:
        return True
    try:
        with open(f'/proc/{process.pid}/cmdline', 'rb') as file:
            return SAMPLER_MARK.encode() in file.read().split(b'\0')
    except OSError:
        return False
