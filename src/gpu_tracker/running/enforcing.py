"""Keeps the limits of a command: waits for its end, and ends it with all its descendants if it exceeds one.

The time is kept here, so that its limit holds also if the sampler is gone. The sampler compares the other limits. The
kernel keeps that of memory if the command has a control group of its own; its counter of kills is read here.

On Linux this process is a subreaper by then: all descendants of the command are below it, whatever parent, session,
group or environment they have. SIGIO announces a message of the sampler. On other systems a descendant is found as long
as all processes between it and the command run.
"""

from __future__ import annotations

import signal
import sys
import time

from gpu_tracker import limits
from gpu_tracker.processes import proc_fault
from gpu_tracker.processes.reaped import OrphansUse

if sys.platform == 'linux':
    from gpu_tracker.processes import descendants
    from gpu_tracker.running import supervise
    from gpu_tracker.running.ending import Ending, SamplersGrace, end_tree

    _HURRYING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any, Protocol

    import psutil

    from gpu_tracker.control_groups.own_group import OwnGroup
    from gpu_tracker.limits import Limit, RunLimits
    from gpu_tracker.processes.process import Process
    from gpu_tracker.sampler.session import Session

    class Command(Protocol):
        """A command that runs, as :class:`subprocess.Popen`."""

        pid: int

        def poll(self) -> int | None:
            """Return its exit code; None: it runs."""

        def wait(self, timeout: float | None = None) -> int:
            """Return its exit code when it has ended.

            :raises subprocess.TimeoutExpired: It still runs after so many seconds.
            """


_BETWEEN_COUNTS = 0.2
"""Seconds between two readings of a counter of kills, which nothing announces."""
_LONGEST_WAIT = 86400.0
"""Seconds that are waited for at once: the kernel takes no more than it can count."""
_PAUSE = 0.1
"""Seconds between two questions whether a limit was exceeded, and between two scans for what is left (not Linux)."""
_LONGEST_END = 10.0
"""Seconds for which processes that were killed are waited for (not Linux)."""


class _Watch:
    """Finds which limit a command exceeds.

    :param run_limits: Its limits.
    :param session: Its sampler, which compares all but the time; None: it is not measured.
    :param warn: Called with each message about a limit.
    :param kept_otherwise: Reasons of the limits that the sampler does not compare, because the kernel keeps them.
    :ivar reason: Which limit has ended the command; None: none has.
    """

    def __init__(
        self,
        run_limits: RunLimits,
        session: Session | None,
        warn: Callable[[str], object],
        kept_otherwise: Collection[str] = (),
    ) -> None:
        self.reason: str | None = None
        self._warn = warn
        self._begun = time.monotonic()
        self._limits = run_limits
        self._session = session
        self._time = run_limits.of(limits.TIME)
        self._sampled = run_limits.sampled(kept_otherwise)
        self._watches_samples = bool(self._sampled)

    def _exceeded(self) -> str:
        """Return a message of a limit that was exceeded; an empty text: all are kept."""
        passed = time.monotonic() - self._begun
        if self._time is not None and passed >= self._time.value:
            return self._message(self._time, passed)
        if not self._watches_samples:
            return ''
        if self._session is None:
            return self._stop_watching(limits.UNMEASURED)
        found = self._session.exceeded()
        limit = None if found is None else self._limits.of(found[0])
        if found is not None and limit is not None:
            return self._message(limit, found[1])
        return self._stop_watching(limits.SAMPLER_ENDED) if self._session.has_ended else ''

    def _message(self, limit: Limit, amount: float) -> str:
        self.reason = limit.reason
        return limits.in_words(limit, amount, self._limits.kill_after)

    def _stop_watching(self, why: str) -> str:
        self._watches_samples = False
        self._warn(limits.unkept(self._sampled, why))
        return ''


class Enforcement(_Watch):
    """The limits of a command that is about to be started (Linux).

    Make it after ``supervise.hold_signals``, while the command is held back. Other children that this process has then
    are not ended: a shell has started them before it became gpu-tracker.

    :param process_id: The command, a child of this process.
    :param group: The control group that all descendants of the command are in; None: there is none.
    :param samplers_grace: That of samplers of trackers in the group; None: there is no group.
    :ivar reports_kills: It has reported what the kernel ended for lack of memory.
    """

    def __init__(
        self,
        process_id: int,
        run_limits: RunLimits,
        session: Session | None,
        warn: Callable[[str], object],
        *,
        group: OwnGroup | None = None,
        kept_otherwise: Collection[str] = (),
        samplers_grace: SamplersGrace | None = None,
    ) -> None:
        super().__init__(run_limits, session, warn, kept_otherwise)
        self.reports_kills = False
        self._process_id = process_id
        self._fault = proc_fault()
        self._strangers = {(found.pid, found.start) for found in self._children() if found.pid != process_id}
        self._group = group
        self._orphans = OrphansUse()
        self._samplers_grace = samplers_grace or SamplersGrace()
        self._kept_by_kernel = run_limits.of(limits.MEMORY) if limits.MEMORY in kept_otherwise else None
        if self._watches_samples and session is not None:
            signal.signal(signal.SIGIO, lambda *_: None)  # by default it would end this process when it is let through
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})
            session.notify_by_signal()

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
        deadline = time.monotonic() + self._limits.kill_after
        if self._fault is not None:
            self._warn(f'only the command itself is ended, for its descendants cannot be found: {self._fault}')
            self._end_command(deadline)
            return self._orphans
        self._samplers_grace.begin(self._limits.kill_after)
        end_tree(
            Ending(is_spared=self._is_spared, control_group=self._group),
            reap=self._reap,
            wait=self._is_hurried,
            deadline=lambda: deadline,
            stuck=self._report_stuck,
        )
        return self._orphans

    def _next_check(self) -> float | None:
        """Return when the time or a counter is to be looked up; None: signals announce all there is."""
        dues = [] if self._time is None else [self._begun + self._time.value]
        if self._kept_by_kernel is not None:
            dues.append(time.monotonic() + _BETWEEN_COUNTS)
        return min(dues, default=None)

    def _killed_by_kernel(self) -> str:
        """Return a message if the kernel has kept the limit of memory; an empty text: it had not to."""
        limit = self._kept_by_kernel
        kills = 0 if limit is None or self._group is None else self._group.memory_kills()
        if limit is None or not kills:
            return ''
        self.reason = limit.reason
        self.reports_kills = True
        return limits.killed_in_words(limit, kills, self._limits.kill_after)

    def _wait(self, until: float | None) -> int | None:
        """Wait for a signal, and pass it on to the command; return it, or None if it is time."""
        left = None if until is None else min(max(0.0, until - time.monotonic()), _LONGEST_WAIT)
        return supervise.pass_on_next(self._process_id, left, (signal.SIGIO,) if self._watches_samples else ())

    def _is_hurried(self, until: float) -> bool:
        """Wait; return whether a signal asks to end that cannot be passed on, as the command has ended."""
        is_hurried = self._wait(until) in _HURRYING and supervise.has_ended(self._process_id)
        if is_hurried:
            self._samplers_grace.begin()
        return is_hurried

    def _report_stuck(self, left: str) -> bool:
        self._warn(f'still running after SIGKILL: {left}')
        return supervise.has_ended(self._process_id)

    def _reap(self) -> bool:
        """Reap those that have ended, except for the command; return whether the command or any other is left."""
        apart = (self._process_id, None if self._session is None else self._session.pid)
        while True:
            children = [pid for pid in descendants.all_children() if pid not in apart and not self._is_stranger(pid)]
            ended = [pid for pid in children if supervise.has_ended(pid)]
            for pid in ended:
                self._orphans = supervise.reap(pid, self._orphans)
            if not ended:  # else their own children are children of this process now, and were not when it listed them
                return bool(children) or not supervise.has_ended(self._process_id)

    def _end_command(self, deadline: float) -> None:
        """End the command without its descendants, which /proc does not show."""
        supervise.send(self._process_id, signal.SIGTERM, signal.SIGCONT)
        while not supervise.has_ended(self._process_id) and time.monotonic() < deadline:
            self._wait(deadline)
        supervise.send(self._process_id, signal.SIGKILL)
        supervise.wait_plainly(self._process_id)

    def _is_spared(self, pid: int) -> bool:
        """Return whether a process is a stranger, the sampler of this run, or one in the tree that still has time."""
        is_sampler = self._session is not None and pid == self._session.pid
        return is_sampler or self._is_stranger(pid) or self._samplers_grace.spares(pid)

    def _is_stranger(self, pid: int) -> bool:
        process = descendants.read_process(pid) if self._strangers else None
        return process is not None and (process.pid, process.start) in self._strangers

    def _children(self) -> list[Process]:
        if self._fault is not None:
            return []
        found = [descendants.read_process(pid) for pid in descendants.all_children()]
        return [process for process in found if process is not None]


class PortableEnforcement(_Watch):
    """The limits of a command that has just been started (not Linux)."""

    def wait(self, command: Command) -> int:
        """Return the exit code of the command when it has ended, by itself or by a limit with all that was found."""
        import subprocess  # noqa: PLC0415 - costs 13 ms; it has been imported to start the command

        while True:
            try:
                return command.wait(self._longest_wait())
            except subprocess.TimeoutExpired:
                message = self._exceeded()
            if message:
                self._warn(message)
                return self._end(command)

    def _longest_wait(self) -> float | None:
        left = None if self._time is None else max(0.0, self._begun + self._time.value - time.monotonic())
        if not self._watches_samples:
            return left
        return _PAUSE if left is None else min(left, _PAUSE)

    def _end(self, command: Command) -> int:
        """End all that is found; return the exit code of the command."""
        import psutil  # noqa: PLC0415 - where a limit was exceeded

        known = {psutil.Process(command.pid)}
        deadline = time.monotonic() + self._limits.kill_after
        processes = _stopped(known, command)
        for process in processes:
            _call(process.terminate)
        for process in processes:
            _call(process.resume)
        while _left(known, command) and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _PAUSE))
        deadline = time.monotonic() + _LONGEST_END
        while (processes := _stopped(known, command)) and time.monotonic() < deadline:
            for process in processes:
                _call(process.kill)
            time.sleep(_PAUSE)
        return command.wait()


def _stopped(known: set[psutil.Process], command: Command) -> list[psutil.Process]:
    """Stop all processes that are left, so that none can fork meanwhile, and return them."""
    stopped: list[psutil.Process] = []
    while new := [process for process in _left(known, command) if process not in stopped]:
        for process in new:
            _call(process.suspend)
        stopped += new
    return stopped


def _left(known: set[psutil.Process], command: Command) -> list[psutil.Process]:
    """Add the descendants that run to those that are known, and return all of these that run."""
    for process in tuple(known):
        known.update(_call(process.children, recursive=True) or ())
    command.poll()  # reaps it: psutil would keep its exit code from us
    return [process for process in known if _call(process.is_running) and _call(process.status) not in {None, 'zombie'}]


def _call(method: Callable[..., Any], **options: Any) -> Any:  # noqa: ANN401 - any method of a process
    """Return what the method returns; None: the process has ended, or is another user's."""
    import psutil  # noqa: PLC0415 - if a limit was exceeded

    try:
        return method(**options)
    except psutil.Error:
        return None
