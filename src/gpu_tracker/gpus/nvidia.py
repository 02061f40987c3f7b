"""NVIDIA GPUs through NVML, with its quirks; the only module that imports pynvml.

Facts without another source are from nvml.h. Handles are pointers that never compare equal: GPUs are known by UUID.
"""

from __future__ import annotations

import time
from functools import partial

import pynvml

from gpu_tracker.errors import GpuError
from gpu_tracker.gpus.nvidia_errors import describe, explain_failed_init
from gpu_tracker.gpus.reading import Device, DeviceReading, ProcessMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from ctypes import c_void_p
    from typing import TypeVar

    T = TypeVar('T')

_NO_INSTANCE = 0xFFFFFFFF
"""What the driver gives as the instance IDs of a process outside MIG mode."""

_VALUE_FIELDS = ('dVal', 'uiVal', 'ulVal', 'ullVal', 'sllVal', 'siVal', 'usVal')
"""nvmlValueType_t -> the member of the union that holds a sample's value."""

_NO_SUCH_VERSION = {
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
}

_FULL = 100
"""Percent; a larger utilization is garbage."""

_CLOCK_TOLERANCE_US = 1_000_000
"""A sample that is stamped further in the future than this is garbage, which some drivers return."""


def open_backend() -> NvidiaBackend | None:
    """Open the driver; None where there is a library and no driver (code 9) or no library (code 12).

    :raises GpuError: The driver does not work.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value in {pynvml.NVML_ERROR_DRIVER_NOT_LOADED, pynvml.NVML_ERROR_LIBRARY_NOT_FOUND}:
            return None
        raise GpuError(*explain_failed_init(error.value)) from error
    try:
        return NvidiaBackend()
    except pynvml.NVMLError as error:
        raise GpuError(*explain_failed_init(error.value)) from error


class NvidiaBackend:
    """The opened driver; see ``gpu_tracker.gpus.GpuBackend``."""

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        self._messages: list[tuple[str, str]] = []
        self._told: set[tuple[object, ...]] = set()
        self._handles: dict[str, c_void_p] = {}
        self._labels: dict[str, str] = {}
        self._last_seen: dict[str, int] = {}
        self._accounted: set[str] = set()
        self._has_memory_v2 = True
        self._lists = (pynvml.nvmlDeviceGetComputeRunningProcesses, pynvml.nvmlDeviceGetGraphicsRunningProcesses)
        self._devices = tuple(self._open_device(index) for index in range(pynvml.nvmlDeviceGetCount()))

    def devices(self) -> tuple[Device, ...]:
        """Return all GPUs of the machine, those that the driver cannot open included."""
        return self._devices

    def read(self, uuid: str) -> DeviceReading:
        """Look at one GPU."""
        return DeviceReading(self._memory(uuid)[1], self.processes(uuid), self._samples(uuid))

    def processes(self, uuid: str) -> list[ProcessMemory] | None:
        """Return the compute and graphics processes on one GPU, each once for each MIG instance that it uses.

        A process that does both stands in both lists with the same memory. In MIG mode the MIG devices are asked too.
        """
        mig_devices = self._mig_devices(uuid)
        entries = self._listed(uuid, self._handles[uuid])
        for handle in mig_devices:
            in_part = self._listed(uuid, handle)
            if in_part is None:
                continue
            self._name_instance(handle, in_part)
            with_instance = {entry.pid for entry in in_part}
            kept = [e for e in entries or () if e.gpu_instance is not None or e.pid not in with_instance]
            entries = kept + in_part
        return None if entries is None else _without_doubles(entries)

    def utilization(self, uuid: str) -> float | None:
        """Return the percent that the driver reports of now: nvmlDeviceGetUtilizationRates."""
        rates = self._ask(uuid, 'utilization', lambda: pynvml.nvmlDeviceGetUtilizationRates(self._handles[uuid]))
        return float(rates.gpu) if rates is not None and rates.gpu <= _FULL else None

    def peak_memory(self, uuid: str, pid: int) -> int | None:
        """Return a process' peak in accounting mode, where root has switched that on; it is never switched on here."""
        if uuid not in self._accounted:
            return None
        stats = _quietly(lambda: pynvml.nvmlDeviceGetAccountingStats(self._handles[uuid], pid))
        return None if stats is None else stats.maxMemoryUsage

    def take_messages(self) -> list[tuple[str, str]]:
        """Return the messages not taken yet."""
        messages, self._messages = self._messages, []
        return messages

    def close(self) -> None:
        """Shut NVML down."""
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError:
            return  # nothing is left to be done about a driver that cannot even be left

    def _open_device(self, index: int) -> Device:
        label = f'GPU {index}'
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = pynvml.nvmlDeviceGetUUID(handle)
        except pynvml.NVMLError as error:
            self._tell_once('warning', describe(label, error.value), index, error.value)
            return Device(index, None, None, None)
        self._handles[uuid] = handle
        self._labels[uuid] = f'{label} ({uuid})'
        name = _quietly(lambda: pynvml.nvmlDeviceGetName(handle))
        if _quietly(lambda: pynvml.nvmlDeviceGetAccountingMode(handle)) == pynvml.NVML_FEATURE_ENABLED:
            self._accounted.add(uuid)
        return Device(index, uuid, name, self._memory(uuid)[0])

    def _memory(self, uuid: str) -> tuple[int | None, int | None]:
        """Return the total and the used bytes; version 2 leaves out of `used` what the driver reserves for itself."""
        handle = self._handles[uuid]
        memory = self._ask(uuid, 'memory', lambda: self._memory_info(handle))
        if memory is None:
            return None, None
        if memory.total == 0:  # unified memory: the GPU has none of its own
            self._tell_once('info', f'{self._labels[uuid]} does not report its memory.', uuid, 'memory')
            return None, None
        return memory.total, memory.used

    def _memory_info(self, handle: c_void_p) -> pynvml._Memory:
        """Ask for version 2, and for version 1 only where the other is not to be had: its `used` is larger."""
        if self._has_memory_v2:
            try:
                return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
            except pynvml.NVMLError as error:
                if error.value not in _NO_SUCH_VERSION:
                    raise
                self._has_memory_v2 = error.value == pynvml.NVML_ERROR_NOT_SUPPORTED  # then it is this GPU alone
        return pynvml.nvmlDeviceGetMemoryInfo(handle)

    def _samples(self, uuid: str) -> list[tuple[int, float]] | None:
        """Return what the driver has buffered since the last look; NOT_FOUND means that there is no new sample.

        Any other failure is no news: ``utilization`` is asked instead, and tells what is wrong with it.
        """
        last_seen = self._last_seen.get(uuid, 0)
        try:
            value_type, samples = pynvml.nvmlDeviceGetSamples(
                self._handles[uuid], pynvml.NVML_GPU_UTILIZATION_SAMPLES, last_seen
            )
        except pynvml.NVMLError as error:
            return [] if error.value == pynvml.NVML_ERROR_NOT_FOUND else None
        field = _VALUE_FIELDS[value_type] if value_type < len(_VALUE_FIELDS) else 'uiVal'
        latest = self._wall_clock() * 1e6 + _CLOCK_TOLERANCE_US
        values = {sample.timeStamp: float(getattr(sample.sampleValue, field)) for sample in samples}
        kept = sorted((when, v) for when, v in values.items() if last_seen < when <= latest and 0 <= v <= _FULL)
        if kept:
            self._last_seen[uuid] = kept[-1][0]
        return kept

    def _mig_devices(self, uuid: str) -> list[c_void_p]:
        """Return the handles of the MIG devices; they change when the GPU is partitioned anew, and may have gaps."""
        parent = self._handles[uuid]
        mode = _quietly(lambda: pynvml.nvmlDeviceGetMigMode(parent))
        if mode is None or mode[0] != pynvml.NVML_FEATURE_ENABLED:
            return []
        count = _quietly(lambda: pynvml.nvmlDeviceGetMaxMigDeviceCount(parent)) or 0
        handles = [_quietly(partial(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, i)) for i in range(count)]
        return [handle for handle in handles if handle is not None]

    @staticmethod
    def _name_instance(handle: c_void_p, entries: list[ProcessMemory]) -> None:
        """Give entries of a MIG device its instance IDs where the driver left them out."""
        if any(entry.gpu_instance is None for entry in entries):
            gpu_instance = _quietly(lambda: pynvml.nvmlDeviceGetGpuInstanceId(handle))
            compute_instance = _quietly(lambda: pynvml.nvmlDeviceGetComputeInstanceId(handle))
            for entry in entries:
                if entry.gpu_instance is None:
                    entry.gpu_instance, entry.compute_instance = gpu_instance, compute_instance

    def _listed(self, uuid: str, handle: c_void_p) -> list[ProcessMemory] | None:
        """Return compute and graphics processes; a GPU may support one of the lists alone."""
        entries: list[ProcessMemory] | None = None
        for kind in range(2):
            try:
                processes = self._process_list(kind, handle)
            except pynvml.NVMLError as error:
                if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
                    continue
                self._tell_failure(uuid, error.value)
                return None
            entries = (entries or []) + [_process_memory(process) for process in processes]
        if entries is None:
            self._tell_once('info', f'{self._labels[uuid]} does not list its processes.', uuid, 'processes')
        return entries

    def _process_list(self, kind: int, handle: c_void_p) -> Iterable[pynvml._Process]:
        """Return the compute (0) or graphics (1) list, of version 3 or, where the driver is older than R510, 2."""
        try:
            return self._lists[kind](handle)
        except pynvml.NVMLLibraryMismatchError:  # not an NVMLError
            pass
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_INSUFFICIENT_SIZE:  # more processes came between the call's two steps
                return self._lists[kind](handle)
            if error.value != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                raise
        self._lists = (
            pynvml.nvmlDeviceGetComputeRunningProcesses_v2,
            pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2,
        )
        return self._lists[kind](handle)

    def _ask(self, uuid: str, what: str, question: Callable[[], T]) -> T | None:
        """Return the driver's answer, or None, having told why."""
        try:
            return question()
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
                self._tell_once('info', f'{self._labels[uuid]} does not report its {what}.', uuid, what)
            else:
                self._tell_failure(uuid, error.value)
            return None

    def _tell_failure(self, uuid: str, code: int) -> None:
        if code == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:  # a matter of the driver, not of one GPU
            self._tell_once('warning', describe('This machine', code), code)
        else:
            self._tell_once('warning', describe(self._labels[uuid], code), uuid, code)

    def _tell_once(self, level: str, text: str, *cause: object) -> None:
        if cause not in self._told:
            self._told.add(cause)
            self._messages.append((level, text))


def _quietly(question: Callable[[], T]) -> T | None:
    """Return the answer to a question that the driver need not know to answer; what is wrong shows in the others."""
    try:
        return question()
    except pynvml.NVMLError:
        return None


def _process_memory(process: pynvml._Process) -> ProcessMemory:
    in_mig = process.gpuInstanceId != _NO_INSTANCE
    return ProcessMemory(
        process.pid,
        process.usedGpuMemory,
        process.gpuInstanceId if in_mig else None,
        process.computeInstanceId if in_mig else None,
    )


def _without_doubles(entries: list[ProcessMemory]) -> list[ProcessMemory]:
    """Keep one entry for each process and instance; the list that was read last may know more, or a later figure."""
    kept: dict[tuple[int, int | None, int | None], ProcessMemory] = {}
    for entry in entries:
        known = kept.setdefault((entry.pid, entry.gpu_instance, entry.compute_instance), entry)
        if entry.memory is not None:
            known.memory = max(known.memory or 0, entry.memory)
    return list(kept.values())
