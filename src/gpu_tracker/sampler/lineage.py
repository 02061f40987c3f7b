"""What is known of the descendants of a run's root, those included that no sample has seen."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process
    from gpu_tracker.totals import LineageEvidence


class Lineage:
    """Follows the members of a tree from the first sample on."""

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self._changes = -1
        self.members: tuple[int | None, frozenset[int]] = (None, frozenset())
        """The pid of the root, None where it has ended, and those of its descendants."""
        self._has_seen_descendants = False
        self._older: list[Process] = []
        self._reaped_at_start = 0
        self._asked_at = (-1, 0.0)
        """How often new processes had been listed, and the root's CPU seconds, when it was last asked whether the root
        ignores its children."""
        self._root_ignores_children = False

    def begin(self) -> None:
        """Take the tree as it is for that of the first sample."""
        root = self._tree.root
        self._reaped_at_start = root.reaped_faults
        self._older = [process for process in self._tree.members.values() if process is not root]

    def update(self) -> bool:
        """Take note of the members after a refresh; return whether they are others than before."""
        tree = self._tree
        if tree.changes == self._changes:
            return False
        self._changes = tree.changes
        main = None if tree.root_gone else tree.root.pid
        descendants = frozenset([pid for pid in tree.members if pid != main])
        self._has_seen_descendants = self._has_seen_descendants or bool(descendants)
        before, self.members = self.members, (main, descendants)
        return self.members != before

    def has_ended(self) -> bool:
        """Return whether all processes of the tree have ended, so that there is nothing to sample until the stop."""
        return all(process.ended for process in self._tree.members.values())  # zombies, or none at all

    def record(self) -> LineageEvidence:
        """Return what is known of the descendants."""
        faults = self._faults_of_waited_for()
        return {
            # A child that nobody has seen is known by the page faults that the root has taken over from it, but not
            # where the root ignores its children.
            'has_descendants': self._has_seen_descendants or faults != 0,
            'faults_of_waited_for': faults,
            'older_has_ended': self._older_has_ended(),
            'may_miss_orphans': self._tree.may_miss_orphans,
        }

    def _faults_of_waited_for(self) -> int | None:
        """Return the page faults of the children that the root has waited for; no process ends without one.

        None where there are others, where the root ignores its children, of which it learns nothing, and where these
        faults are not counted, as on other systems than Linux.
        """
        tree = self._tree
        root = tree.root
        if not tree.counts_reaped_faults:
            return None
        if any(process is not root for process in tree.members.values()):
            return None
        if self._asked_at != (tree.listings, root.own_cpu):  # else it has not run since: it is as it was
            self._asked_at = (tree.listings, root.own_cpu)
            self._root_ignores_children = tree.ignores_children(root)
        return None if self._root_ignores_children else root.reaped_faults - self._reaped_at_start

    def _older_has_ended(self) -> bool:
        """Return whether a descendant of the first sample has ended: what it had before counts at its end."""
        members = self._tree.members
        return any(process.ended or members.get(process.pid) is not process for process in self._older)
