"""Processes whose guardian was killed: the monitor adopts them, and ends them."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from gpu_tracker.idle.running import family, kernel
from gpu_tracker.process_tree import SAMPLER_MARK, SAMPLER_NAME

if TYPE_CHECKING:
    from collections.abc import Collection

    from gpu_tracker.process_tree.process import Process


class Strays:
    """Makes this process the one that orphans of its descendants are handed to; its children so far are left alone."""

    def __init__(self) -> None:
        self._before = {(child.pid, child.start) for child in _children()}
        kernel.become_subreaper()

    def reap(self, known: Collection[int]) -> None:
        """Reap children that have ended and that nobody waits for: samplers, for the most part.

        :param known: The children that somebody waits for, by pid: guardians, and whatever else was started.
        """
        for child in _children():
            if child.ended and child.pid not in known:
                try:
                    os.waitpid(child.pid, os.WNOHANG)
                except ChildProcessError:
                    pass  # another thread was quicker

    def end(self, known: Collection[int]) -> int:
        """Send SIGKILL to children that are neither known nor samplers, and to their descendants; reap the ended.

        To be called when a guardian was lost, and again until it returns 0: how many are left that had not ended yet.

        :param known: See :meth:`reap`.
        """
        self.reap(known)
        everybody = family.all_processes()
        own = os.getpid()
        strays = [
            child
            for child in everybody
            if child.parent == own
            and child.pid not in known
            and (child.pid, child.start) not in self._before
            and not _is_sampler(child)
        ]
        strays += family.descendants([stray.pid for stray in strays], everybody)
        left = [stray for stray in strays if not stray.ended]
        for stray in left:
            family.send(stray, signal.SIGKILL)
        return len(left)


def _children() -> list[Process]:
    own = os.getpid()
    return [process for process in family.all_processes() if process.parent == own]


def _is_sampler(process: Process) -> bool:
    if process.name == SAMPLER_NAME:
        return True
    try:
        with open(f'/proc/{process.pid}/cmdline', 'rb') as file:
            return SAMPLER_MARK.encode() in file.read().split(b'\0')
    except OSError:
        return False
