"""What is missing or inexact in a report, a sentence each."""

from __future__ import annotations

import time

from gpu_tracker.cuda_probe.engine.layout import Overflow

_MOST = 50
_BOUNDS = {
    Overflow.NOTICE: 'Loaded libraries, names and variables of programs were missed {:,} times: too many came at once.',
    Overflow.FOLLOWED: '{:,} processes were not followed: more ran at once than the bound "followed" allows.',
    Overflow.PROCESS: '{:,} threads called CUDA in programs past the bound "processes": these are left out.',
    Overflow.DEVICE: '{:,} calls are left out: more programs and GPUs than four times the bound "processes".',
    Overflow.ALLOCATION: 'Memory may have been freed unseen: {:,} allocations were past the bound "allocations".',
    Overflow.KERNEL: '{:,} launches are counted without their kernel: more kernels than the bound "kernels" allows.',
    Overflow.STREAM: 'There were more streams than told: {:,} launches went to some past the bound "streams".',
    Overflow.THREAD: '{:,} calls are left out: more threads called CUDA at once than the bound "threads" allows.',
    Overflow.FAILURE: '{:,} failed calls are not told: more kinds of them than the bound "failures" allows.',
    Overflow.PEAK: 'The most memory in use may be too low: it could not be told {:,} times.',
}


class Remarks:
    """Collects what users have to know of the figures."""

    def __init__(self) -> None:
        self._told: dict[str, None] = {}
        self.overflows: tuple[int, ...] = ()
        """See :attr:`gpu_tracker.cuda_probe.readings.Totals.overflows`."""

    @property
    def events_lost(self) -> int:
        """Events that found no room."""
        return self.overflows[Overflow.EVENT] if self.overflows else 0

    def add(self, text: str) -> None:
        """Tell a sentence, once."""
        if len(self._told) < _MOST:
            self._told[text] = None

    def ran_before(self, pid: int) -> None:
        """Tell that a process ran before the probe was there."""
        self.add(
            f'Process {pid} ran before the probe: what it had done until then is not told, and memory that it had '
            'allocated counts neither as in use nor as freed.'
        )

    def attached_late(self, pid: int, file: str, loaded_at: int) -> None:
        """Tell that a library could be called before it was attached to."""
        milliseconds = max(time.monotonic_ns() - loaded_at, 0) / 1e6
        self.add(
            f'{file} was attached to {milliseconds:.0f} ms after process {pid} began to load it: what it has called '
            f'until then is not told. To lose nothing, name it before: --library={file}.'
        )

    def all(self) -> tuple[str, ...]:
        """Return all sentences."""
        counted = zip(Overflow, self.overflows, strict=False)
        bounds = (_BOUNDS[place].format(count) for place, count in counted if count and place in _BOUNDS)
        return (*self._told, *bounds)
