"""The sampler's loop: samples on the grid of time, and more often while a command starts."""

from __future__ import annotations

import os
import select
import sys
import time

from gpu_tracker.resources import FIRST, LAST, MIDDLE
from gpu_tracker.sampler.control import ABANDONED, LAUNCH, TARGET_ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.resources import Resource
    from gpu_tracker.resources.budget import Budget
    from gpu_tracker.sampler.grid import Grid
    from gpu_tracker.sampler.limit_watch import LimitWatch
    from gpu_tracker.sampler.lineage import Lineage
    from gpu_tracker.sampler.recorders import Recorders

    class Publish(Protocol):
        """Puts the totals where they are found."""

        def __call__(self, now: float, *, seconds: float, samples: int, last: bool, abandoned: bool) -> None:
            """Publish the totals after a sample.

            :param seconds: From the first sample to this one.
            :param samples: How many there were.
            :param last: Nothing will come after this, perhaps.
            :param abandoned: Nobody is there any more to take the totals.
            """

    class Waiter(Protocol):
        """Waits for the next sample, or for what comes before it."""

        tracked_seconds: float | None
        """How long was tracked, which the tracker sends with its stop."""
        exit_code: int | None
        """How the command has ended, which the tracker sends with the settled totals."""

        def wait(self, seconds: float | None) -> str | None:
            """Return what happens within ``seconds`` (None: without end); None where nothing does."""


_CLOSE_WATCH = 0.003
"""CPU seconds for which a command that has just been started is watched closely: many live no longer."""
_LONGEST_WATCH = 0.02
"""Seconds after which that ends in any case."""
_SHORT_PAUSE = 20e-6
"""Seconds between two readings of it, in which it runs also where there is one core only; they become 80 µs."""
_READINGS_A_SAMPLE = 8
_LONGEST_LAUNCH = 10.0
"""Seconds to wait for a command to be started, before it is watched as any other process.

What is held back uses nothing, and who lets it go may have to wait for a CPU: a command can have ended soon after that.
"""
_CLOSE_PAUSE = 0.001
"""Seconds from the start, or from the launch of a command, to the first sample after it; the next pauses double."""
_LONGEST_CLOSE_PAUSE = 0.5
"""Seconds above which they do so no more, where the interval is longer."""
_EXTRA_PAUSE = 0.1
"""Seconds between two extra samples."""
_YOUNG = 3.0
"""Seconds for which extra samples go on after a process has started or ended."""
_NEVER = float('inf')
_REALTIME_PRIORITY = 1


def wait_for_exec(handle: int, seconds: float) -> None:
    """Sleep until the held command has called execve(2), or could not.

    :param handle: The reading end of a pipe whose other end is closed by exec. What it may say is for the launcher.
    """
    select.select((handle,), (), (), seconds)


class RealtimePriority:
    """Has a block run before all ordinary programs, where that is permitted: for milliseconds, mostly asleep."""

    def __enter__(self) -> None:
        """Raise the priority of this process."""
        self._before: tuple[int, Any] | None = None
        if sys.platform != 'linux':
            return
        try:
            before, priority = os.sched_getscheduler(0), os.sched_getparam(0)
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_REALTIME_PRIORITY))
        except OSError:
            return  # not permitted: on a busy machine a very short command may then be missed
        self._before = before, priority

    def __exit__(self, *_: object) -> None:
        """Give back the priority that it had."""
        if sys.platform == 'linux' and self._before is not None:
            os.sched_setscheduler(0, *self._before)


class Loop:
    """Samples a tree.

    :param resources: What is sampled, in this order.
    :param grid: When samples are due.
    :param interval: Seconds between two of them.
    :param watching: Called when a launch was announced, at the moment from which on the command is watched.
    :param exec_handle: Becomes readable when a command that is held back has called execve(2).
    :param publish: Called after each sample.
    :param monotonic: The clock.
    :param recorders: What records the run; None: nothing.
    :param limits: Compares each sample with the limits of the run; None: there are none.
    :param budget: What extra samples are paid from; None: there are none.
    :param cpu_time: The CPU seconds that this process has used.
    """

    def __init__(
        self,
        *,
        tree: ProcessTree,
        lineage: Lineage,
        resources: Sequence[Resource],
        grid: Grid,
        interval: float,
        publish: Publish,
        watching: Callable[[], None],
        exec_handle: int | None,
        monotonic: Callable[[], float],
        recorders: Recorders | None = None,
        limits: LimitWatch | None = None,
        budget: Budget | None = None,
        cpu_time: Callable[[], float] = time.process_time,
    ) -> None:
        self._tree = tree
        self._lineage = lineage
        self._resources = resources
        self._recorders = recorders
        self._limits = limits
        self._grid = grid
        self._interval = interval
        self._publish = publish
        self._watching = watching
        self._exec_handle = exec_handle
        self._monotonic = monotonic
        self._start = 0.0
        self._samples = 0
        self._budget = budget
        self._cpu_time = cpu_time
        self._launched = -_NEVER
        self._extra_cost = 0.0
        """CPU seconds of the last extra sample."""
        self._close_pause = 0.0
        """The last pause after the start; 0.0: the pauses have reached the interval."""
        self._early_due = _NEVER
        """When a sample is due before the next point of the grid."""

    def first(self) -> None:
        """Make the first sample: everything before it does not count."""
        self._refresh()
        now = self._monotonic()
        for resource in self._resources:
            resource.begin(now)
        self._lineage.begin()
        self._sample(FIRST)

    def run(self, control: Waiter) -> str:
        """Sample until ``control`` returns an end, make the last sample, and return what the end was."""
        grid = self._grid
        grid.begin(self._monotonic())
        if not grid.has_limit:  # which a large tree would exceed
            self._sample_closely()
        while True:
            now = self._monotonic()
            point = min(grid.due, self._early_due)
            wait: float | None
            if self._early_due == _NEVER and self._lineage.has_ended():
                wait = None
                grid.finish(now)
            else:
                wait = min(point, self._commit_due()) - now
            event = control.wait(wait)
            if event is None and self._recorders is not None and self._commit_due() <= self._monotonic() < point:
                self._recorders.commit(self._monotonic())
                continue
            if event == LAUNCH:
                self._watch_launch()
                self._launched = self._monotonic()
                self._sample_closely()
            elif event == TARGET_ENDED or event is None:
                begun = self._monotonic()
                if begun < grid.due:
                    self._sample_between()
                else:
                    grid.sampled(begun)
                    self._sample(MIDDLE)
            else:
                if wait is not None:
                    grid.finish(self._monotonic())
                self._sample(LAST, abandoned=event == ABANDONED)
                return event
            grid.go_on(self._monotonic())
            if event != LAUNCH:
                self._plan_early_sample()

    def _commit_due(self) -> float:
        """Return when what is recorded is to be committed between two samples."""
        return _NEVER if self._recorders is None else self._recorders.due()

    def _sample_closely(self) -> None:
        """Sample soon after the start, since much changes then and many programs end soon."""
        self._close_pause = _CLOSE_PAUSE
        self._early_due = self._monotonic() + _CLOSE_PAUSE
        self._grid.suspend_limit()

    def _plan_early_sample(self) -> None:
        """Double the pause after the start until it reaches the interval. While processes start and end, shorten it."""
        now = self._monotonic()
        if self._close_pause:
            self._close_pause *= 2
            if self._close_pause > min(self._interval, _LONGEST_CLOSE_PAUSE):
                self._close_pause = 0.0
                self._grid.begin_limit(now)
        self._early_due = now + (self._close_pause or _NEVER)
        extra = now + _EXTRA_PAUSE
        if extra < min(self._early_due, self._grid.due - _EXTRA_PAUSE / 2) and self._has_young_processes(now):
            self._early_due = extra

    def _has_young_processes(self, now: float) -> bool:
        """Return whether processes have started or ended lately, and the budget suffices for an extra sample."""
        if self._budget is None or self._interval <= _EXTRA_PAUSE or self._lineage.has_ended():
            return False
        is_young = now - max(self._launched, self._tree.changed_members) < _YOUNG
        return is_young and self._budget.affords_extra_sample(now, self._extra_cost)

    def _sample_between(self) -> None:
        """Make a sample between two points of the grid, and pay for it."""
        budget = self._budget
        spent, begun = 0.0 if budget is None else budget.spent, self._cpu_time()
        self._sample(MIDDLE)
        if budget is not None and not self._close_pause:
            self._extra_cost = max(0.0, self._cpu_time() - begun - (budget.spent - spent))
            budget.spend(self._extra_cost)

    def _watch_launch(self) -> None:
        """Sample without a pause until the command that is being started has run for a while, or has ended."""
        root = self._tree.root
        with RealtimePriority():
            self._watching()
            if self._exec_handle is not None:
                wait_for_exec(self._exec_handle, _LONGEST_LAUNCH)
            used = root.own_cpu + _CLOSE_WATCH
            give_up = self._monotonic() + _LONGEST_WATCH
            readings = 0
            while not root.ended and root.own_cpu < used and self._monotonic() < give_up:
                for resource in self._resources:
                    resource.watch(root)
                time.sleep(_SHORT_PAUSE)
                self._tree.refresh_root()
                readings += 1
                if readings % _READINGS_A_SAMPLE == 0:
                    self._sample(MIDDLE)

    def _sample(self, kind: str, *, abandoned: bool = False) -> None:
        self._refresh()
        if kind == LAST:
            for resource in self._resources:
                resource.request_last()
        now = self._monotonic()
        if kind == FIRST:
            self._start = now
        self._samples += 1
        for resource in self._resources:
            resource.sample(now, kind)
        if kind == LAST:
            for resource in self._resources:
                resource.wait_for_last()
        if self._limits is not None and kind == MIDDLE:
            self._limits.check()
        if self._recorders is not None:
            self._recorders.sampled(now)
        self._publish(
            now,
            seconds=now - self._start,
            samples=self._samples,
            last=kind == LAST or self._lineage.has_ended(),
            abandoned=abandoned,
        )

    def _refresh(self) -> None:
        self._tree.refresh()
        if self._lineage.update():
            for resource in self._resources:
                resource.follow(*self._lineage.members)
