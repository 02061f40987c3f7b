"""Which processes that have lost their parents before they were seen belong to a tree."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_tracker.processes.files import ProcessFiles
    from gpu_tracker.processes.process import Process

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
        """Tell whether orphans of the tree may be handed to the process ``pid``."""
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
