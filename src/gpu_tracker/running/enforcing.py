"""Keeps the limits of a command: waits for its end as ``supervise`` does, and ends it with all its descendants.

The time is kept here, so that its limit holds also where the sampler is gone. The other limits are compared in the
sampler, whose message is announced by SIGIO; that of memory is kept by the kernel where the command has a control group
of its own, whose counter of kills is read here. This process is a subreaper by then: all descendants of the command are
below it, whatever parent, session, group or environment they have. Linux only.
"""

from __future__ import annotations

import os
import signal
import time

from gpu_tracker import limits
from gpu_tracker.processes import descendants, proc_fault
from gpu_tracker.processes.reaped import OrphansUse
from gpu_tracker.running import supervise
from gpu_tracker.running.ending import Ending, SamplersGrace, end_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Protocol

    from gpu_tracker.limits import Limit, RunLimits
    from gpu_tracker.processes.process import Process
    from gpu_tracker.running.ending import KillableGroup
    from gpu_tracker.sampler.session import Session

    class LimitedGroup(KillableGroup, Protocol):
        """A control group for which the kernel may keep a limit of memory."""

        def memory_kills(self) -> int:
            """Return how many processes the kernel has ended for that limit."""


_HURRYING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_BETWEEN_COUNTS = 0.2
"""Seconds between two readings of a counter of kills, which nothing announces."""
_LONGEST_WAIT = 86400.0
"""Seconds that are waited for at once: the kernel takes no more than it can count."""


class Enforcement:
    """The limits of a command that is about to be started.

    Make it after ``supervise.hold_signals``, while the command is held back. Other children that this process has then
    are not ended: a shell has started them before it became gpu-tracker.

    :param process_id: The command, a child of this process.
    :param run_limits: Its limits.
    :param session: Its sampler, which compares all but the time; None: it is not measured.
    :param warn: Called with each message about a limit.
    :param group: The control group that all descendants of the command are in; None: there is none.
    :param kept_otherwise: Reasons of the limits that the sampler does not compare, because the kernel keeps them.
    :param samplers_grace: That of samplers of trackers in the group; None: there is no group.
    :ivar reports_kills: It has reported what the kernel ended for lack of memory.
    :ivar reason: Which limit has ended the command; None: none has.
    """

    def __init__(
        self,
        process_id: int,
        run_limits: RunLimits,
        session: Session | None,
        warn: Callable[[str], object],
        *,
        group: LimitedGroup | None = None,
        kept_otherwise: Collection[str] = (),
        samplers_grace: SamplersGrace | None = None,
    ) -> None:
        self.reason: str | None = None
        self.reports_kills = False
        self._warn = warn
        self._begun = time.monotonic()
        self._process_id = process_id
        self._sees_tree = proc_fault() is None
        self._strangers = {(found.pid, found.start) for found in self._children() if found.pid != process_id}
        self._limits = run_limits
        self._session = session
        self._group = group
        self._time = run_limits.of(limits.TIME)
        self._orphans = OrphansUse()
        self._samplers_grace = samplers_grace or SamplersGrace()
        self._kept_by_kernel = run_limits.of(limits.MEMORY) if limits.MEMORY in kept_otherwise else None
        self._sampled = run_limits.sampled(kept_otherwise)
        self._watches_samples = bool(self._sampled)
        if self._watches_samples:
            self._watch_samples()

    def begin(self) -> None:
        """Take note that the command runs: from now on its time counts."""
        self._begun = time.monotonic()

    def wait_for_end(self) -> OrphansUse:
        """Return when the command has ended, by itself or by a limit, and then all its descendants with it.

        It is left as a zombie: see ``supervise.wait_for_end``, which also says what is returned.
        """
        while True:
            has_ended, self._orphans = supervise.reap_orphans(self._process_id, self._orphans)
            message = self._killed_by_kernel() or ('' if has_ended else self._exceeded())
            if message:
                break
            if has_ended:
                return self._orphans
            self._wait(self._next_check())
        self._warn(message)
        ending = Ending(is_spared=self._is_spared, control_group=self._group)
        if not self._sees_tree:
            self._warn(f'only the command itself is ended, for its descendants cannot be found: {proc_fault()}')
            ending = _CommandAlone(self._process_id)
        deadline = time.monotonic() + self._limits.kill_after
        self._samplers_grace.begin(self._limits.kill_after)
        end_tree(
            ending,
            reap=self._reap,
            wait=self._is_hurried,
            deadline=lambda: deadline,
            stuck=self._report_stuck,
            is_spared=self._spares_child,
        )
        return self._orphans

    def _watch_samples(self) -> None:
        """Have the sampler's messages announced by a signal."""
        signal.signal(signal.SIGIO, lambda *_: None)  # by default it would end this process when it is let through
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})
        if self._session is None:
            self._stop_watching(limits.UNMEASURED)
        else:
            self._session.notify_by_signal()

    def _next_check(self) -> float | None:
        """Return when the time or a counter is to be looked up; None: signals announce all there is."""
        dues = [] if self._time is None else [self._begun + self._time.value]
        if self._kept_by_kernel is not None:
            dues.append(time.monotonic() + _BETWEEN_COUNTS)
        return min(dues, default=None)

    def _killed_by_kernel(self) -> str:
        """Return a message where the kernel has kept the limit of memory; an empty text: it had not to."""
        limit = self._kept_by_kernel
        kills = 0 if limit is None or self._group is None else self._group.memory_kills()
        if limit is None or not kills:
            return ''
        self.reason = limit.reason
        self.reports_kills = True
        return limits.killed_in_words(limit, kills, self._limits.kill_after)

    def _exceeded(self) -> str:
        """Return a message of a limit that was exceeded; an empty text: all are kept."""
        passed = time.monotonic() - self._begun
        if self._time is not None and passed >= self._time.value:
            return self._message(self._time, passed)
        if not self._watches_samples or self._session is None:
            return ''
        found = self._session.exceeded()
        limit = None if found is None else self._limits.of(found[0])
        if found is not None and limit is not None:
            return self._message(limit, found[1])
        if self._session.has_ended:
            self._stop_watching(limits.SAMPLER_ENDED)
        return ''

    def _message(self, limit: Limit, amount: float) -> str:
        self.reason = limit.reason
        return limits.in_words(limit, amount, self._limits.kill_after)

    def _stop_watching(self, why: str) -> None:
        self._watches_samples = False
        self._warn(limits.unkept(self._sampled, why))

    def _wait(self, until: float | None) -> int | None:
        """Wait for a signal, and pass it on to the command; return it, or None where it is time."""
        left = None if until is None else min(max(0.0, until - time.monotonic()), _LONGEST_WAIT)
        return supervise.pass_on_next(self._process_id, left, (signal.SIGIO,) if self._watches_samples else ())

    def _is_hurried(self, until: float) -> bool:
        """Wait; return whether a signal asks to end that cannot be passed on, as the command has ended."""
        is_hurried = self._wait(until) in _HURRYING and supervise.has_ended(self._process_id)
        if is_hurried:
            self._samplers_grace.begin()
        return is_hurried

    def _report_stuck(self, left: str) -> bool:
        self._warn(f'SIGKILL does not end {left}')
        return supervise.has_ended(self._process_id)

    def _reap(self) -> bool:
        """Reap those that have ended, except for the command; return whether the command or any other is left."""
        apart = (self._process_id, None if self._session is None else self._session.pid)
        while True:
            own = descendants.all_children() if self._sees_tree else []
            children = [pid for pid in own if pid not in apart and not self._is_stranger(pid)]
            ended = [pid for pid in children if supervise.has_ended(pid)]
            for pid in ended:
                self._orphans = supervise.reap(pid, self._orphans)
            if not ended:  # else their own children are children of this process now, and were not when it listed them
                return bool(children) or not supervise.has_ended(self._process_id)

    def _is_spared(self, process: Process) -> bool:
        return (process.pid, process.start) in self._strangers or self._is_spared_sampler(process.pid)

    def _spares_child(self, pid: int) -> bool:
        return self._is_stranger(pid) or self._is_spared_sampler(pid)

    def _is_stranger(self, pid: int) -> bool:
        if not self._strangers:
            return False
        process = descendants.read_process(pid)
        return process is not None and (process.pid, process.start) in self._strangers

    def _is_spared_sampler(self, pid: int) -> bool:
        """Return whether a process is the sampler of this run, or one of trackers in the tree that still has time."""
        if self._session is not None and pid == self._session.pid:
            return True
        return self._samplers_grace.spares(pid)

    def _children(self) -> list[Process]:
        if not self._sees_tree:
            return []
        found = [descendants.read_process(pid) for pid in descendants.all_children()]
        return [process for process in found if process is not None]


class _CommandAlone(Ending):
    """Ends the command without its descendants: if /proc does not show these."""

    def __init__(self, process_id: int) -> None:
        super().__init__()
        self._process_id = process_id
        self._is_terminated = False

    def terminate(self, *, leader_runs: bool = False) -> None:
        """Send SIGTERM once."""
        del leader_runs
        if not self._is_terminated:
            self._is_terminated = True
            self._send(signal.SIGTERM, signal.SIGCONT)

    def kill(self, *, leader_runs: bool = False) -> tuple[list[Process], bool]:
        """Send SIGKILL."""
        del leader_runs
        self._send(signal.SIGKILL)
        return [], False

    def kill_children(self, spared: object = None) -> None:
        """Do nothing: there is no list of them."""

    def _send(self, *numbers: int) -> None:
        try:
            for number in numbers:
                os.kill(self._process_id, number)
        except PermissionError:
            pass  # it runs as somebody else
