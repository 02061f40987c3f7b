"""What a group of processes can have had resident at most: the sum of their high-water marks, while that is sure."""

from __future__ import annotations

from gpu_tracker.sources.reading import larger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_tracker.process_tree import ProcessTree
    from gpu_tracker.process_tree.process import Process

    Sums = tuple[int | None, int | None, int | None]
    """Bytes of root, descendants and both."""


class UpperBounds:
    """Adds up marks until something may have been larger than any mark that was read.

    That is so once a process has ended after its last page faults were read about, once one has called execve(2), with
    which its mark begins anew, and once a member has waited for a child, which may never have been seen.
    """

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self._known_of_main = self._known_of_others = True
        self._started: dict[Process, tuple[int, int]] | None = None
        """For each process the faults of its children and the programs that it had run when it was first seen."""
        self._most: list[int | None] = [None, None, None]
        self._final: set[Process] = set()
        """Zombies of which all is known."""

    def sums(self, counted: Sequence[Process]) -> Sums:
        """Return the marks of root, descendants and both, added up; None where there is none or one was not read yet.

        :param counted: The processes whose memory counts.
        """
        root = self._tree.root
        main = root.peak if root in counted else None
        marks = [process.peak for process in counted]
        known = [mark for mark in marks if mark is not None]
        if not counted or len(known) < len(marks):
            return main, None, None
        return main, sum(known) - (main or 0), sum(known)

    def read(self, counted: Sequence[Process], sums: Sums) -> Sums:
        """Return the bounds of root, descendants and both until now, None where unknown.

        :param sums: What :meth:`sums` has returned at this sample, for which marks have been read.
        """
        if self._known_of_main or self._known_of_others:
            self._look(counted)
        self._most = [larger(most, now) for most, now in zip(self._most, sums, strict=True)]
        all_are_read = not counted or sums[2] is not None
        of_main = self._known_of_main and (all_are_read or sums[0] is not None)
        of_others = self._known_of_others and all_are_read
        main, others, both = self._most
        return main if of_main else None, others if of_others else None, both if of_main and of_others else None

    def _look(self, counted: Sequence[Process]) -> None:
        """Find out what cannot be known any more; what is not asked any more is not kept either."""
        self._look_at_ended()
        if self._started is None:
            self._started = {process: (process.reaped_faults, process.programs) for process in counted}
        for process in self._of_concern(counted):
            reaped_faults, programs = self._started.setdefault(process, (0, process.programs))
            if process.programs != programs:
                self._lose(process)
            if process.reaped_faults != reaped_faults:
                self._known_of_others = False
        if not self._known_of_others:
            root = self._tree.root
            self._started = {process: first for process, first in self._started.items() if process is root}
            self._final &= {root}

    def _look_at_ended(self) -> None:
        for process in self._of_concern(self._tree.gone):
            if process not in self._final:
                self._lose(process)
        for process in self._of_concern(self._tree.members.values()):
            if process.ended and process not in self._final:
                if process.faults == process.peak_reading.faults:
                    self._final.add(process)
                else:
                    self._lose(process)

    def _of_concern(self, processes: Iterable[Process]) -> list[Process]:
        root = self._tree.root
        return [process for process in processes if self._known_of_others or process is root]

    def _lose(self, process: Process) -> None:
        if process is self._tree.root:
            self._known_of_main = False
        elif not process.shares_memory:
            self._known_of_others = False
