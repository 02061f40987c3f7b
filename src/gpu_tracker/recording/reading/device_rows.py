"""Reads the GPUs and the processes of a recording, and their samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.recording.reading.model import Gpu, GpuSample, ProcessRecord, ProcessSample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_tracker.recording.reading.database import Database

_MICRO = 1e6
_KIB = 1024
_PERCENT = 100


def read_gpus(database: Database) -> Iterator[Gpu]:
    """Yield the GPUs in the order of their numbers."""
    for number, uuid, name, ram in database.rows('gpus', ('id', 'uuid', 'name', 'total_ram')):
        yield Gpu(number, uuid, name, in_bytes(ram))


def read_gpu_samples(database: Database, since: Sequence[int] | None = None) -> Iterator[GpuSample]:
    """Yield what each GPU showed at each sample, in the order of time.

    :param since: The microsecond and the GPU after which the samples begin.
    """
    columns = 't', 'gpu', 'ram', 'combined_ram', 'utilization'
    for t, gpu, ram, combined_ram, utilization in database.rows('gpu_samples', columns, keys=2, since=since):
        yield GpuSample(t / _MICRO, gpu, in_bytes(ram), in_bytes(combined_ram), in_percent(utilization))


def read_processes(
    database: Database, *, since: int | None = None, until: int | None = None
) -> Iterator[ProcessRecord]:
    """Yield the processes in the order in which they were seen.

    :param since: The number after which they begin.
    :param until: The last number.
    """
    columns = 'id', 'pid', 'parent', 'name', 'first_t', 'command'
    key = None if since is None else (since,)
    for number, pid, parent, name, t, command in database.rows('processes', columns, since=key, until=until):
        yield ProcessRecord(number, pid, parent, name, t / _MICRO, command)


def read_process_samples(database: Database, since: Sequence[int] | None = None) -> Iterator[ProcessSample]:
    """Yield what each process showed at each sample, in the order of time.

    :param since: The microsecond and the process after which the samples begin.
    """
    columns = 't', 'process', 'rss', 'cpu', 'n_threads', 'gpu_ram'
    for t, process, rss, cpu, n_threads, gpu_ram in database.rows('process_samples', columns, keys=2, since=since):
        seconds = None if cpu is None else cpu / _MICRO
        yield ProcessSample(t / _MICRO, process, in_bytes(rss), seconds, n_threads, in_bytes(gpu_ram))


def in_bytes(kib: int | None) -> int | None:
    """Return a stored size in bytes."""
    return None if kib is None else kib * _KIB


def in_percent(hundredths: int | None) -> float | None:
    """Return a stored utilization in percent."""
    return None if hundredths is None else hundredths / _PERCENT
