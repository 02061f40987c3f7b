"""Keeps the limits of a command where ``enforcing`` cannot: on systems other than Linux.

A descendant is found there as long as those between it and the command run; one that has lost its parent before a limit
was exceeded is not.
"""

from __future__ import annotations

import subprocess
import time

from gpu_tracker import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    import psutil

    from gpu_tracker.limits import Limit, RunLimits
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


_PAUSE = 0.1
"""Seconds between two questions whether a limit was exceeded, and between two scans for what is left."""
_LONGEST_END = 10.0
"""Seconds for which processes that were killed are waited for."""


class PortableEnforcement:
    """The limits of a command that has just been started.

    :param run_limits: Its limits.
    :param session: Its sampler, which compares all but the time; None: it is not measured.
    :param warn: Called with each message about a limit.
    :ivar reason: Which limit has ended the command; None: none has.
    """

    def __init__(self, run_limits: RunLimits, session: Session | None, warn: Callable[[str], object]) -> None:
        self.reason: str | None = None
        self._warn = warn
        self._begun = time.monotonic()
        self._limits = run_limits
        self._session = session
        self._time = run_limits.of(limits.TIME)
        self._watches_samples = bool(run_limits.sampled())
        self._known: set[psutil.Process] = set()

    def wait(self, command: Command) -> int:
        """Return the exit code of the command when it has ended, by itself or by a limit with all that was found."""
        while True:
            try:
                return command.wait(self._longest_wait())
            except subprocess.TimeoutExpired:
                found = self._exceeded()
            if found is not None:
                break
        limit, amount = found
        self.reason = limit.reason
        self._warn(limits.in_words(limit, amount, self._limits.kill_after))
        return self._end(command)

    def _longest_wait(self) -> float | None:
        left = None if self._time is None else max(0.0, self._begun + self._time.value - time.monotonic())
        if not self._watches_samples:
            return left
        return _PAUSE if left is None else min(left, _PAUSE)

    def _exceeded(self) -> tuple[Limit, float] | None:
        """Return a limit that was exceeded, and what was used of it."""
        passed = time.monotonic() - self._begun
        if self._time is not None and passed >= self._time.value:
            return self._time, passed
        if not self._watches_samples:
            return None
        found = None if self._session is None else self._session.exceeded()
        limit = None if found is None else self._limits.of(found[0])
        if found is not None and limit is not None:
            return limit, found[1]
        if self._session is None or self._session.has_ended:
            self._watches_samples = False
            why = limits.UNMEASURED if self._session is None else limits.SAMPLER_ENDED
            self._warn(limits.unkept(self._limits.sampled(), why))
        return None

    def _end(self, command: Command) -> int:
        """End all that is found; return the exit code of the command."""
        import psutil  # noqa: PLC0415 - where a limit was exceeded

        self._known.add(psutil.Process(command.pid))
        deadline = time.monotonic() + self._limits.kill_after
        processes = self._stopped(command)
        for process in processes:
            _call(process.terminate)
        for process in processes:
            _call(process.resume)
        while self._left(command) and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _PAUSE))
        deadline = time.monotonic() + _LONGEST_END
        while (processes := self._stopped(command)) and time.monotonic() < deadline:
            for process in processes:
                _call(process.kill)
            time.sleep(_PAUSE)
        return command.wait()

    def _stopped(self, command: Command) -> list[psutil.Process]:
        """Return all that are left, each stopped: one that forks meanwhile would leave orphans that nobody finds."""
        stopped: list[psutil.Process] = []
        while new := [process for process in self._left(command) if process not in stopped]:
            for process in new:
                _call(process.suspend)
            stopped += new
        return stopped

    def _left(self, command: Command) -> list[psutil.Process]:
        """Return the command and its descendants, as far as they are known and run."""
        import psutil  # noqa: PLC0415 - as above

        for process in tuple(self._known):
            try:
                self._known.update(process.children(recursive=True))
            except psutil.Error:
                pass  # it has ended
        command.poll()  # reaps it: psutil would keep its exit code from us
        return [process for process in self._known if _runs(process)]


def _runs(process: psutil.Process) -> bool:
    import psutil  # noqa: PLC0415 - as above

    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _call(method: Callable[[], None]) -> None:
    import psutil  # noqa: PLC0415 - as above

    try:
        method()
    except psutil.Error:
        pass  # it has ended, or is another user's
