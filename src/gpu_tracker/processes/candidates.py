"""Pids that may be those of new processes.

The kernel counts pids up (``/proc/loadavg`` has the last one), so that the new ones are known without listing
``/proc``, whose cost grows with the processes of the whole machine.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpu_tracker.processes.files import ProcessFiles

_MOST_TRIED = 512
"""New numbers above which one listing costs less than trying each."""
_LONGEST_START = 0.1
"""Seconds for which a number that is no process is tried again: a process gets its number some microseconds before it
can be found, and longer where its parent loses the core in between. Threads have such numbers as well, and so have
processes that have ended."""


class NewPids:
    """Names the pids that may be those of new processes.

    :param files: Read for the last pid given, and listed where that is not known.
    :param is_process: Distinguishes a process from a thread, and from a number that nobody has any more. None: nothing
        does, so ``/proc`` is listed each time that a pid was given.
    :param monotonic: Returns the time in seconds.
    """

    def __init__(
        self, files: ProcessFiles, is_process: Callable[[int], bool] | None, monotonic: Callable[[], float]
    ) -> None:
        self._files = files
        self._is_process = is_process
        self._monotonic = monotonic
        self._newest: int | None = None
        self._listed: set[str] = set()
        self._unborn: list[tuple[int, float]] = []
        """Numbers that are no processes yet, and until when they may become some."""

    def take(self) -> Iterable[int]:
        """Return the new pids; each is returned once, except after a listing."""
        newest = self._files.newest()
        last, self._newest = self._newest, newest
        if newest is not None and newest == last and not self._unborn:
            return ()
        if newest is None or last is None or self._is_process is None or not 0 <= newest - last <= _MOST_TRIED:
            self._unborn = []
            return self._list(last, newest)
        now = self._monotonic()
        found = []
        unborn = []
        until = now + _LONGEST_START
        for pid, given_up in [*self._unborn, *[(pid, until) for pid in range(last + 1, newest + 1)]]:
            if self._is_process(pid):
                found.append(pid)
            elif now < given_up:
                unborn.append((pid, given_up))
        self._unborn = unborn
        return found

    def forget(self, pid: int) -> None:
        """Take note that a process is gone: another one may have its number at the next listing."""
        self._listed.discard(str(pid))

    def _list(self, last: int | None, newest: int | None) -> Iterable[int]:
        names = self._files.names()
        if last is not None and newest is not None:  # the numbers given since may be new, whoever had them before
            self._listed = {
                name for name in self._listed if not (name.isdecimal() and _between(last, int(name), newest))
            }
        new = names - self._listed
        self._listed = names
        return [int(name) for name in new if name.isdecimal()]


def _between(last: int, pid: int, newest: int) -> bool:
    """Return whether ``pid`` was given after ``last``, up to ``newest``; at the largest number they begin anew."""
    return last < pid <= newest if last <= newest else pid > last or pid <= newest
