"""Ends all descendants of this process, a subreaper, and what they fork meanwhile: SIGTERM, then SIGKILL. Linux only.

Processes are scanned again and again: a process that forks and ends at once is gone before it can be signalled.
"""

from __future__ import annotations

import os
import signal
import time

from gpu_tracker.processes import descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    from gpu_tracker.processes.process import Process

    class KillableGroup(Protocol):
        """A control group that all descendants are in."""

        def kill(self) -> None:
            """Send SIGKILL to all that is in it, and to what is forked meanwhile."""


_SHORT_PAUSE, _LONG_PAUSE = 0.01, 1.0
_SAMPLERS_GRACE = 5.0
"""Seconds that samplers have at most; they take some hundredths, but where the machine is busy."""
_STUCK_AFTER = 10.0
"""Seconds of SIGKILL after which processes that are left are reported: they wait for a device, or belong to another
user."""


class SamplersGrace:
    """The time that samplers of trackers have which were ended: to complete their recordings, and end by themselves."""

    def __init__(self) -> None:
        self._until = float('inf')

    def begin(self, after: float = 0.0) -> None:
        """Let the time begin when all others get SIGKILL, in ``after`` seconds at the latest."""
        self._until = min(self._until, time.monotonic() + after + _SAMPLERS_GRACE)

    def spares(self, pid: int) -> bool:
        """Return whether a process is such a sampler, and still has time."""
        return time.monotonic() < self._until and descendants.is_sampler(pid)


class _Pauses:
    """When the next scan is due: soon while scans find new processes, then less and less often."""

    def __init__(self) -> None:
        self.due = time.monotonic()
        """In monotonic seconds."""
        self._pause = _SHORT_PAUSE

    def scanned(self, *, found_new: bool = False) -> None:
        """Plan the next scan; this one may have found processes that the one before had not."""
        self.due = time.monotonic() + (_SHORT_PAUSE if found_new else self._pause)
        self._pause = min(2 * self._pause, _LONG_PAUSE)


class Ending:
    """Sends signals to all descendants of this process.

    :param process_group: A process group of which all members descend from this process, which is signalled at once;
        None: there is none.
    :param is_spared: Whether the process with a pid is left alone, and what is below it.
    :param control_group: The control group that all descendants are in; None: there is none.
    """

    def __init__(
        self,
        *,
        process_group: int | None = None,
        is_spared: Callable[[int], bool] = lambda _: False,
        control_group: KillableGroup | None = None,
    ) -> None:
        self._process_group = process_group
        self._is_spared = is_spared
        self._control_group = control_group
        self._begun: float | None = None
        self._terminated: set[tuple[int, float]] = set()
        self._seen: set[tuple[int, float]] = set()

    def terminate(self, *, leader_runs: bool = False) -> None:
        """Send SIGTERM once to each descendant that was there when this was called first.

        A shell may start others to clean up, and none is to get it twice: many take a second one for an order to hurry.
        SIGCONT lets those take it that were stopped.

        :param leader_runs: The process after which the process group is named was not waited for yet.
        """
        in_group = leader_runs and self._begun is None
        if self._begun is None:
            self._begun = descendants.now() + 1
        if in_group:
            self._signal_group(signal.SIGTERM, signal.SIGCONT)
        for process in self.left():
            identity = (process.pid, process.start)
            if process.start > self._begun or identity in self._terminated:
                continue
            self._terminated.add(identity)
            if not (in_group and process.group == self._process_group):
                descendants.send(process, signal.SIGTERM, signal.SIGCONT)

    def kill(self, *, leader_runs: bool = False) -> tuple[list[Process], bool]:
        """Send SIGKILL to all that are found.

        Return them, and whether there are any among them that the call before had not found.

        :param leader_runs: As above.
        """
        if self._control_group is not None:
            self._control_group.kill()
        if leader_runs:
            self._signal_group(signal.SIGKILL)
        left = self.left()
        if not leader_runs and any(process.group == self._process_group for process in left):
            self._signal_group(signal.SIGKILL)  # who forks all the time is gone before it is met, but its group is not
        for process in left:
            descendants.send(process, signal.SIGKILL)
        found = {(process.pid, process.start) for process in left}
        found_new = not found <= self._seen
        self._seen = found
        return left, found_new

    def kill_children(self) -> None:
        """Send SIGKILL to children of this process as fast as may be: the next that forks and ends comes in no time.

        Their numbers are not given to others meanwhile, because only this process waits for them.
        """
        for pid in descendants.children_now():
            if self._is_spared(pid):
                continue
            try:
                os.kill(pid, signal.SIGKILL)
            except PermissionError:
                pass  # another user's: what is left is reported

    def left(self) -> list[Process]:
        """Return the descendants that have not ended."""
        own = os.getpid()
        processes = descendants.all_processes()
        spared = {process.pid for process in processes if process.parent == own and self._is_spared(process.pid)}
        found = descendants.descendants([own], (process for process in processes if process.pid not in spared))
        return [process for process in found if not process.ended and not self._is_spared(process.pid)]

    def _signal_group(self, *numbers: int) -> None:
        if self._process_group is None:
            return
        for number in numbers:
            try:
                os.killpg(self._process_group, number)
            except (ProcessLookupError, PermissionError):
                pass  # nobody is in it, or nobody whom this user may signal


def end_tree(
    ending: Ending,
    *,
    reap: Callable[[], bool],
    wait: Callable[[float], bool],
    deadline: Callable[[], float],
    stuck: Callable[[str], bool],
    leader_runs: Callable[[], bool] = lambda: False,
) -> None:
    """Send SIGTERM to all descendants that are there, and SIGKILL to what is left, until nothing is.

    :param reap: Reaps what has ended; returns whether anything is left.
    :param wait: Waits until a monotonic time, or until something happens; returns whether to send SIGKILL now.
    :param deadline: Returns the monotonic time at which SIGKILL follows.
    :param stuck: Called once with the names of processes that SIGKILL does not end; returns whether to give up.
    :param leader_runs: Returns whether the leader of the process group was not reaped yet, see :class:`Ending`.
    """
    pauses = _Pauses()
    while any_left := reap():
        now = time.monotonic()
        if now >= deadline():
            break
        if now >= pauses.due:
            ending.terminate(leader_runs=leader_runs())
            pauses.scanned()
        if wait(min(pauses.due, deadline())):
            break
    if not any_left:
        return
    pauses, begun, is_reported = _Pauses(), time.monotonic(), False
    while reap():
        now = time.monotonic()
        if now >= pauses.due:
            left, found_new = ending.kill(leader_runs=leader_runs())
            pauses.scanned(found_new=found_new)
            if left and not is_reported and now - begun > _STUCK_AFTER:
                is_reported = True
                if stuck(_in_words(left)):
                    return
        ending.kill_children()
        wait(pauses.due)


def _in_words(processes: Iterable[Process]) -> str:
    """Return the names and pids of processes, for a message."""
    return ', '.join(f'{process.name.decode(errors="replace")} (pid {process.pid})' for process in processes)
