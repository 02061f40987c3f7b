"""The collector of what the kernel reports, and the totals of program runs, also of those that have ended."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple, cast

from gpu_tracker.cuda_probe.binaries.file_systems import FileSystems
from gpu_tracker.cuda_probe.binaries.program_file import hides_runtime
from gpu_tracker.cuda_probe.cuda_api import Library
from gpu_tracker.cuda_probe.devices.access import uses_driver
from gpu_tracker.cuda_probe.devices.environment import may_have_begun
from gpu_tracker.cuda_probe.engine.kernel_layout import NoticeKind
from gpu_tracker.cuda_probe.kernel_data import HOST_MEMORY
from gpu_tracker.cuda_probe.libraries import mapped_files
from gpu_tracker.cuda_probe.limits import ModelLimits
from gpu_tracker.cuda_probe.model.statistics import Statistics
from gpu_tracker.cuda_probe.model.window import Capacity, WindowSums
from gpu_tracker.cuda_probe.notes import Notes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gpu_tracker.cuda_probe.devices.host_gpus import HostGpus
    from gpu_tracker.cuda_probe.engine.attaching import Refused
    from gpu_tracker.cuda_probe.engine.engine import Engine
    from gpu_tracker.cuda_probe.engine.kernel_layout import Notice
    from gpu_tracker.cuda_probe.kernel_data import (
        DeviceTotals,
        Event,
        FailureTotals,
        KernelTotals,
        ProcessTotals,
        Totals,
    )
    from gpu_tracker.cuda_probe.libraries import CodeFile, FileOnDisk
    from gpu_tracker.cuda_probe.limits import Limits
    from gpu_tracker.cuda_probe.program_runs import Programs


class RunTotals(NamedTuple):
    """All totals of one program run."""

    process: ProcessTotals
    devices: Mapping[int, DeviceTotals]
    """By the run's own number of the GPU."""
    together: DeviceTotals | None
    """The memory of all GPUs together."""
    kernels: tuple[KernelTotals, ...]
    failures: tuple[FailureTotals, ...]
    host: DeviceTotals | None = None
    """Page-locked memory of the host."""


class Archive:
    """Keeps the totals of runs that have ended and are no longer in the kernel.

    :param most: So many runs are kept; more, and the one that ended first is left out.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._runs: dict[int, RunTotals] = {}
        self.left_out = 0
        """Runs that were dropped."""

    def add(self, runs: Iterable[RunTotals]) -> list[int]:
        """Keep runs that have ended; return the numbers of those that were dropped for them."""
        dropped = []
        for run in sorted(runs, key=lambda run: run.process.ended or 0):
            self._runs[run.process.process] = run
            if len(self._runs) > self._most:
                oldest = next(iter(self._runs))
                del self._runs[oldest]
                dropped.append(oldest)
        self.left_out += len(dropped)
        return dropped

    def with_living(self, living: Iterable[RunTotals]) -> list[RunTotals]:
        """Return all runs in the order of their first CUDA calls."""
        runs = {**self._runs, **{run.process.process: run for run in living}}
        return sorted(runs.values(), key=lambda run: run.process.began)


def by_run(totals: Totals) -> list[RunTotals]:
    """Sort what the kernel has by program runs."""
    devices: dict[int, dict[int, DeviceTotals]] = {}
    together: dict[int, DeviceTotals] = {}
    host: dict[int, DeviceTotals] = {}
    kernels: dict[int, list[KernelTotals]] = {}
    failures: dict[int, list[FailureTotals]] = {}
    for device in totals.devices:
        if device.device is None:
            together[device.process] = device
        elif device.device == HOST_MEMORY:
            host[device.process] = device
        else:
            devices.setdefault(device.process, {})[device.device] = device
    for kernel in totals.kernels:
        kernels.setdefault(kernel.process, []).append(kernel)
    for failure in totals.failures:
        failures.setdefault(failure.process, []).append(failure)
    return [
        RunTotals(
            process,
            dict(sorted(devices.get(process.process, {}).items())),
            together.get(process.process),
            tuple(kernels.get(process.process, ())),
            tuple(failures.get(process.process, ())),
            host.get(process.process),
        )
        for process in totals.processes
    ]


_OF_MODEL = ('open_seconds', 'launches_a_span', 'streams', 'kernels', 'processes')
_WINDOW = 1_000_000_000
_RELEASE_INTERVAL = 60_000_000_000
_LOOK = 200_000_000
_MOST_LOOKS = 32
_MOST_TOO_SOON = 10_000
_LOADING = frozenset({NoticeKind.LIBRARIES, NoticeKind.EXEC})
_CUDA = frozenset({Library.RUNTIME, Library.DRIVER})


class Collector:
    """Makes figures of what the kernel reports; used by one thread at a time.

    :param clock: The monotonic clock, in nanoseconds.
    :param file_systems: Those of all files of processes: one that does not answer is left alone.
    """

    def __init__(
        self,
        engine: Engine,
        programs: Programs,
        limits: Limits,
        clock: Callable[[], int] = time.monotonic_ns,
        proc: str = '/proc',
        file_systems: FileSystems | None = None,
    ) -> None:
        self._engine = engine
        self._file_systems = file_systems or FileSystems()
        self._clock = clock
        self._proc = proc
        self.began = clock()
        """When it was made."""
        self._programs = programs
        self._capacities: dict[str, Capacity] = {}
        model = ModelLimits(**{name: getattr(limits, name) for name in _OF_MODEL})
        self._statistics = Statistics(model, self._uuid_of, self._capacities, self.began)
        self._next_window = self.began + _WINDOW
        self._next_release = self.began
        self.sums = WindowSums(limits.ended)
        self.archive = Archive(limits.ended)
        self.notes = Notes()
        self._ended: list[Notice] = []
        self._too_soon: dict[int, str] = {}
        """Names of program runs that ended before their libraries could be seen, whether they called CUDA or not."""
        self._without_functions: set[FileOnDisk] = set()
        """Mapped files that are not looked at again within a minute."""
        self._next_look = self.began
        self._looked_for = 0
        self._gpu_users: set[int] = set()
        """Processes with NVIDIA's device files open that were checked for functions to attach to."""
        self._without_runtime: set[FileOnDisk] = set()
        """Files without a function to attach to that were checked for a hidden runtime."""

    def report_refused(self, refused: Iterable[Refused]) -> None:
        """Report files that could not be attached to from the start."""
        for file, error in refused:
            self.notes.not_probed(file, error)

    def set_gpus(self, host: HostGpus) -> None:
        """Set the GPUs of this machine."""
        self._programs.set_gpus(host)
        if host.problem is not None:
            self.notes.add(f'Which GPU a call went to is not known: {host.problem.rstrip(".")}.')
        for gpu in host.physical:
            if gpu.uuid is not None:
                self._capacities[gpu.uuid] = Capacity(gpu.cores, gpu.memory)

    def poll(self, now: int) -> None:
        """Read all that was reported since the last call."""
        # Before the notices: what has to be known for these events was reported by then.
        waiting = list(self._engine.take_events())
        ended, self._ended = self._ended, []
        self._take_notices(self._engine.take_notices())
        self.notes.events += len(waiting)
        self._statistics.consume(cast('list[Event]', waiting))
        for notice in ended:  # those of the call before: the rest of their events has been taken by now
            self._statistics.end(notice.process, notice.time)
        if now >= self._next_look:
            self._next_look = now + _LOOK
            self._look_for_hidden_users()
        if now >= self._next_window:
            self.close_window(now)
            self._next_window = now + _WINDOW
            self._free_ended_runs()
            self._engine.free_graphs()
            self._release_files(now)

    def close_window(self, now: int) -> None:
        """Add the time since the last window to the figures."""
        self.sums.add(self._statistics.get_and_flush(now))

    def runs(self) -> list[RunTotals]:
        """Read the totals of all program runs, those that have ended included."""
        totals = self._engine.totals()
        runs = self.archive.with_living(by_run(totals))
        self.notes.overflows = totals.overflows
        called = {run.process.process for run in runs}
        self.notes.too_soon = tuple(name for number, name in self._too_soon.items() if number not in called)
        self.notes.left_out = self.archive.left_out
        self.notes.unknown_graph_launches = sum(run.process.unknown_graph_launches for run in runs)
        return runs

    def scan(self, process: int, pid: int, loaded_at: int | None = None) -> bool:
        """Attach to the libraries that a process has loaded, as far as that has not happened.

        :param loaded_at: When it began to load them; None: it ran before the probe.
        :returns: Whether it may call CUDA.
        """
        may_call = has_new_loader = False
        for file in self._mapped_files(pid):
            try:
                is_new = self._engine.files.is_new(file)
                functions = self._engine.files.attach(file)
            except (FileNotFoundError, ProcessLookupError):
                continue  # the process has ended meanwhile
            except OSError as error:
                self.notes.not_probed(file, error)
                continue
            has_new_loader |= is_new and Library.LOADER in file.libraries
            if not functions and Library.RUNTIME in file.libraries and file.path.endswith('/exe'):
                self._check_hidden_runtime(file)
            if not functions and file.mapped is not None:
                self._without_functions.add(file.mapped)
            if not functions or not _CUDA.intersection(file.libraries):
                continue
            may_call = True
            self._programs.loaded_cuda(process, pid)
            if loaded_at is not None and loaded_at < (since := self._engine.files.since(file)):
                if may_have_begun(pid, self._proc):
                    self._engine.missed_calls(pid, process)
                self.notes.attached_late(pid, file.shown, since - loaded_at)
        if has_new_loader:  # what it has loaded since its maps were read, was not reported
            may_call |= self.scan(process, pid, loaded_at)
        return may_call

    def attach_running(self, process: int, pid: int) -> None:
        """Attach to what a process has loaded, and report that it ran before, where it may have called CUDA."""
        self._programs.runs_already(process, pid)
        if self.scan(process, pid):
            self.notes.ran_before(pid)

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
        loading: dict[tuple[int, int], Notice] = {}
        for notice in notices:
            if notice.kind in actions:
                actions[notice.kind](notice)
            if notice.kind == NoticeKind.END:
                self._ended.append(notice)
            if notice.kind in _LOADING:
                loading.setdefault((notice.process, notice.pid), notice)
        for (process, pid), notice in loading.items():
            self._scan_loading(process, pid, notice)

    def _scan_loading(self, process: int, pid: int, notice: Notice) -> None:
        self.scan(process, pid, notice.time)
        try:
            os.readlink(f'{self._proc}/{pid}/exe')
        except (FileNotFoundError, ProcessLookupError):
            if len(self._too_soon) < _MOST_TOO_SOON:
                self._too_soon[process] = notice.name
        except PermissionError:
            pass  # it lives, and is somebody else's: that is reported already

    def _check_hidden_runtime(self, file: CodeFile) -> None:
        if file.identity not in self._without_runtime:
            self._without_runtime.add(file.identity)
            if hides_runtime(file.path):
                self.notes.runtime_hidden(file)

    def _look_for_hidden_users(self) -> None:
        """Report processes that have NVIDIA's device files open, and nothing to attach to."""
        followed = self._engine.followed_pids()
        self._gpu_users.intersection_update(followed)
        pids = [pid for pid in followed if pid not in self._gpu_users]
        self._looked_for += 1
        turns = len(pids) // _MOST_LOOKS + 1
        for pid in pids[self._looked_for % turns :: turns]:
            if uses_driver(pid, self._proc):
                self._gpu_users.add(pid)
                if not any(self._has_functions(file) for file in self._mapped_files(pid)):
                    self.notes.nothing_attached(pid)

    def _has_functions(self, file: CodeFile) -> bool:
        try:
            return not _CUDA.isdisjoint(file.libraries) and self._engine.files.attach(file) > 0
        except OSError:
            return False

    def _mapped_files(self, pid: int) -> tuple[CodeFile, ...]:
        try:
            mapped = mapped_files(pid, self._proc, self._file_systems, self._without_functions)
        except PermissionError:
            self.notes.not_seen(pid)
            return ()
        for file, problem in mapped.out_of_reach:
            self.notes.out_of_reach(file, problem)
        return mapped.files

    def _uuid_of(self, process: int, device: int) -> str | None:
        gpu = self._programs.gpu_of(process, device)
        return None if gpu is None else gpu.uuid

    def _release_files(self, now: int) -> None:
        """Detach from what nobody uses any more, every now and then."""
        if now < self._next_release:
            return
        self._next_release = now + _RELEASE_INTERVAL
        self._without_functions.clear()  # other files may have these numbers by now
        if not self._engine.files.has_many():
            return
        used = (file.identity for pid in self._engine.followed_pids() for file in self._mapped_files(pid))
        self._engine.files.release(set(used))

    def _free_ended_runs(self) -> None:
        """Take what has ended out of the kernel."""
        if not self._engine.ended():
            return
        ended = [run for run in by_run(self._engine.totals()) if run.process.ended is not None]
        for dropped in self.archive.add(ended):
            self._programs.forget(dropped)
        self._engine.forget({run.process.process for run in ended})
