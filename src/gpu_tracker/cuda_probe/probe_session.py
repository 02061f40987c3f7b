"""A probing session: the probe follows processes, collects in a thread of its own, reports, and detaches."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import threading
import time
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.binaries.cache import BinaryCache, cache_folder
from gpu_tracker.cuda_probe.binaries.file_systems import FileSystems
from gpu_tracker.cuda_probe.binaries.region import read_stat
from gpu_tracker.cuda_probe.collecting import Collector
from gpu_tracker.cuda_probe.cuda_api import Library
from gpu_tracker.cuda_probe.cuda_report import (
    CudaReport,
    RunRecord,
    known_gpus,
    omission_notes,
    process_report,
    reported_kernels,
)
from gpu_tracker.cuda_probe.devices import environment, host_gpus
from gpu_tracker.cuda_probe.engine.attaching import KINDS
from gpu_tracker.cuda_probe.engine.engine import Engine
from gpu_tracker.cuda_probe.libraries import candidates, code_file, libraries_of
from gpu_tracker.cuda_probe.limits import Limits
from gpu_tracker.cuda_probe.program_runs import Programs
from gpu_tracker.errors import ParameterError, TrackerStateError
from gpu_tracker.processes import stat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.cuda_probe.libraries import CodeFile

_INTERVAL = 0.1
"""Seconds between two reads of the ring of events, which wakes the reader earlier where it is half full."""


class Probe:
    """Watches the CUDA calls of processes, from outside.

    :param limits: Bounds of what is held.
    :param libraries: Files to attach to from the start, beside those that are found: each call of theirs is seen from
        the first on.
    :param command: The command that is about to be started: the libraries of its programs are attached to before.
    :param engine: ``uprobe.session``, ``uprobe.multi`` or ``perf``; None: the first of them that the kernel has.
    :param folder: Where the command is started; empty: here.
    :param make_engine: Makes the engine, when the probe is opened.
    :raises gpu_tracker.errors.ParameterError: There is no such engine.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        libraries: Sequence[str] = (),
        command: Sequence[str] = (),
        engine: str | None = None,
        folder: str = '',
        *,
        make_engine: Callable[[Limits, Sequence[CodeFile], str | None], Engine] = Engine,
    ) -> None:
        if engine not in {None, *KINDS}:
            raise ParameterError('engine', engine, ' or '.join(map(repr, KINDS)))
        self._make_engine = make_engine
        self._limits = Limits() if limits is None else limits
        self._libraries = libraries
        self._command = command
        self._kind = engine
        self._folder = folder
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._host = host_gpus.HostGpus()
        self._report: CudaReport | None = None
        self._is_closed = False
        self._threads: list[threading.Thread] = []
        self._stop_reader, self._stop_writer = -1, -1

    def open(self) -> None:
        """Load the probe into the kernel, and attach it to the libraries that programs are likely to use.

        :raises gpu_tracker.errors.ProbeUnavailableError: It cannot be; the text names what is missing.
        :raises gpu_tracker.errors.ParameterError: One of the libraries has no function that is probed.
        """
        if self._engine is not None:
            raise TrackerStateError('The probe was already opened: make a new Probe.')
        named = [_named(path) for path in self._libraries]
        with contextlib.ExitStack() as undoing:
            likely = candidates(os.environ, self._command, begin=self._folder)
            engine = self._make_engine(self._limits, [*named, *likely], self._kind)
            undoing.callback(engine.close)
            for file in named:
                _attach(engine, file)
            self._stop_reader, self._stop_writer = os.pipe()
            undoing.pop_all()
        file_systems = FileSystems()
        self._cache = BinaryCache(cache_folder(), file_systems)
        self._programs = Programs(self._cache)
        self._collector = Collector(engine, self._programs, self._limits, file_systems=file_systems)
        self._collector.report_refused(engine.refused)
        self._engine = engine

    def follow(self, pid: int) -> None:
        """Follow a process, what it has started, and all that these start from now on; again is fine.

        :raises ProcessLookupError: There is no such process.
        """
        self._require_open()
        with self._lock:
            while True:
                members = _members(pid)
                new = {member: number for member in members if (number := self._number(member)) is not None}
                if not new:
                    return
                for member, number in new.items():
                    self._collector.attach_running(number, member)

    def start(self) -> None:
        """Begin to collect, in a thread of its own; another asks the driver for the GPUs, which may take seconds."""
        self._require_open()
        for work in (self._collect, self._ask_driver):
            thread = threading.Thread(target=work, daemon=True, name=f'probe{work.__name__}')
            thread.start()
            self._threads.append(thread)

    def report(self) -> CudaReport:
        """Return what was seen until now; after :meth:`finish`, until then."""
        if self._report is None:
            self._require_open()
            self._read_kernels()
        with self._lock:
            return self._report or self._make_report()

    def finish(self) -> CudaReport:
        """Collect the rest, and return the last report: what happens from now on is in none. Again is fine."""
        if self._report is None:
            self._require_open()
            os.write(self._stop_writer, b'.')
            for thread in self._threads[:1]:  # not the one that asks the driver: it may hang for ever
                thread.join()
            with self._lock:
                self._report = self._make_report()
        return self._report

    def close(self) -> None:
        """Finish, and detach from everything; nothing is left in any process. Again is fine.

        The kernel waits until nothing runs the probe any more: some 0.3 s, and 0.1 s a function with perf events.
        """
        if self._engine is None or self._is_closed:
            return
        with contextlib.ExitStack() as ending:
            for handle in (self._stop_reader, self._stop_writer):
                ending.callback(os.close, handle)
            ending.callback(self._engine.close)
            try:
                self.finish()
            finally:
                self._is_closed = True
            self._cache.save()

    def _require_open(self) -> Engine:
        if self._engine is None:
            raise TrackerStateError('The probe is not open: call open() first.')
        if self._is_closed:
            raise TrackerStateError('The probe is closed.')
        return self._engine

    def _number(self, pid: int) -> int | None:
        """Follow a process; return its number, None where it was followed already, has ended, or has no room."""
        engine = self._require_open()
        try:
            number = engine.follow(pid, has_begun=environment.may_have_begun(pid))
        except OSError:  # the map is full, which is what the note says
            self._collector.notes.not_followed(pid)
            return None
        if number is not None and _has_ended(pid):  # its end was before: nothing will say so when its ID is used again
            engine.unfollow(pid)
            return None
        return number

    def _collect(self) -> None:
        events, notices = self._require_open().handles()
        with select.epoll() as waiting:
            for handle in (events, notices):
                waiting.register(handle, select.EPOLLIN | select.EPOLLET)  # once for each time that the kernel wakes us
            waiting.register(self._stop_reader, select.EPOLLIN)
            while not any(handle == self._stop_reader for handle, _ in waiting.poll(_INTERVAL)):
                with self._lock:
                    self._collector.poll(time.monotonic_ns())

    def _ask_driver(self) -> None:
        host = host_gpus.read_host_gpus()
        with self._lock:
            self._host = host
            self._collector.set_gpus(host)

    def _run_records(self) -> list[RunRecord]:
        """Return what is known of each program run."""
        times = self._collector.sums.processes
        numbered = ((run.process.process, run) for run in self._collector.runs())
        return [RunRecord(run, times.get(number), self._programs.get(number)) for number, run in numbered]

    def _read_kernels(self) -> None:
        """Read the files of the kernels that a report lists: without the lock: events go on meanwhile."""
        with self._lock:
            wanted = [
                (record.program, kernel.address)
                for record in self._run_records()
                for kernel in reported_kernels(record, self._limits.kernels_told)
            ]
        for program, address in wanted:
            if program is not None:
                program.kernel(address)

    def _make_report(self) -> CudaReport:
        engine = self._require_open()
        now = time.monotonic_ns()
        self._collector.poll(now)
        self._collector.close_window(now)
        notes = self._collector.notes
        runs = self._run_records()
        processes = tuple(process_report(record, now, self._limits.kernels_told) for record in runs)
        for image in (record.program.image for record in runs if record.program is not None):
            for file, problem in image.problems.items():
                notes.not_read(file, problem)
            if image.has_unread_kernels:
                notes.not_named()
        return CudaReport(
            seconds=(now - self._collector.began) / 1e9,
            engine=engine.kind,
            processes=processes,
            devices=known_gpus(self._host),
            events=notes.events,
            events_lost=notes.events_lost,
            notes=(*notes.all(), *omission_notes(processes)),
        )


def open_probe(make_probe: Callable[[], Probe], pid: int | None = None) -> Probe:
    """Return a probe that collects already.

    :param pid: A process to follow, with its descendants; None: none yet.
    :raises gpu_tracker.errors.GpuTrackerError: The probe is not available; nothing stays open.
    """
    probe = make_probe()
    try:
        probe.open()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):  # it has ended already
                probe.follow(pid)
        probe.start()
    except BaseException:
        probe.close()
        raise
    return probe


def _named(path: str) -> CodeFile:
    """Return a library that the user has named, whatever it is called.

    :raises gpu_tracker.errors.ParameterError: There is no such file.
    """
    libraries = libraries_of(os.path.basename(path)) or (Library.RUNTIME, Library.DRIVER)
    file = code_file(path, path, libraries)
    if file is None:
        raise ParameterError('libraries', path, 'the path of a file')
    return file


def _members(pid: int) -> list[int]:
    """Return a process and all that it has started.

    :raises ProcessLookupError: There is no such process.
    """
    children: dict[int, list[int]] = {}
    for other in (int(name) for name in os.listdir('/proc') if name.isdecimal()):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            children.setdefault(stat.parent(read_stat(other)), []).append(other)
    if not os.path.exists(f'/proc/{pid}/stat'):
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    members = [pid]
    for member in members:
        members += children.get(member, ())
    return members


def _has_ended(pid: int) -> bool:
    try:
        return stat.is_ending(read_stat(pid)) and len(os.listdir(f'/proc/{pid}/task')) == 1
    except OSError:
        return True


def _attach(engine: Engine, file: CodeFile) -> None:
    """Attach to a library that the user has named.

    :raises gpu_tracker.errors.ParameterError: It cannot be, or has no function that is probed.
    """
    try:
        functions = engine.files.attach(file)
    except OSError as error:
        raise ParameterError('libraries', file.path, f'a file that can be probed ({error.strerror})') from error
    if not functions:
        raise ParameterError('libraries', file.path, 'a file with functions of the CUDA runtime or driver')
