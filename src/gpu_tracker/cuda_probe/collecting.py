"""What one look at the kernel brings: notices, events, and once a second a window of times and spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from gpu_tracker.cuda_probe.archive import Archive, by_run
from gpu_tracker.cuda_probe.calls import Library
from gpu_tracker.cuda_probe.engine.notices import NoticeKind
from gpu_tracker.cuda_probe.libraries.mapped import mapped_files
from gpu_tracker.cuda_probe.model.accumulated import Accumulated
from gpu_tracker.cuda_probe.model.limits import ModelLimits
from gpu_tracker.cuda_probe.model.statistics import Statistics
from gpu_tracker.cuda_probe.model.window import Capacity
from gpu_tracker.cuda_probe.remarks import Remarks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpu_tracker.cuda_probe.archive import RunTotals
    from gpu_tracker.cuda_probe.devices.host_gpus import HostGpus
    from gpu_tracker.cuda_probe.engine.engine import Engine
    from gpu_tracker.cuda_probe.engine.notices import Notice
    from gpu_tracker.cuda_probe.events import Event
    from gpu_tracker.cuda_probe.limits import Limits
    from gpu_tracker.cuda_probe.programs import Programs

_WINDOW = 1_000_000_000
_ENDED_IN_KERNEL = 64
"""Runs that have ended and still take room in the kernel, past which it is given back."""
_LOADING = frozenset({NoticeKind.LIBRARIES, NoticeKind.EXEC})
_CUDA = frozenset({Library.RUNTIME, Library.DRIVER})


class Collector:
    """Takes what the kernel tells and makes figures of it; used by one thread at a time.

    :param start: Now, in nanoseconds of the monotonic clock.
    """

    def __init__(self, engine: Engine, programs: Programs, limits: Limits, start: int) -> None:
        self._engine = engine
        self._programs = programs
        self._capacities: dict[str, Capacity] = {}
        model = ModelLimits(
            open_seconds=limits.open_seconds, launches_a_span=limits.launches_a_span, processes=limits.processes
        )
        self._statistics = Statistics(model, self._placed, self._capacities, start)
        self._next_window = start + _WINDOW
        self.accumulated = Accumulated(limits.ended)
        self.archive = Archive(limits.ended)
        self.remarks = Remarks()
        self._ended: list[Notice] = []
        self.events = 0
        """Events that were taken."""

    def know_gpus(self, host: HostGpus) -> None:
        """Take the GPUs of this machine."""
        self._programs.know_gpus(host)
        if host.problem is not None:
            self.remarks.add(f'Which GPU a call went to is not known: {host.problem}.')
        for gpu in host.physical:
            if gpu.uuid is not None:
                self._capacities[gpu.uuid] = Capacity(gpu.cores, gpu.memory)

    def look(self, now: int) -> None:
        """Take all that was told since the last look."""
        # Before the notices: what is to be known for these events has been told by then.
        waiting = list(self._engine.take_events())
        ended, self._ended = self._ended, []
        self._take_notices(self._engine.take_notices())
        self.events += len(waiting)
        self._statistics.consume(cast('list[Event]', waiting))
        for notice in ended:  # of the look before: what has come of their events has been taken by now
            self._statistics.end(notice.process, notice.time)
        if now >= self._next_window:
            self.close_window(now)
            self._next_window = now + _WINDOW
            self._give_back_room()

    def close_window(self, now: int) -> None:
        """Add the time since the last window to the figures."""
        self.accumulated.add(self._statistics.get_and_flush(now))

    def runs(self) -> list[RunTotals]:
        """Read the totals of all program runs, those that have ended included."""
        totals = self._engine.totals()
        self.remarks.overflows = totals.overflows
        return self.archive.with_living(by_run(totals))

    def scan(self, process: int, pid: int, loaded_at: int | None = None) -> None:
        """Attach to the libraries that a process has loaded, as far as that has not happened.

        :param loaded_at: When it began to load them; None: it ran before the probe.
        """
        for file in mapped_files(pid):
            try:
                is_new = self._engine.is_new(file)
                functions = self._engine.attach(file)
            except OSError as error:
                self.remarks.add(f'{file.shown} could not be probed: {error.strerror}.')
                continue
            if not functions or not _CUDA.intersection(file.libraries):
                continue
            self._programs.loaded_cuda(process, pid)
            if is_new and loaded_at is not None:
                self.remarks.attached_late(pid, file.shown, loaded_at)

    def attach_running(self, process: int, pid: int) -> None:
        """Attach to what a process has loaded, and tell that it ran before, where it may have called CUDA."""
        self._programs.runs_already(process, pid)
        if any(_CUDA.intersection(file.libraries) and self._engine.attach(file) for file in mapped_files(pid)):
            self.remarks.ran_before(pid)
        self.scan(process, pid)

    def _take_notices(self, notices: Iterable[Notice]) -> None:
        programs = self._programs
        actions: dict[int, Callable[[Notice], None]] = {
            NoticeKind.FIRST_CALL: programs.called,
            NoticeKind.EXEC: programs.executed,
            NoticeKind.LIBRARIES: programs.changed_libraries,
            NoticeKind.KERNEL_NAME: programs.named_kernel,
            NoticeKind.VARIABLE: programs.changed_variable,
            NoticeKind.END: programs.ended,
            NoticeKind.FORK: programs.forked,
        }
        loading: dict[tuple[int, int], int] = {}
        for notice in notices:
            actions[notice.kind](notice)
            if notice.kind == NoticeKind.END:
                self._ended.append(notice)
            if notice.kind in _LOADING:
                loading.setdefault((notice.process, notice.pid), notice.time)
        for (process, pid), time in loading.items():
            self.scan(process, pid, time)

    def _placed(self, process: int, device: int) -> str | None:
        gpu = self._programs.gpu_of(process, device)
        return None if gpu is None else gpu.uuid

    def _give_back_room(self) -> None:
        """Take what has ended out of the kernel, where it is worth the reading."""
        if self._engine.ended() <= _ENDED_IN_KERNEL:
            return
        ended = [run for run in by_run(self._engine.totals()) if run.process.ended is not None]
        for dropped in self.archive.add(ended):
            self._programs.forget(dropped)
        self._engine.forget({run.process.process for run in ended})
