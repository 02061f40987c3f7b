"""Orphans: descendants whose parent had ended before a sample saw them."""

from __future__ import annotations

from gpu_tracker.processes import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_tracker.processes.files import ProcessFiles
    from gpu_tracker.processes.process import Process

_INIT = 1


class Orphans:
    """Finds the orphans of a tree. The kernel hands them to init, or to a subreaper above the root.

    The launcher of a command is a subreaper, so it has all orphans of the command and no others. In a program that
    tracks itself, and with a process that runs already, there is no launcher. Then an orphan is known by a process
    group or session that a member has made, as a copy of the root, or by the root's session if a descendant has just
    ended. Others of the same user are suspects: each may be an orphan of the tree, or of another program.

    :param launcher: The pid of the launcher; None: there is none.
    :param own_pid: The sampler. It is an orphan of the tracker, so its parent adopts the orphans of the root as well.
    """

    def __init__(self, root: Process, launcher: int | None, own_pid: int, files: ProcessFiles) -> None:
        self._root = root
        self._launcher = launcher
        self._files = files
        sampler = files.open(own_pid)
        self._adopters = {_INIT}
        self._tracked_since = root.start
        if sampler is not None:
            files.close(sampler)
            self._tracked_since = sampler.start
            if sampler.parent != root.pid:
                self._adopters.add(sampler.parent)
        parent = files.open(root.parent) if root.parent else None
        image = stat.image(root.raw)
        is_copy = parent is not None and image in (stat.image(parent.raw), stat.NO_IMAGE)
        self.root_is_copy = is_copy and launcher is None
        """The root may have the program image of its parent, and share pages with it."""
        if parent is not None:
            files.close(parent)
        self._root_image = None if parent is None or is_copy else image
        self._groups_before = {root.group, root.session} - {root.pid}
        """Process group and session that the root was in from the start: others may be in them as well."""
        self.are_expected = False
        """A descendant has just ended."""
        self.suspects: list[int] = []
        """Processes, seen since this was reset, that may be orphans of the tree or of other programs."""

    def may_adopt(self, pid: int) -> bool:
        """Return whether orphans of the tree may be handed to the process ``pid``."""
        return pid == self._launcher or pid in self._adopters

    def member_for(self, process: Process, members: Mapping[int, Process], gone: Iterable[Process]) -> int:
        """Return the pid of a member through which ``process`` belongs to the tree, else its parent's.

        :param gone: The members that have disappeared since the previous sample.
        """
        if process.parent == self._launcher:
            return self._root.pid
        if process.parent not in self._adopters:
            return process.parent
        for group in (process.group, process.session):
            member = self._maker_of(group, members, gone)
            if member is not None:
                return member
        if self._launcher is None and process.start >= self._tracked_since and process.user == self._root.user:
            if self._is_copy_of_root(process):
                return self._root.pid
            if self._may_be_of_root(process) and not self._files.is_sampler(process):
                if self.are_expected and process.session == self._root.session != 0:
                    return self._root.pid
                self.suspects.append(process.pid)
        return process.parent

    def _is_copy_of_root(self, process: Process) -> bool:
        """Return whether ``process`` was forked by the root or by a copy of it, and nobody has called execve(2) since.

        Without random addresses, all runs of one program have the same image. Mostly they have another session.
        """
        return stat.image(process.raw) == self._root_image and process.session == self._root.session

    def _may_be_of_root(self, process: Process) -> bool:
        """Return whether its session is that of the root, or may have been made by a descendant.

        A session that is led by a process older than the root was made by neither.
        """
        if process.session == self._root.session:
            return True
        leader = self._files.open(process.session)
        if leader is None:
            return True
        self._files.close(leader)
        return leader.start >= self._root.start

    def _maker_of(self, group: int, members: Mapping[int, Process], gone: Iterable[Process]) -> int | None:
        """Return a member that stands for the maker of a process group or session; None if no member has made it.

        A member has made it if it leads it, or has led it until the previous sample (its number stays taken as long as
        the group has a process), or if a member is in it that is not in the root's groups from the start.
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
