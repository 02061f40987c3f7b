"""The sampler's one loop: a sample at each point of a fixed grid, until something ends it."""

from __future__ import annotations

import time

from gpu_tracker.sampler.control import ABANDONED, LAUNCH, TARGET_ENDED
from gpu_tracker.sampler.launch import realtime_priority, wait_for_exec
from gpu_tracker.sources.cpu import CpuSource
from gpu_tracker.sources.reading import FIRST, LAST, MIDDLE, SystemReading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from gpu_tracker.aggregation import Aggregator
    from gpu_tracker.process_tree import ProcessTree
    from gpu_tracker.process_tree.process import Process
    from gpu_tracker.sampler.early import EarlySamples
    from gpu_tracker.sampler.grid import Grid
    from gpu_tracker.sources.gpu import GpuSource
    from gpu_tracker.sources.missed_time import MissedTime
    from gpu_tracker.sources.reading import RamReading
    from gpu_tracker.sources.sections import Sections
    from gpu_tracker.sources.system import SystemSource

    class RamSource(Protocol):
        """Reads the memory of a tree."""

        def read(self, now: float, kind: str) -> RamReading:
            """Return what is resident now; the tree has just been refreshed."""

        def watch(self, process: Process) -> None:
            """Look closely at a command that has just been started."""

    class Publish(Protocol):
        """Puts the totals where they are found."""

        def __call__(self, now: float, *, last: bool, abandoned: bool) -> None:
            """Publish them after a sample, which is the last one, perhaps; after which nobody takes them, perhaps."""

    class Waiter(Protocol):
        """Waits for the next sample, or for what comes before it."""

        tracked_seconds: float | None
        """How long was tracked, which the tracker tells with its stop."""

        def wait(self, seconds: float | None) -> str | None:
            """Return what happens within ``seconds`` (None: without end); None where nothing does."""


_CLOSE_WATCH = 0.003
"""CPU seconds for which a command that has just been started is watched closely: many live no longer."""
_LONGEST_WATCH = 0.02
"""Seconds after which that ends in any case."""
_SHORT_PAUSE = 20e-6
"""Seconds between two looks at it, in which it runs also where there is one core only; they become 80 µs."""
_LOOKS_A_SAMPLE = 8
_LONGEST_LAUNCH = 0.25
"""Seconds to wait for a command to be started, before it is watched as any other process."""
_CLOSE_PAUSE = 0.001
"""Seconds from the start, or from the launch of a command, to the first sample after it; the next pauses double."""
_LONGEST_CLOSE_PAUSE = 0.5
"""Seconds above which they do so no more, where the interval is longer."""
_NEVER = float('inf')
_LONGEST_GPU_WAIT = 0.012
"""Seconds that the end of a run waits for the driver: a stop takes 20 ms at most."""
_LONGEST_SECTION_WAIT = 2.0
"""Seconds that it waits for a section that was asked for: nothing tells later what that has not told by then."""


class Loop:
    """Samples a tree.

    :param grid: When samples are due.
    :param interval: Seconds between two of them.
    :param watching: Called when a launch was announced, at the moment from which on the command is watched.
    :param exec_handle: Becomes readable when a command that is held back has called execve(2).
    :param publish: Called after each sample.
    :param monotonic: The clock.
    :param sections: What was asked for beside the documented figures.
    :param early: Samples young processes between the points of the grid, where the system allows that.
    :param missed: Adds the CPU time that counters miss.
    """

    def __init__(
        self,
        *,
        tree: ProcessTree,
        ram: RamSource,
        system: SystemSource,
        gpu: GpuSource,
        aggregator: Aggregator,
        grid: Grid,
        interval: float,
        publish: Publish,
        watching: Callable[[], None],
        exec_handle: int | None,
        monotonic: Callable[[], float],
        sections: Sections | None = None,
        early: EarlySamples | None = None,
        missed: MissedTime | None = None,
    ) -> None:
        self._tree = tree
        self._ram = ram
        self._system = system
        self._gpu = gpu
        self._sections = sections
        self._early = early
        self._missed = missed
        self._aggregator = aggregator
        self._grid = grid
        self._interval = interval
        self._publish = publish
        self._watching = watching
        self._exec_handle = exec_handle
        self._monotonic = monotonic
        self._cpu: CpuSource | None = None
        self._told_changes = -1
        self._members: tuple[int | None, frozenset[int]] = (None, frozenset())
        self._has_seen_descendants = False
        self._older: list[Process] = []
        self._reaped_at_start = 0
        self._asked_at = (-1, 0.0)
        """How often new processes had been listed, and the root's CPU seconds, when it was last asked whether the root
        ignores its children."""
        self._root_ignores_children = False
        self._close_pause = 0.0
        self._close_due = _NEVER

    @property
    def cpu_not_reaped_by_root(self) -> tuple[float, float]:
        """See :attr:`.CpuSource.unreaped` and :attr:`.CpuSource.adopted`, which is a part of it."""
        return (0.0, 0.0) if self._cpu is None else (self._cpu.unreaped, self._cpu.adopted)

    @property
    def has_descendants(self) -> bool:
        """Whether the root has, or has had, a descendant since the first sample, seen or not.

        A child that nobody has seen is told by the page faults that the root has taken over from it, but not where the
        root ignores its children.
        """
        return self._has_seen_descendants or self.faults_of_waited_for != 0

    @property
    def faults_of_waited_for(self) -> int | None:
        """Page faults of the children that the root has waited for since the first sample; no process ends without one.

        None where there are others, and where the root ignores its children, of which it is told nothing.
        """
        tree = self._tree
        root = tree.root
        if any(process is not root for process in tree.members.values()):
            return None
        if self._asked_at != (tree.listings, root.own_cpu):  # else it has not run since: it is as it was
            self._asked_at = (tree.listings, root.own_cpu)
            self._root_ignores_children = tree.ignores_children(root)
        return None if self._root_ignores_children else root.reaped_faults - self._reaped_at_start

    @property
    def older_has_ended(self) -> bool:
        """Whether a descendant that was there at the first sample has ended: what it had before counts at its end."""
        members = self._tree.members
        return any(process.ended or members.get(process.pid) is not process for process in self._older)

    def first(self) -> None:
        """Make the first sample: everything before it does not count."""
        self._sample(FIRST)

    def run(self, control: Waiter) -> str:
        """Sample until ``control`` tells of an end, make the last sample, and return what the end was."""
        grid = self._grid
        grid.begin(self._monotonic())
        if not grid.has_limit:  # which a large tree would exceed
            self._look_closely()
        while True:
            now = self._monotonic()
            point = min(grid.due, self._close_due)
            wait: float | None = point - now
            if self._close_due == _NEVER and self._nothing_left():
                wait = None
                grid.finish(now)
            elif self._early is not None:
                wait = min(point, self._early.due()) - now
            event = control.wait(wait)
            if event is None and self._early is not None and self._monotonic() < point:
                self._sample_early(self._early)
                continue
            if event == LAUNCH:
                self._watch_launch()
                self._look_closely()
            elif event == TARGET_ENDED or event is None:
                grid.sampled(self._monotonic())
                self._sample(MIDDLE)
                self._look_less_closely()
            else:
                if wait is not None:
                    grid.finish(self._monotonic())
                self._sample(LAST, abandoned=event == ABANDONED)
                return event
            grid.go_on(self._monotonic())

    def _look_closely(self) -> None:
        """Sample soon after the start, since much changes then and many programs end soon."""
        self._close_pause = _CLOSE_PAUSE
        self._close_due = self._monotonic() + _CLOSE_PAUSE
        self._grid.suspend_limit()

    def _look_less_closely(self) -> None:
        """Double the pause to the next such sample, until the interval is reached."""
        if self._close_due == _NEVER:
            return
        self._close_pause *= 2
        self._close_due = self._monotonic() + self._close_pause
        if self._close_pause > min(self._interval, _LONGEST_CLOSE_PAUSE):
            self._close_due = _NEVER
            self._grid.begin_limit(self._monotonic())

    def _sample_early(self, early: EarlySamples) -> None:
        reading = early.sample(self._monotonic())
        if reading is not None:
            self._aggregator.add_ram(reading)
        if self._missed is not None:
            self._missed.look()

    def _nothing_left(self) -> bool:
        """Tell whether all processes of the tree have ended, so that there is nothing to sample until the stop."""
        return all(process.ended for process in self._tree.members.values())  # zombies, or none at all

    def _watch_launch(self) -> None:
        """Sample without a pause until the command that is being started has run for a while, or has ended."""
        root = self._tree.root
        with realtime_priority():
            self._watching()
            if self._exec_handle is not None:
                wait_for_exec(self._exec_handle, _LONGEST_LAUNCH)
            used = root.own_cpu + _CLOSE_WATCH
            give_up = self._monotonic() + _LONGEST_WATCH
            looks = 0
            while not root.ended and root.own_cpu < used and self._monotonic() < give_up:
                self._ram.watch(root)
                time.sleep(_SHORT_PAUSE)
                self._tree.refresh_root()
                looks += 1
                if looks % _LOOKS_A_SAMPLE == 0:
                    self._sample(MIDDLE)

    def _sample(self, kind: str, *, abandoned: bool = False) -> None:
        tree = self._tree
        tree.refresh()
        self._tell_members()
        if kind == LAST:
            self._gpu.finish(0.0)  # the driver's thread makes its last reading meanwhile
            if self._sections is not None:
                self._sections.finish(0.0)
        now = self._monotonic()
        system = self._read_system()  # before memory, whose exact reading takes a while, in which CPU time goes by
        ram = self._ram.read(now, kind)
        if self._cpu is None:
            self._reaped_at_start = tree.root.reaped_faults
            self._older = [process for process in tree.members.values() if process is not tree.root]
            tree.refresh()  # times are counted from after the exact reading of the first sample
            self._cpu = CpuSource(tree, self._missed)
            now = self._monotonic()
            system = self._read_system()
        self._aggregator.add(now, ram, self._cpu.read(), system)
        if self._early is not None:
            self._early.grid_sampled(now)
        if kind == LAST:
            self._gpu.finish(_LONGEST_GPU_WAIT)
            if self._sections is not None:
                self._sections.finish(_LONGEST_SECTION_WAIT)
        self._publish(now, last=kind == LAST or self._nothing_left(), abandoned=abandoned)

    def _read_system(self) -> SystemReading:
        return SystemReading(self._system.ram(), self._system.cpu())

    def _tell_members(self) -> None:
        tree = self._tree
        if tree.changes == self._told_changes:
            return
        self._told_changes = tree.changes
        main = None if tree.root_gone else tree.root.pid
        descendants = frozenset([pid for pid in tree.members if pid != main])
        self._has_seen_descendants = self._has_seen_descendants or bool(descendants)
        if self._members != (main, descendants):
            self._members = (main, descendants)
            self._gpu.members(main, descendants)
            if self._sections is not None:
                self._sections.members(main, descendants)
