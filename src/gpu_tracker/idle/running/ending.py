"""Waits for all that descends from this process, a subreaper, and ends it where it is to end."""

from __future__ import annotations

import os
import signal
import time

from gpu_tracker.processes import descendants
from gpu_tracker.processes.reaped import OrphansUse
from gpu_tracker.running.ending import Ending, end_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from collections.abc import Callable

    from gpu_tracker.idle.running.guardian_events import GuardianEvents
    from gpu_tracker.idle.running.program_groups import ProgramGroup

_PAUSE = 0.01
"""Seconds between two scans for what is left, where nothing is waited for."""


class ProgramProcesses:
    """The program and all its descendants, which all are below this process and handed to it where their parents end.

    :param program: Its pid, a child of this process that leads a process group.
    :param events: Returns when it is to end.
    :param stuck: Called once with a text that names the processes which SIGKILL does not end.
    :param spares_samplers: Whether this process may have a sampler of its own among its children, which ends with it.
    :param group: The control group that the program and all its descendants are in; None: there is none.
    """

    def __init__(
        self,
        program: int,
        events: GuardianEvents,
        stuck: Callable[[str], None],
        *,
        spares_samplers: bool = False,
        group: ProgramGroup | None = None,
    ) -> None:
        self.status: int | None = None
        """How the program has ended, as wait(2) returns it; None as long as it runs."""
        self.exact: resource.struct_rusage | None = None
        """What the program has used, and the children that it has waited for."""
        self.orphans = OrphansUse()
        """The use of descendants that this process has adopted and reaped."""
        self.reason: str | None = None
        """Why it was ended; None where it has ended by itself."""
        self.left_behind = 0
        """How many processes were left when it had ended by itself; these are ended then."""
        self._program = program
        self._events = events
        self._stuck = stuck
        self._spares_samplers = spares_samplers
        self._ending = Ending(process_group=program, is_spared=self._is_spared, control_group=group)

    def wait(self) -> None:
        """Return when nothing is left of the program, ended by itself or by the order that comes meanwhile."""
        while (any_left := self._reap()) and self.status is None and self._events.deadline is None:
            self._events.wait(None)
        self.reason = self._events.reason
        if self.reason is None and any_left:
            self.left_behind = len(self._ending.left())
        self._events.end('it has ended, and has left processes behind')  # no matter where none are left
        end_tree(
            self._ending,
            reap=self._reap,
            wait=self._wait,
            deadline=lambda: self._events.deadline or time.monotonic(),
            stuck=self._report_stuck,
            leader_runs=lambda: self.status is None,
        )

    def _wait(self, until: float) -> bool:
        self._events.wait(until - time.monotonic())
        return False

    def _report_stuck(self, left: str) -> bool:
        self._stuck(left)
        return False

    def _reap(self) -> bool:
        """Wait for those that have ended; return whether any are left."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            except ChildProcessError:
                return False
            if ended is None:
                return not self._spares_samplers or not _are_samplers(descendants.all_children())
            is_own_use = not descendants.is_sampler(ended.si_pid)  # of a tracker in the program
            _, status, usage = os.wait4(ended.si_pid, 0)
            if ended.si_pid == self._program:
                self.status, self.exact = status, usage
            elif is_own_use:
                self.orphans = self.orphans.plus(usage)

    def _is_spared(self, pid: int) -> bool:
        return self._spares_samplers and descendants.is_sampler(pid)


def end_all() -> None:
    """Send SIGKILL to all descendants of this process until none is left, without any further ado."""
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return
        for process in descendants.descendants([os.getpid()], descendants.all_processes()):
            descendants.send(process, signal.SIGKILL)
        time.sleep(_PAUSE)


def _are_samplers(pids: list[int]) -> bool:
    return bool(pids) and all(map(descendants.is_sampler, pids))
