"""Waits for all that descends from this process, a subreaper, and ends it where it is to end."""

from __future__ import annotations

import os
import signal
import time

from gpu_tracker.idle.running import descendants
from gpu_tracker.processes.stat import TICKS_PER_SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from collections.abc import Callable

    from gpu_tracker.idle.running.guardian_events import GuardianEvents
    from gpu_tracker.idle.running.program_groups import ProgramGroup
    from gpu_tracker.processes.process import Process

_SHORT_PAUSE, _LONG_PAUSE = 0.01, 1.0
"""Seconds between two scans for what is left: from the one, doubled up to the other."""
_STUCK_AFTER = 10.0
"""Seconds of SIGKILL after which the guardian reports that processes do not end."""


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
        self.orphans_seconds = 0.0
        """CPU time of the descendants that were handed to this process, and of the children that they waited for."""
        self.reason: str | None = None
        """Why it was ended; None where it has ended by itself."""
        self.left_behind = 0
        """How many processes were left when it had ended by itself; these are ended then."""
        self._program = program
        self._events = events
        self._stuck = stuck
        self._spares_samplers = spares_samplers
        self._group = group
        self._terminated: set[tuple[int, float]] = set()

    def wait(self) -> None:
        """Return when nothing is left of the program, ended by itself or by the order that comes meanwhile."""
        while (any_left := self._reap()) and self.status is None and self._events.deadline is None:
            self._events.wait(None)
        self.reason = self._events.reason
        if self.reason is None and any_left:
            self.left_behind = len(self._left())
        self._events.end('it has ended, and has left processes behind')  # no matter where none are left
        self._end_gently()
        self._end_by_force()

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
                self.orphans_seconds += usage.ru_utime + usage.ru_stime

    def _end_gently(self) -> None:
        """Send SIGTERM to all that are there now, and give them the time that they have."""
        begun = time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS_PER_SECOND + 1
        pause = _SHORT_PAUSE
        next_scan = time.monotonic()
        first = True
        while self._reap():
            now = time.monotonic()
            deadline = self._events.deadline or now
            if now >= deadline:
                return
            if now >= next_scan:
                self._terminate(begun, whole_group=first)
                first = False
                next_scan, pause = now + pause, min(2 * pause, _LONG_PAUSE)
            self._events.wait(min(next_scan, deadline) - time.monotonic())

    def _terminate(self, begun: float, *, whole_group: bool) -> None:
        """Send SIGTERM once to each that was there at the boot time ``begun``, in clock ticks.

        A shell may start others to clean up, and none is to get it twice: many take a second one for an order to hurry.
        SIGCONT lets those take it that were stopped.
        """
        in_group = whole_group and self.status is None
        if in_group:
            self._signal_group(signal.SIGTERM, signal.SIGCONT)
        for process in self._left():
            identity = (process.pid, process.start)
            if process.start > begun or identity in self._terminated:
                continue
            self._terminated.add(identity)
            if not (in_group and process.group == self._program):
                descendants.send(process, signal.SIGTERM, signal.SIGCONT)

    def _end_by_force(self) -> None:
        """Send SIGKILL to all that is left and all that comes, until nothing does."""
        pause = _SHORT_PAUSE
        next_scan = begun = time.monotonic()
        seen: set[tuple[int, float]] = set()
        is_reported = False
        while self._reap():
            now = time.monotonic()
            if now >= next_scan:
                left = self._kill()
                found = {(process.pid, process.start) for process in left}
                pause = min(2 * pause, _LONG_PAUSE) if found <= seen else _SHORT_PAUSE
                seen = found
                next_scan = time.monotonic() + pause
                if left and not is_reported and now - begun > _STUCK_AFTER:
                    is_reported = True
                    self._stuck(', '.join(map(_in_words, left)))
            self._kill_orphans()
            self._events.wait(next_scan - time.monotonic())

    def _kill(self) -> list[Process]:
        """Send SIGKILL to all that are found, and return them."""
        if self._group is not None:
            self._group.kill()
        if self.status is None:
            self._signal_group(signal.SIGKILL)
        left = self._left()
        if self.status is not None and any(process.group == self._program for process in left):
            self._signal_group(signal.SIGKILL)  # who forks all the time is gone before it is met, but its group is not
        for process in left:
            descendants.send(process, signal.SIGKILL)
        return left

    def _kill_orphans(self) -> None:
        """Send SIGKILL to children of this process as fast as may be: the next that forks and ends comes in no time.

        Their numbers are not given to others meanwhile, because only this process waits for them.
        """
        for pid in descendants.children_now():
            if self._spares_samplers and descendants.is_sampler(pid):
                continue
            try:
                os.kill(pid, signal.SIGKILL)
            except PermissionError:
                pass  # another user's: what is left is reported

    def _left(self) -> list[Process]:
        """Return the descendants that have not ended."""
        found = descendants.descendants([os.getpid()], descendants.all_processes())
        return [process for process in found if not process.ended and not self._is_spared(process)]

    def _is_spared(self, process: Process) -> bool:
        return self._spares_samplers and process.parent == os.getpid() and descendants.is_sampler(process.pid)

    def _signal_group(self, *numbers: int) -> None:
        """Send signals to the program's process group, at once to all that are in it."""
        for number in numbers:
            try:
                os.killpg(self._program, number)
            except (ProcessLookupError, PermissionError):
                pass  # nobody is in it, or nobody whom this user may signal


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
        time.sleep(_SHORT_PAUSE)


def _are_samplers(pids: list[int]) -> bool:
    return bool(pids) and all(map(descendants.is_sampler, pids))


def _in_words(process: Process) -> str:
    return f'{process.name.decode(errors="replace")} (pid {process.pid})'
