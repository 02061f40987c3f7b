"""The tail of a recording that is being written: each reading has what was committed since the one before.

Nothing that was read is kept, and a recording is never read twice.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.recording.reading.database import Database
from gpu_tracker.recording.reading.device_rows import (
    read_gpu_samples,
    read_gpus,
    read_process_samples,
    read_processes,
)
from gpu_tracker.recording.reading.meta import read_meta
from gpu_tracker.recording.reading.recording import last_time, read_columns
from gpu_tracker.recording.reading.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    from gpu_tracker.recording.reading.model import Gpu, GpuSample, Meta, ProcessRecord, ProcessSample
    from gpu_tracker.recording.reading.samples import Values

    Peaks = tuple[float | None, float | None, float | None]
    """Bytes in use, those of the tracked processes, and percent."""

_MICRO = 1e6
_GPU_MINUTES = 300_000_000
"""Microseconds before the last sample in which the samples of GPUs are read one by one."""
_AT_ONCE = 3_600_000_000
"""Microseconds of which the peaks are read at once: some milliseconds in which a recorder would have to wait."""
_MOST_PARTS = 10_000
"""Parts in which the peaks are read at most, of a made-up recording that is longer than a year."""
_RECENT = 5_000_000
"""Microseconds before the last sample in which the first reading takes the samples of processes."""
_LARGEST = 2**63 - 1
_MOST_REGIONS = 1000
"""Open regions that are read at most."""
_SCAN_SHARE = 20
"""A search for open regions, which looks at all, is followed by a pause so many times as long."""


class OpenRegion(NamedTuple):
    """A region that has not ended.

    :ivar parent_id: The region in which it was begun.
    :ivar attributes: What was given with the name: a JSON object.
    :ivar start: Seconds since the first sample, at its begin.
    """

    id: int
    parent_id: int | None
    process_id: int
    name: str
    attributes: str | None
    start: float


class Tail:
    """What is added to a recording. Use it as a context manager, or close it.

    :param path: The recording.
    :raises RecordingError: where it is none, or cannot be read.
    :ivar columns: The columns of the samples.
    """

    def __init__(self, path: str | os.PathLike[str], *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.path = os.fsdecode(path)
        self._monotonic = monotonic
        self._database = Database(self.path)
        try:
            self.columns, self._stored = read_columns(self._database)
        except BaseException:
            self._database.close()
            raise
        self._after: int | None = None
        self._after_gpus: tuple[int, int] | None = None
        self._after_processes: tuple[int, int] | None = None
        self._open_regions: list[OpenRegion] = []
        self._next_scan = float('-inf')

    def __enter__(self) -> Self:
        """Return the tail."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def read_meta(self) -> Meta:
        """Return what run it is, and how it has ended if it has."""
        with self._database as database:
            return read_meta(database)

    def is_written(self) -> bool:
        """Return whether a sampler may still write it: one that does has it locked.

        True also where that cannot be known.
        """
        if sys.platform == 'win32':
            return True
        import fcntl  # noqa: PLC0415 - not on every system

        # Between two readings: SQLite's own locks would be lost with a descriptor that is closed.
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False  # it was removed
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True  # locked, or the file system has no locks
        finally:
            os.close(handle)
        return False

    def samples(self, names: Sequence[str]) -> Iterator[list[Values]]:
        """Yield the new samples, some at a time, as columns: first the times in seconds, then those of ``names``."""
        last = last_time(self._database)
        if last is None or (self._after is not None and last <= self._after):
            return
        yield from Samples(self._database, self._stored, self._after, last).batches(names)
        self._after = last

    def gpus(self) -> list[Gpu]:
        """Return the GPUs that were read so far."""
        return list(read_gpus(self._database))

    def gpu_peaks(self) -> dict[int, Peaks]:
        """Return the largest memory, memory of the tracked processes and utilization of each GPU so far, by its number.

        What :meth:`gpu_samples` yields from then on are samples of the last minutes and later ones.
        """
        last = self._after
        if last is None:
            return {}
        self._after_gpus = last - _GPU_MINUTES, _LARGEST
        parts = min(last // _AT_ONCE + 1, _MOST_PARTS)
        of_gpus = Samples(self._database, self._stored, None, last).of_each_gpu([gpu.id for gpu in self.gpus()], parts)
        return {
            gpu: (series['ram'].largest, series['combined_ram'].largest, series['utilization'].largest)
            for gpu, (_, _, series) in of_gpus.items()
        }

    def gpu_samples(self) -> Iterator[GpuSample]:
        """Yield what each GPU showed at each new sample."""
        for sample in read_gpu_samples(self._database, self._after_gpus):
            self._after_gpus = round(sample.t * _MICRO), sample.gpu
            yield sample

    def process_samples(self) -> Iterator[ProcessSample]:
        """Yield what each process showed at each new sample; the first time, at those of the last seconds."""
        if self._after_processes is None:
            if self._after is None:
                return
            self._after_processes = self._after - _RECENT, _LARGEST
        for sample in read_process_samples(self._database, self._after_processes):
            self._after_processes = round(sample.t * _MICRO), sample.process
            yield sample

    def process(self, number: int) -> ProcessRecord | None:
        """Return the process with that number; None where there is none."""
        return next(read_processes(self._database, since=number - 1, until=number), None)

    def open_regions(self) -> list[OpenRegion]:
        """Return the regions that have not ended, in the order of their start.

        All regions have to be searched for them. Where these are so many that it takes long, the result is some seconds
        old.
        """
        began = self._monotonic()
        if began >= self._next_scan:
            self._open_regions = self._search_open_regions()
            now = self._monotonic()
            self._next_scan = now + (now - began) * _SCAN_SHARE
        return self._open_regions

    def _search_open_regions(self) -> list[OpenRegion]:
        columns = 'id', 'parent', 'pid', 'name', 'attributes', 'start'
        rows = islice(self._database.rows('regions', columns, where='stop IS NULL'), _MOST_REGIONS)
        found = [
            OpenRegion(number, parent, pid, name, attributes, start / _MICRO)
            for number, parent, pid, name, attributes, start in rows
        ]
        return sorted(found, key=lambda region: (region.start, region.id))
