"""CPU time that no counter of a living process has, from the kernel's task clocks.

What a process has used is in its own CPU clock, and in its parent's counters once that has waited for it. Neither is
left of one that was waited for by somebody outside the tree since the last sample, and no parent ever gets that of its
children where it ignores SIGCHLD. Task clocks go on counting through all of that. They are attached:

- from the start to a process that the tracker has neither started nor runs in: its parent may wait for it at any time;
- to any other tree as soon as a member is seen to ignore its children. Most programs have none, and clocks cost a
  program something at each switch of the processor from one of its threads to another.

Clocks are not as good as counters: switches are missing in them, and interrupts and what the host of a virtual machine
takes are not. So the counters stand as long as they have everything, and from then on what clocks have counted since is
added to what the counters had last.
"""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process

    class Clocks(Protocol):
        """CPU seconds of a tree's processes and of all that they have started since, on a scale of their own."""

        is_complete: bool
        """None of the processes was refused."""

        @property
        def count(self) -> int:
            """How many have to be read."""

        def total(self) -> float:
            """Return those of all of them, samplers that they have started left out."""

        def of_root(self) -> float:
            """Return those of the root's own threads."""

    class Machine(Protocol):
        """What all cores did."""

        @property
        def spent(self) -> tuple[float, float]:
            """CPU seconds that were not idle, and those among them that no program got."""

    OpenClocks = Callable[[ProcessTree, bool], Clocks]
    """Opens the clocks of a tree, with whether its root may vanish unseen. Raises OSError where they are refused."""

_INTERVAL_EACH = 0.002
"""Seconds between two readings of the clocks, for each of them, while the counters have everything: one takes 1 µs."""
_LONGEST_INTERVAL = 1.0
_BASES = 3
"""How many of these readings are kept: a loss may be noticed a sample late."""
_MOST_QUESTIONS = 4
"""Members that are asked at a sample whether they ignore their children: 20 µs each."""
_RUN = 0.05
"""CPU seconds by which a root has run for certain, so that its clocks must have noticed."""


class MissedTime:
    """Adds what the counters of a tree have missed.

    :param machine: As read with this sample.
    :param open_clocks: What attaches task clocks.
    :param root_may_vanish: The root's parent may wait for it before it has been sampled once more.
    :param orphans_are_waited_for: Somebody who reports their times waits for descendants that have lost their parents.
    """

    def __init__(
        self,
        tree: ProcessTree,
        machine: Machine,
        open_clocks: OpenClocks,
        *,
        root_may_vanish: bool,
        orphans_are_waited_for: bool,
    ) -> None:
        self._tree = tree
        self._machine = machine
        self._open_clocks: OpenClocks | None = open_clocks
        self._root_may_vanish = root_may_vanish
        self._orphans_are_waited_for = orphans_are_waited_for
        self._clocks: Clocks | None = None
        self._misses = False
        """Counters do not have everything any more."""
        self._root_is_final = False
        """The root was seen when it had ended and its parent had not waited for it yet."""
        self._bases: deque[_Base] = deque(maxlen=_BASES)
        self._due = 0.0
        self._listings = -1
        self._questions = 0
        self._asked: dict[Process, tuple[int, float, int]] = {}
        """Which question was a member's last; its CPU seconds then, and the page faults of children that it has waited
        for."""
        self._is_first = True
        self._counted = (0.0, 0.0)
        """What the counters had last."""
        self._most = (0.0, 0.0)
        self.is_lower_bound = False
        """More may have been used than is known."""
        if root_may_vanish:
            self._attach()

    @property
    def is_added(self) -> bool:
        """Some of what descendants have used is known from clocks alone."""
        return self._misses and self._clocks is not None

    def add(self, main: float, descendants: float, *, ignored: bool, adopted: bool) -> tuple[float, float]:
        """Return the CPU seconds of the root and of its descendants; the tree has just been refreshed.

        :param main: What the counters have of the root.
        :param descendants: The same of its descendants.
        :param ignored: A member that is gone had a parent which did not get its time.
        :param adopted: Somebody outside the tree has waited for a descendant.
        """
        tree = self._tree
        before, self._counted = self._counted, (main, descendants)
        is_quiet = before == self._counted and tree.listings == self._listings and not tree.root.ended
        if is_quiet and not (ignored or adopted or self._misses):
            if self._clocks is not None and tree.begun >= self._due:
                self._take_base()
            return self._most
        self._root_is_final = self._root_is_final or (tree.root.ended and not tree.root_gone)
        root_vanished = tree.root_gone and not self._root_is_final
        if ignored:
            self._begin_to_miss()
        else:
            self.attach_where_ignored()
        self._is_first = False
        self._misses |= root_vanished or (adopted and not self._orphans_are_waited_for)
        if not self._bases or (not self._misses and tree.begun >= self._due):
            self._take_base()
        clocks = self._clocks
        if clocks is None or (root_vanished and not self._root_may_vanish):
            self.is_lower_bound |= self._misses
        elif self._misses or tree.root.ended:  # it may have ignored children since the last sample
            self.is_lower_bound |= not clocks.is_complete
            main, descendants = self._from_clocks(clocks, main, descendants, root_vanished=root_vanished)
        self._most = (max(self._most[0], main), max(self._most[1], descendants))
        return self._most

    def attach_where_ignored(self) -> None:
        """Attach the clocks where a member ignores its children; also between two samples, the earlier the better."""
        if self._finds_ignoring_member():
            self._begin_to_miss()

    def _begin_to_miss(self) -> None:
        self._misses = True
        if self._clocks is None:
            self._attach()
            self._take_base()
            self.is_lower_bound |= not self._is_first  # nothing is left of children that have ended before

    def _attach(self) -> None:
        if self._open_clocks is None:
            return
        try:
            self._clocks = self._open_clocks(self._tree, self._root_may_vanish)
        except OSError:
            pass  # not permitted, or not on this kernel: what is known then is a lower bound, and that is recorded
        self._open_clocks = None

    def _take_base(self) -> None:
        """Read the clocks after the counters, so that what they count from here on is in these not yet."""
        clocks = self._clocks
        if clocks is None:
            return
        self._due = self._tree.begun + min(_LONGEST_INTERVAL, clocks.count * _INTERVAL_EACH)
        base = _Base(*self._counted, clocks.of_root(), clocks.total(), self._machine.spent)
        before = self._bases[-1] if self._bases else base
        self._bases.append(base)
        run = base.main - before.main
        if self._root_may_vanish and run > _RUN and base.of_root - before.of_root < run / 2:
            # The root has become a program with another user's rights (a set-user-ID file): the kernel takes them away.
            self._clocks = None

    def _from_clocks(
        self, clocks: Clocks, main: float, descendants: float, *, root_vanished: bool
    ) -> tuple[float, float]:
        """Return what counters had before they missed something, and what clocks have counted since."""
        total = clocks.total()
        of_root = clocks.of_root()  # later, so that what the root uses meanwhile is not its descendants'
        for base in self._bases:
            programs = base.share_of_programs(self._machine.spent)
            of_root_since = of_root - base.of_root
            if self._root_may_vanish:
                of_root_since *= programs  # else it is from a counter
            descendants = max(descendants, base.descendants + (total - base.total) * programs - of_root_since)
            if root_vanished and base is self._bases[-1]:
                main = max(main, base.main + of_root_since)
        return main, descendants

    def _finds_ignoring_member(self) -> bool:
        """Return whether a member ignores its children, of those that may have started some since they were asked.

        The root is asked first, then who was not asked for longest; few at a sample. Who got page faults of a
        child meanwhile need not be asked.
        """
        tree = self._tree
        if (self._misses and self._clocks is not None) or tree.listings == self._listings:
            return False  # it does not matter any more, or nothing was started on this machine
        self._listings = tree.listings
        if tree.gone:
            self._asked = {process: last for process, last in self._asked.items() if process.pid in tree.members}
        asked = self._asked
        waiting = []
        for process in tree.members.values():
            last = asked.get(process)
            if last is None or (process.own_cpu != last[1] and process.reaped_faults == last[2]):
                waiting.append((-1 if last is None else last[0], process))
            elif process.reaped_faults != last[2]:
                asked[process] = (*last[:2], process.reaped_faults)
        waiting.sort(key=lambda one: -2 if one[1] is tree.root else one[0])
        for _, process in waiting[:_MOST_QUESTIONS]:
            if tree.ignores_children(process):
                return True
            self._questions += 1
            asked[process] = (self._questions, process.own_cpu, process.reaped_faults)
        return False


class _Base:
    """What counters had at some time, and clocks just afterwards."""

    __slots__ = ('_spent', 'descendants', 'main', 'of_root', 'total')

    def __init__(
        self, main: float, descendants: float, of_root: float, total: float, spent: tuple[float, float]
    ) -> None:
        self.main = main
        self.descendants = descendants
        self.of_root = of_root
        """The root's clocks, read before all clocks."""
        self.total = total
        self._spent = spent

    def share_of_programs(self, spent: tuple[float, float]) -> float:
        """Return the share of the machine's CPU time since then that was no interrupt's and not the host's."""
        whole, lost = (now - before for now, before in zip(spent, self._spent, strict=True))
        return 1 - lost / whole if whole > 0 else 1.0
