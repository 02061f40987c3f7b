"""A stream of a process: its launches, closed into spans by what synchronises them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.model.span import Run, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.cuda_probe.limits import ModelLimits


class Stream:
    """Gathers launches; each method that closes some returns their span, or None where there were none.

    A stream does one thing after another: its spans never overlap. Events of other threads can come a little late or
    early; then a span is cut short where it would begin before the one before it has ended, and none is ever negative.

    :param working: The streams that have work: it adds and removes itself.
    :param admitted: Returns the address by which a kernel is reported.
    """

    __slots__ = (
        '_admitted',
        '_cuts',
        '_done_until',
        '_full_at',
        '_launches_a_span',
        '_most_records',
        '_open',
        '_recorded',
        '_run',
        '_working',
    )

    def __init__(self, limits: ModelLimits, working: dict[Stream, None], admitted: Callable[[int], int]) -> None:
        self._open = limits.open_nanoseconds
        self._launches_a_span = limits.launches_a_span
        self._most_records = limits.records
        self._working = working
        self._admitted = admitted
        self._run: Run | None = None
        """The launches since the newest record."""
        self._recorded: deque[Run] = deque()
        """Launches that stand before a record, oldest first."""
        self._cuts = 0
        """How many records had launches before them: the number of the newest recorded run."""
        self._full_at = limits.launches_a_span
        """With so many launches the present run has no room for another."""
        self._done_until = 0
        """Where its last span has ended."""

    def launch(self, time: int, kernel: int, threads: int) -> Span | None:
        """Take a launch: the hot path. A span is closed by a bound only."""
        closed = None
        run = self._run
        if run is None or run.launches >= self._full_at or time - run.newest > self._open:
            if run is not None or self._recorded:
                closed = self._make_room(time)
            run = self._run = Run(time)
            self._working[self] = None
        elif time > run.newest:
            run.newest = time
        elif time < run.begin:
            run.begin = time
        run.launches += 1
        run.threads += threads
        kernels = run.kernels
        try:
            kernels[kernel] += 1
        except KeyError:  # its first launch in this run
            kernel = self._admitted(kernel)
            kernels[kernel] = kernels.get(kernel, 0) + 1
        return closed

    def synchronise(self, time: int) -> Span | None:
        """Record that all launched before ``time`` is done."""
        run = self._run
        if run is not None and not self._recorded and 0 <= time - run.newest <= self._open:  # the hot path
            self._run = None
            del self._working[self]
            begin = max(self._done_until, run.begin)
            self._done_until = end = max(begin, time)
            return Span(begin, end, run.launches, run.threads, run.kernels)
        newest = self._newest()
        if newest is None:
            return None
        if time >= newest:
            return self.expire(time) or self._close(self._take_all(), time)
        return self._close(self._take_older(time), time)

    def record(self) -> int | None:
        """Record that an event is recorded here; return the position, None: nothing is before it."""
        if self._run is not None:
            self._recorded.append(self._run)
            self._full_at -= self._run.launches
            self._run = None
            self._cuts += 1
            if len(self._recorded) > self._most_records:
                oldest = self._recorded.popleft()
                oldest.take(self._recorded[0])  # it is the one that grows
                self._recorded[0] = oldest
        return self._cuts if self._recorded else None

    def complete(self, position: int, time: int) -> Span | None:
        """Record that at ``time`` all before a position is done, as :meth:`record` has returned it."""
        done = position - self._cuts + len(self._recorded)
        if done <= 0:
            return None
        return self.expire(time) or self._close([self._recorded.popleft() for _ in range(done)], time)

    def finish(self, time: int) -> Span | None:
        """Record that nothing of it runs any more: it, its GPU's state or its process is gone."""
        newest = self._newest()
        if newest is None:
            return None
        return self.expire(time) or self._close(self._take_all(), max(time, newest))

    def expire(self, now: int) -> Span | None:
        """Close what nothing has synchronised for too long."""
        newest = self._newest()
        if newest is None or now - newest <= self._open:
            return None
        return self._close(self._take_all(), newest + self._open, is_forced=True)

    def so_far(self, now: int) -> Span | None:
        """Return the span of what is not synchronised yet, as if it ended now; it goes on."""
        if self._newest() is None:
            return None
        runs = [*self._recorded] if self._run is None else [*self._recorded, self._run]
        return self._span(runs, now, is_forced=False)

    def _newest(self) -> int | None:
        """Return when the newest launch was that nothing has synchronised; None: there is none."""
        if self._run is not None:
            return self._run.newest
        return self._recorded[-1].newest if self._recorded else None

    def _make_room(self, time: int) -> Span | None:
        """Close by a bound what must not grow by a launch at ``time``."""
        newest = self._newest()
        if newest is None:
            return None
        expired = self.expire(time)
        if expired is None and (self._run is not None or self._full_at <= 0):
            return self._close(self._take_all(), max(time, newest), is_forced=True)
        return expired

    def _take_all(self) -> list[Run]:
        runs = [*self._recorded]
        self._recorded.clear()
        if self._run is not None:
            runs.append(self._run)
            self._run = None
        return runs

    def _take_older(self, time: int) -> list[Run]:
        """Take what was launched up to ``time``, where something newer has come before its synchronisation."""
        runs: list[Run] = []
        while self._recorded and self._recorded[0].begin <= time:
            runs.append(self._recorded.popleft())
        if not self._recorded and self._run is not None and self._run.begin <= time:
            older, self._run = self._run, self._run.take_newest()
            runs.append(older)
        return runs

    def _close(self, runs: Sequence[Run], time: int, *, is_forced: bool = False) -> Span | None:
        """Make a span of runs that were taken; what is left has room again."""
        self._full_at = self._launches_a_span - sum(run.launches for run in self._recorded)
        if self._newest() is None:
            self._working.pop(self, None)
        if not runs:
            return None
        span = self._span(runs, time, is_forced=is_forced)
        self._done_until = span.end
        return span

    def _span(self, runs: Sequence[Run], end: int, *, is_forced: bool) -> Span:
        run = runs[0]
        if len(runs) > 1:
            run = Run(run.begin)
            for each in runs:
                run.take(each)
        begin = max(run.begin, self._done_until)
        return Span(begin, max(begin, end), run.launches, run.threads, run.kernels, is_forced)
