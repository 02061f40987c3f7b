"""How busy a GPU was, and each process kept it, by the samples that the driver keeps; and accounts of processes."""

from __future__ import annotations

import pynvml

from gpu_tracker.gpus.model import Account, GpuProcess
from gpu_tracker.gpus.nvidia.calls import FULL, NO_SUCH_CALL, VALUE_FIELDS, percent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from collections.abc import Set as AbstractSet
    from ctypes import c_void_p

    Percents = tuple[int | None, int | None]
    """Of the time that the GPU worked for a process, and that its memory was read or written for it."""

_IDLE = {pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_NOT_FOUND}
"""How drivers answer that no process was busy; pynvml makes an error of a success without samples."""
_NONE: Percents = (0, 0)
_UNKNOWN: Percents = (None, None)
_CLOCK_TOLERANCE_US = 1_000_000
"""A sample that is stamped further in the future than this is garbage, which some drivers return."""
_LONGEST_PERIOD_US = 1_000_000
"""How far apart the driver's samples may be: nvmlUtilization_t in nvml.h."""


class UtilizationSamples:
    """The driver's buffer of one GPU's utilization.

    :param wall_clock: Returns the seconds since 1970, by which the driver stamps its samples.
    """

    def __init__(self, wall_clock: Callable[[], float]) -> None:
        self._wall_clock = wall_clock
        self._last_seen = 0

    def read(self, handle: c_void_p) -> list[tuple[int, float]] | None:
        """Return what is new since the last reading; NOT_FOUND means that there is no new sample.

        Any other failure is no news: then the utilization of now is asked for, and shows what is wrong.
        """
        try:
            value_type, samples = pynvml.nvmlDeviceGetSamples(
                handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, self._last_seen
            )
        except pynvml.NVMLError as error:
            return [] if error.value == pynvml.NVML_ERROR_NOT_FOUND else None
        field = VALUE_FIELDS[value_type] if value_type < len(VALUE_FIELDS) else 'uiVal'
        latest = self._wall_clock() * 1e6 + _CLOCK_TOLERANCE_US
        values = {sample.timeStamp: float(getattr(sample.sampleValue, field)) for sample in samples}
        kept = sorted((when, v) for when, v in values.items() if self._last_seen < when <= latest and 0 <= v <= FULL)
        if kept:
            self._last_seen = kept[-1][0]
        return kept


class ProcessUtilization:
    """How busy the processes of one GPU keep it.

    :param wall_clock: Returns the seconds since 1970, by which the driver stamps its samples.
    :ivar has_samples: Whether the GPU may have such samples. It has none in MIG mode, or if it is virtual or older than
        Maxwell.
    :ivar failure: The code with which the driver has refused samples at the last reading.
    """

    def __init__(self, wall_clock: Callable[[], float]) -> None:
        self.has_samples = True
        self.failure: int | None = None
        self._wall_clock = wall_clock
        self._last_seen = 0
        self._last_read: int | None = None
        self._listed: frozenset[int] = frozenset()

    def added_to(
        self, processes: tuple[GpuProcess, ...], handle: c_void_p, followed: frozenset[int]
    ) -> tuple[GpuProcess, ...]:
        """Return the listed processes with their utilization, and followed ones that only the samples show.

        It is that since the last reading, or in the second before the first. A process that only the samples show came
        and went between two readings: its memory is unknown. One that was listed at the last reading has left the GPU
        since: it has no memory there now.
        """
        listed = frozenset(process.pid for process in processes)
        before, self._listed = self._listed, listed
        self.failure = None
        pids = listed | followed
        samples = self._samples(handle, pids) if self.has_samples and pids else None
        percents = {} if samples is None else dict.fromkeys(listed, _NONE) | samples
        gone = [
            _with(GpuProcess(pid, 0 if pid in before else None), percents[pid])
            for pid in sorted(percents.keys() - listed)
            if percents[pid][0]
        ]
        return (*(_with(process, percents.get(process.pid, _UNKNOWN)) for process in processes), *gone)

    def _samples(self, handle: c_void_p, pids: AbstractSet[int]) -> dict[int, Percents] | None:
        """Return how busy processes have been since the last reading, idle ones left out; None if it is unknown."""
        now = round(self._wall_clock() * 1e6)
        since = _since_when(self._last_seen, now, self._last_read)
        try:
            samples = _samples_since(handle, since)
        except pynvml.NVMLError as error:
            if error.value in _IDLE:
                self._last_read = now
                return {}
            self.has_samples = error.value not in NO_SUCH_CALL
            self.failure = error.value if self.has_samples else None
            return None
        self._last_read = now
        latest = round(self._wall_clock() * 1e6) + _CLOCK_TOLERANCE_US
        # Each attribute is read once: pynvml's structures take their time.
        found = [(sample.timeStamp, sample.pid, sample.smUtil, sample.memUtil) for sample in samples]
        percents: dict[int, Percents] = {}
        for stamp, pid, gpu, memory in sorted(found):
            if pid not in pids or not since < stamp <= latest:
                continue
            if gpu <= FULL and memory <= FULL:
                percents[pid] = (gpu, memory)
                self._last_seen = stamp
            else:  # garbage, which says nothing of the process, not even that it was idle
                percents.setdefault(pid, _UNKNOWN)
        return percents


def _with(process: GpuProcess, percents: Percents) -> GpuProcess:
    return process._replace(utilization=percents[0], memory_utilization=percents[1])


def _since_when(last_seen: int, now: int, last_read: int | None) -> int:
    """Return the moment after which samples are new, all in microseconds.

    That is the time stamp of the last sample that was seen. The driver's figures are means over all samples since the
    moment. So if the GPU was idle before the last reading, the moment is that reading. At the first reading, and if the
    clock was set back, it is a second ago.
    """
    if last_read is None or last_read > now:
        last_read = now - _LONGEST_PERIOD_US
    is_recent = last_read - _LONGEST_PERIOD_US <= last_seen <= now + _CLOCK_TOLERANCE_US
    return last_seen if is_recent else last_read


def _samples_since(handle: c_void_p, since: int) -> list[pynvml._ProcessUtilizationSample]:
    try:
        return pynvml.nvmlDeviceGetProcessUtilization(handle, since)
    except pynvml.NVMLError as error:
        if error.value != pynvml.NVML_ERROR_INSUFFICIENT_SIZE:
            raise
        return pynvml.nvmlDeviceGetProcessUtilization(handle, since)  # processes came between the call's two steps


def accounts_of(handle: c_void_p, pids: Iterable[int]) -> dict[int, tuple[Account, bool]] | None:
    """Return the accounts that are kept, each with whether the process is running; None if the mode is off.

    There is no account of a process that was there before the mode was switched on.
    """
    accounts = {}
    for pid in pids:
        try:
            stats = pynvml.nvmlDeviceGetAccountingStats(handle, pid)
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
                return None
            continue
        account = Account(pid, percent(stats.gpuUtilization), percent(stats.memoryUtilization), stats.time)
        accounts[pid] = (account, bool(stats.isRunning))
    return accounts
