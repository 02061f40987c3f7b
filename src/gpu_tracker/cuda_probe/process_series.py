"""Time series made of successive reports: one row for each process on each GPU, with rates since the report before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_tracker.cuda_probe.report import CudaReport, ProcessReport
    from gpu_tracker.cuda_usage import CUDADevice

_PERCENT = 100
_REPORTED_AFTER_END = 300.0
"""Seconds for which a program that has ended is still reported: who asks every minute gets its last figures."""


class RowKey(NamedTuple):
    """Whose figures a row has, and on which GPU."""

    pid: int
    program: str
    uuid: str | None
    """None: which GPU that was is not known."""


class Row(NamedTuple):
    """What the program runs of one process did on one GPU; those with the same name count together."""

    launches: int
    launch_to_sync_seconds: float | None
    synchronisations: int
    copies: int
    allocations: int
    frees: int
    in_use_bytes: float
    max_bytes: float
    active: float | None
    """The part of the time since the report before, from 0 to 1."""
    used_cores: float | None
    """On average since the report before."""


class ProcessKey(NamedTuple):
    """Whose figures those are that no GPU has."""

    pid: int
    program: str


class Failure(NamedTuple):
    """Failed calls of a process."""

    pid: int
    program: str
    function: str
    error: str


class Series(NamedTuple):
    """All of it, at one moment."""

    rows: Mapping[RowKey, Row]
    streams: Mapping[ProcessKey, int]
    """Streams to which a process has launched."""
    failures: Mapping[Failure, int]


class _Spent(NamedTuple):
    """What a program run has had on a GPU until a report."""

    active_seconds: float | None
    core_seconds: float | None


class ProcessSeries:
    """Turns reports, one after the other, into series; holds only what the last report has."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._spent: dict[tuple[int, int | None], _Spent] = {}
        """By program run and its own number of the GPU."""
        self._ended: dict[int, float] = {}
        """By program run: when it was first reported as ended."""

    def of(self, report: CudaReport, programs: Mapping[int, str]) -> Series:
        """Return the series of a report.

        :param programs: Process ID -> what it is called; the others have the kernel's names.
        """
        elapsed = report.seconds - self._seconds
        spent: dict[tuple[int, int | None], _Spent] = {}
        rows: dict[RowKey, Row] = {}
        streams: dict[ProcessKey, int] = {}
        failures: dict[Failure, int] = {}
        for process in self._reported(report):
            program = programs.get(process.pid, process.name)
            for device in process.devices:
                run = process.run, device.ordinal
                spent[run] = _spent(device, process.seconds)
                row = _row(device, self._spent.get(run, _Spent(0.0, 0.0)), spent[run], elapsed)
                key = RowKey(process.pid, program, device.uuid)
                rows[key] = _combined(rows[key], row) if key in rows else row
            owner = ProcessKey(process.pid, program)
            streams[owner] = streams.get(owner, 0) + process.streams
            for failed in process.failures:
                failure = Failure(process.pid, program, failed.function, failed.error_name)
                failures[failure] = failures.get(failure, 0) + failed.count
        self._seconds, self._spent = report.seconds, spent
        return Series(rows, streams, failures)

    def _reported(self, report: CudaReport) -> Iterator[ProcessReport]:
        """Yield the program runs that are reported: those that run, and those that have ended lately."""
        ended: dict[int, float] = {}
        for process in report.processes:
            if process.ended:
                ended[process.run] = self._ended.get(process.run, report.seconds)
                if report.seconds - ended[process.run] > _REPORTED_AFTER_END:
                    continue
            yield process
        self._ended = ended


def _spent(device: CUDADevice, seconds: float) -> _Spent:
    cores = None if device.used_cores is None else device.used_cores * seconds
    return _Spent(device.launch_to_sync_seconds, cores)


def _row(device: CUDADevice, before: _Spent, now: _Spent, elapsed: float) -> Row:
    active = _rate(before.active_seconds, now.active_seconds, elapsed)
    return Row(
        launches=device.launches,
        launch_to_sync_seconds=device.launch_to_sync_seconds,
        synchronisations=device.synchronisations,
        copies=device.copies,
        allocations=device.allocations,
        frees=device.frees,
        in_use_bytes=device.memory_current,
        max_bytes=device.memory_max,
        active=None if active is None else min(1.0, active),
        used_cores=_rate(before.core_seconds, now.core_seconds, elapsed),
    )


def _rate(before: float | None, now: float | None, elapsed: float) -> float | None:
    return None if before is None or now is None or elapsed <= 0 else max(0.0, now - before) / elapsed


def _combined(one: Row, other: Row) -> Row:
    """Return two program runs, or two numbers of one GPU, as one."""
    active = _sum(one.active, other.active)
    return Row(
        launches=one.launches + other.launches,
        launch_to_sync_seconds=_sum(one.launch_to_sync_seconds, other.launch_to_sync_seconds),
        synchronisations=one.synchronisations + other.synchronisations,
        copies=one.copies + other.copies,
        allocations=one.allocations + other.allocations,
        frees=one.frees + other.frees,
        in_use_bytes=one.in_use_bytes + other.in_use_bytes,
        max_bytes=max(one.max_bytes, other.max_bytes),
        active=None if active is None else min(1.0, active),
        used_cores=_sum(one.used_cores, other.used_cores),
    )


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
