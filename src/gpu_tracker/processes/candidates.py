"""Processes that may have joined a tree: pids that were given of late, and children whose parents have ended.

The kernel counts pids up (``/proc/loadavg`` has the last one), so that the new ones are known without listing
``/proc``, whose cost grows with the processes of the whole machine.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gpu_tracker.processes.files import ProcessFiles
    from gpu_tracker.processes.process import Process

_MOST_TRIED = 512
"""New numbers above which one listing costs less than trying each."""
_ALL = 1 << 22
"""The most numbers that there are (PID_MAX_LIMIT): after the largest one they begin anew."""
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
        self.given: int | None = 0
        """Numbers given to processes and threads of the machine since the first :meth:`take`, at least as many
        as there were; None where that is not known."""
        self._listed: set[str] = set()
        self._unborn: list[tuple[int, float]] = []
        """Numbers that are no processes yet, and until when they may become some."""

    def take(self) -> Iterable[int]:
        """Return the new pids; each is returned once, except after a listing."""
        newest = self._files.newest()
        last, self._newest = self._newest, newest
        self._count(last, newest)
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

    def _count(self, last: int | None, newest: int | None) -> None:
        if newest is None:
            self.given = None
        elif self.given is not None and last is not None:
            self.given += newest - last if newest >= last else _ALL

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


_INIT = 1


class Orphans:
    """Finds the descendants that were forked by one which ended before they were seen.

    They have another parent: the root's launcher, which adopts nobody else's orphans; or init or an ancestor of the
    root, and then their process group or session tells.
    """

    def __init__(self, root: Process, launcher: int | None, files: ProcessFiles) -> None:
        self._root = root.pid
        self._launcher = launcher
        self._groups_before = {root.group, root.session} - {root.pid}
        """Process group and session that the root was in from the start: others may be in them as well."""
        self._adopters = {_INIT, *_ancestors(root, files)}

    def may_adopt(self, pid: int) -> bool:
        """Return whether orphans of the tree may be handed to the process ``pid``."""
        return pid == self._launcher or pid in self._adopters

    def member_for(self, process: Process, members: Mapping[int, Process], gone: Iterable[Process]) -> int:
        """Return the pid of a member through which ``process`` belongs to the tree, else its parent's.

        :param gone: The members that have disappeared since the sample before.
        """
        if process.parent == self._launcher:
            return self._root
        if process.parent in self._adopters:
            for group in (process.group, process.session):
                member = self._maker_of(group, members, gone)
                if member is not None:
                    return member
        return process.parent

    def _maker_of(self, group: int, members: Mapping[int, Process], gone: Iterable[Process]) -> int | None:
        """Return a member that stands for the one which has made a process group or session, None where none has.

        One has where a member leads it, or has led it until the sample before (its number stays taken as long as the
        group has a process), or where a member is in it that is not in those which the root was in from the start.
        """
        if group in members:
            return group
        if any(process.pid == group for process in gone):
            return next(iter(members), None)
        if group in self._groups_before:
            return None
        for pid, process in members.items():
            if group in (process.group, process.session):
                return pid
        return None


def _ancestors(root: Process, files: ProcessFiles) -> list[int]:
    found = []
    pid = root.parent
    while pid > _INIT:
        process = files.open(pid)
        if process is None:
            break
        files.close(process)
        found.append(pid)
        pid = process.parent
    return found
