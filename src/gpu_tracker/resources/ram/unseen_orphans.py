"""Whether descendants may have lived outside of everybody's sight: orphans for which no member of the tree waits.

A process that is forked twice, as daemons are, is handed to init or to a subreaper when its parent ends. If that
happens between two samples, neither its parent nor the page faults of whoever has waited for that one say anything of
it. What says that there was none: each process takes a number, and the kernel tells which one was given last.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.processes import ProcessTree


class UnseenOrphans:
    """Compares the numbers that were given with what was seen to end.

    :param tree: Refreshed before each :meth:`settle`.
    """

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self._given = self._given_before = tree.given_to_strangers
        """Numbers that others than members had got when everything was read last, and the time before: what has ended
        before a number was read may show in its parent only at the next reading."""
        self._has_ended = self._was_waited_for = False
        self.may_have_been = False
        """There may have been some."""

    def note_end(self) -> None:
        """Take note that a descendant has ended: what it has started last may have been handed on."""
        self._has_ended = True

    def note_waited_for(self) -> None:
        """Take note that a member has waited for one that was never seen, and that may have had a child."""
        self._was_waited_for = True

    def settle(self) -> None:
        """Find out whether there may have been one since everything was read last."""
        before, self._given_before = self._given_before, self._given
        self._given = given = self._tree.given_to_strangers
        least = 1 if self._has_ended else 2  # it, and the one that was waited for
        if self._has_ended or self._was_waited_for:
            self.may_have_been |= given is None or before is None or given - before >= least
            self._has_ended = self._was_waited_for = False
