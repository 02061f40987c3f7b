"""A probe from its opening to its report: it follows processes, collects in a thread of its own, and detaches."""

from __future__ import annotations

import os
import select
import threading
import time
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe import reporting
from gpu_tracker.cuda_probe.binaries.cache import BinaryCache, cache_folder
from gpu_tracker.cuda_probe.calls import Library
from gpu_tracker.cuda_probe.collecting import Collector
from gpu_tracker.cuda_probe.devices import host_gpus
from gpu_tracker.cuda_probe.engine.engine import Engine
from gpu_tracker.cuda_probe.libraries.candidates import candidates
from gpu_tracker.cuda_probe.libraries.mapped import code_file, libraries_of
from gpu_tracker.cuda_probe.limits import Limits
from gpu_tracker.cuda_probe.programs import Programs
from gpu_tracker.cuda_probe.report import CudaReport
from gpu_tracker.errors import ParameterError, ProbeUnavailableError
from gpu_tracker.process_tree import open_process_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.cuda_probe.libraries.mapped import CodeFile

_INTERVAL = 0.1
"""Seconds between two looks at the ring of events, which wakes the reader where it is half full before."""
_GRAPHS = '{:,} CUDA graphs were launched: the kernels that they ran are in no figure here.'
_LEFT_OUT = '{:,} programs that have ended are left out: more than the bound "ended" allows.'
_LOST = (
    '{:,} of {:,} events came too fast to be read: active time, used cores and the time of kernels lack them. Counts '
    'and bytes are complete.'
)


class Probe:
    """Watches the CUDA calls of processes, from outside.

    :param limits: Bounds of what is held.
    :param libraries: Files to attach to from the start, beside those that are found: each call of theirs is seen from
        the first on.
    :param command: The command that is about to be started: the libraries of its programs are attached to before.
    :param engine: ``uprobe.multi`` or ``perf``; None: the first of them that the kernel has.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        libraries: Sequence[str] = (),
        command: Sequence[str] = (),
        engine: str | None = None,
    ) -> None:
        self._limits = Limits() if limits is None else limits
        self._libraries = libraries
        self._command = command
        self._kind = engine
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._host = host_gpus.HostGpus()
        self._report: CudaReport | None = None
        self._threads: list[threading.Thread] = []
        self._stop, self._told_to_stop = -1, -1

    def open(self) -> None:
        """Load the probe into the kernel, and attach it to the libraries that programs are likely to use.

        :raises gpu_tracker.errors.ProbeUnavailableError: It cannot be; the text names what is missing.
        :raises gpu_tracker.errors.ParameterError: One of the libraries has no function that is probed.
        """
        named = [_named(path) for path in self._libraries]
        engine = Engine(self._limits, [*candidates(os.environ, self._command), *named], self._kind)
        for file in named:
            if not engine.attach(file):  # it is attached to already: this tells to how many functions
                engine.close()
                raise ParameterError('libraries', file.path, 'a file with functions of the CUDA runtime or driver')
        self._cache = BinaryCache(cache_folder())
        self._programs = Programs(self._cache)
        self._began = time.monotonic_ns()
        self._collector = Collector(engine, self._programs, self._limits, self._began)
        self._engine = engine
        self._stop, self._told_to_stop = os.pipe()

    def follow(self, pid: int) -> None:
        """Follow a process, what it has started, and all that these start from now on; again is fine.

        :raises ProcessLookupError: There is no such process.
        """
        engine = self._opened()
        with self._lock:
            while True:
                members = open_process_tree('proc', pid).members
                new = {member: number for member in members if (number := engine.follow(member)) is not None}
                if not new:
                    return
                for member, number in new.items():
                    self._collector.attach_running(number, member)

    def start(self) -> None:
        """Begin to collect, in a thread of its own; another asks the driver for the GPUs, which may take seconds."""
        for work in (self._collect, self._ask_driver):
            thread = threading.Thread(target=work, daemon=True, name=f'probe{work.__name__}')
            thread.start()
            self._threads.append(thread)

    def report(self) -> CudaReport:
        """Return what was seen until now; after :meth:`close`, until then."""
        with self._lock:
            return self._report or self._make_report()

    def close(self) -> None:
        """Collect the rest, and detach from everything; nothing is left in any process. Again is fine."""
        if self._engine is None or self._report is not None:
            return
        os.write(self._told_to_stop, b'.')
        for thread in self._threads[:1]:  # not the one that asks the driver: it may hang for ever
            thread.join()
        with self._lock:
            self._report = self._make_report()
            self._cache.save()
            self._engine.close()
        os.close(self._stop)
        os.close(self._told_to_stop)

    def _opened(self) -> Engine:
        if self._engine is None:
            raise ProbeUnavailableError('The probe is not open: call open() first.')
        return self._engine

    def _collect(self) -> None:
        events, notices = self._opened().handles()
        with select.epoll() as waiting:
            for handle in (events, notices):
                waiting.register(handle, select.EPOLLIN | select.EPOLLET)  # once for each time that the kernel wakes us
            waiting.register(self._stop, select.EPOLLIN)
            while not any(handle == self._stop for handle, _ in waiting.poll(_INTERVAL)):
                with self._lock:
                    self._collector.look(time.monotonic_ns())

    def _ask_driver(self) -> None:
        host = host_gpus.look()
        with self._lock:
            self._host = host
            self._collector.know_gpus(host)

    def _make_report(self) -> CudaReport:
        engine = self._opened()
        now = time.monotonic_ns()
        self._collector.look(now)
        self._collector.close_window(now)
        runs = self._collector.runs()
        times = self._collector.accumulated.processes
        remarks = self._collector.remarks
        processes = (
            reporting.Seen(run, times.get(run.process.process), self._programs.get(run.process.process)) for run in runs
        )
        notes = list(remarks.all())
        graphs = reporting.graph_launches(runs)
        if graphs:
            notes.append(_GRAPHS.format(graphs))
        if remarks.events_lost:
            notes.append(_LOST.format(remarks.events_lost, self._collector.events + remarks.events_lost))
        if self._collector.archive.left_out:
            notes.append(_LEFT_OUT.format(self._collector.archive.left_out))
        return CudaReport(
            seconds=(now - self._began) / 1e9,
            engine=engine.kind,
            processes=tuple(reporting.process_report(seen, now, self._limits.kernels_told) for seen in processes),
            devices=reporting.device_tags(self._host),
            events=self._collector.events,
            events_lost=remarks.events_lost,
            notes=tuple(notes),
        )


def _named(path: str) -> CodeFile:
    """Return a library that the user has named, whatever it is called.

    :raises gpu_tracker.errors.ParameterError: There is no such file.
    """
    libraries = libraries_of(os.path.basename(path)) or (Library.RUNTIME, Library.DRIVER)
    file = code_file(path, path, libraries)
    if file is None:
        raise ParameterError('libraries', path, 'the path of a file')
    return file
