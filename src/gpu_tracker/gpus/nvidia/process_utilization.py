"""How busy each process keeps a GPU: lately, by the driver's process samples, and over its life, by its account."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pynvml

from gpu_tracker.gpus.model import Account, GpuProcess
from gpu_tracker.gpus.nvidia.calls import CLOCK_TOLERANCE_US, FULL, quietly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from collections.abc import Set as AbstractSet
    from ctypes import c_void_p

    Percents = tuple[int | None, int | None]
    """Of the time that the GPU worked for a process, and that its memory was read or written for it."""

_IDLE = {pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_NOT_FOUND}
"""How drivers answer that no process was busy; pynvml makes an error of a success without samples."""

_NO_SUCH_CALL = {pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
"""How GPUs answer that are in MIG mode, virtual or older than Maxwell, and drivers that are too old."""

_NONE: Percents = (0, 0)
UNKNOWN: Percents = (None, None)

_LONGEST_PERIOD_US = 1_000_000
"""How far apart the driver's samples may be: nvmlUtilization_t in nvml.h."""


class ProcessUtilization:
    """How busy the processes of one GPU keep it.

    :param wall_clock: Returns the seconds since 1970, by which the driver stamps its samples.
    :ivar keeps_accounts: Whether accounting mode is on, as far as is known.
    :ivar failure: The code with which the driver has refused process samples at the last reading; None: it has not.
    """

    def __init__(self, wall_clock: Callable[[], float]) -> None:
        self.keeps_accounts = False
        self.failure: int | None = None
        self._wall_clock = wall_clock
        self._has_samples = True
        self._last_seen = 0
        self._last_read: int | None = None
        self._listed: frozenset[int] = frozenset()

    def ask_mode(self, handle: c_void_p) -> bool:
        """Find out whether accounting mode is on."""
        mode = quietly(lambda: pynvml.nvmlDeviceGetAccountingMode(handle))
        self.keeps_accounts = mode == pynvml.NVML_FEATURE_ENABLED
        return self.keeps_accounts

    def forget(self) -> None:
        """Ask for samples again: the GPU has been opened anew, or its MIG mode has changed."""
        self._has_samples = True

    def of(self, handle: c_void_p, pids: AbstractSet[int]) -> dict[int, Percents]:
        """Return how busy these processes have kept the GPU since the last reading, or in the second before the first.

        Empty if that is unknown.
        """
        self.failure = None
        samples = self._samples(handle, pids) if self._has_samples and pids else None
        return {} if samples is None else dict.fromkeys(pids, _NONE) | samples

    def added_to(
        self, processes: list[GpuProcess], handle: c_void_p, followed: frozenset[int] = frozenset()
    ) -> list[GpuProcess]:
        """Return the listed processes with their utilization, and followed ones that only the samples show.

        Such a process came and went between two readings: its memory is unknown. One that was listed at the last
        reading has left the GPU since: it has no memory there now.
        """
        listed = frozenset(process.pid for process in processes)
        percents = self.of(handle, listed | followed)
        before, self._listed = self._listed, listed
        gone = [
            GpuProcess(pid, 0 if pid in before else None, utilization=gpu, memory_utilization=memory)
            for pid, (gpu, memory) in percents.items()
            if gpu and pid not in listed
        ]
        return [_with(process, percents.get(process.pid, UNKNOWN)) for process in processes] + gone

    def so_far(self, handle: c_void_p, pids: AbstractSet[int]) -> dict[int, Percents]:
        """Return how busy these processes have kept the GPU over their lives; one without an account is left out."""
        if not self.keeps_accounts:
            return {}
        accounts = self._accounts(handle, pids)
        # One that is not running is that of an earlier process with the same ID.
        return {pid: _percents(stats) for pid, stats in accounts.items() if stats.isRunning}

    def ended(self, handle: c_void_p, pids: Iterable[int]) -> tuple[Account, ...]:
        """Return the accounts that are kept of processes which are no longer on the GPU."""
        if not self.keeps_accounts:
            return ()
        accounts = self._accounts(handle, pids)
        return tuple(Account(pid, *_percents(stats), stats.time) for pid, stats in accounts.items())

    def _accounts(self, handle: c_void_p, pids: Iterable[int]) -> dict[int, pynvml._AccountingStats]:
        """Return the accounts that there are; there is none of a process that was there before the mode was on."""
        accounts = {}
        for pid in pids:
            try:
                accounts[pid] = pynvml.nvmlDeviceGetAccountingStats(handle, pid)
            except pynvml.NVMLError as error:
                if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED:  # switched off meanwhile
                    self.keeps_accounts = False
                    break
        return accounts

    def _samples(self, handle: c_void_p, pids: AbstractSet[int]) -> dict[int, Percents] | None:
        """Return how busy processes have been since the last reading, idle ones left out; None where it is unknown."""
        now = round(self._wall_clock() * 1e6)
        since = since_when(self._last_seen, now, self._last_read)
        try:
            samples = _samples_since(handle, since)
        except pynvml.NVMLError as error:
            if error.value in _IDLE:
                self._last_read = now
                return {}
            self._has_samples = error.value not in _NO_SUCH_CALL
            self.failure = error.value if self._has_samples else None
            return None
        self._last_read = now
        latest = round(self._wall_clock() * 1e6) + CLOCK_TOLERANCE_US
        # Each attribute is read once: pynvml's structures take their time.
        found = [(sample.timeStamp, sample.pid, sample.smUtil, sample.memUtil) for sample in samples]
        percents: dict[int, Percents] = {}
        for stamp, pid, gpu, memory in sorted(found):
            if pid not in pids or not since < stamp <= latest:
                continue
            if gpu <= FULL and memory <= FULL:
                percents[pid] = (gpu, memory)
                self._last_seen = stamp
            else:  # garbage, which tells nothing of the process, not even that it was idle
                percents.setdefault(pid, UNKNOWN)
        return percents


def since_when(last_seen: int, now: int, last_read: int | None) -> int:
    """Return the moment after which samples are new, all in microseconds.

    That is the time stamp of the last sample that was seen. The driver's figures are means over all samples since the
    moment. So if the GPU was idle before the last reading, the moment is that reading. At the first reading, and if the
    clock was set back, it is a second ago.
    """
    if last_read is None or last_read > now:
        last_read = now - _LONGEST_PERIOD_US
    is_recent = last_read - _LONGEST_PERIOD_US <= last_seen <= now + CLOCK_TOLERANCE_US
    return last_seen if is_recent else last_read


def _with(process: GpuProcess, percents: Percents) -> GpuProcess:
    return process._replace(utilization=percents[0], memory_utilization=percents[1])


def _samples_since(handle: c_void_p, since: int) -> list[pynvml._ProcessUtilizationSample]:
    try:
        return pynvml.nvmlDeviceGetProcessUtilization(handle, since)
    except pynvml.NVMLError as error:
        if error.value != pynvml.NVML_ERROR_INSUFFICIENT_SIZE:
            raise
        return pynvml.nvmlDeviceGetProcessUtilization(handle, since)  # processes came between the call's two steps


def _percents(stats: pynvml._AccountingStats) -> Percents:
    """Return what an account tells; NOT_AVAILABLE is garbage like any other large number."""
    return percent(stats.gpuUtilization), percent(stats.memoryUtilization)


def percent(number: int) -> int | None:
    """Return a percentage, None where it is garbage."""
    return number if number <= FULL else None
