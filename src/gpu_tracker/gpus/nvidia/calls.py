"""NVML's calls whose version, or whose answer's shape, depends on the driver and the GPU."""

from __future__ import annotations

from functools import partial

import pynvml

from gpu_tracker.gpus.model import GpuProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from ctypes import c_void_p
    from typing import TypeVar

    T = TypeVar('T')

COMPUTE = 0
GRAPHICS = 1

NOT_AVAILABLE = 0xFFFFFFFF
"""What the driver gives for a number of 32 bits that it does not have, as the instance IDs outside MIG mode."""

FULL = 100
"""Percent; a larger utilization is garbage."""

VALUE_FIELDS = ('dVal', 'uiVal', 'ulVal', 'ullVal', 'sllVal', 'siVal', 'usVal')
"""nvmlValueType_t -> the member of the union that holds a value."""

NO_SUCH_CALL = {pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
"""How a GPU answers that does not support a call, and a driver that is too old for it."""

_NO_SUCH_VERSION = {
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
}

_NO_MIG = {
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_NOT_SUPPORTED,
}
"""How drivers and GPUs answer that do not know MIG mode."""


def quietly(question: Callable[[], T]) -> T | None:
    """Return the answer to a question that the driver need not know to answer; what is wrong shows in the others."""
    try:
        return question()
    except pynvml.NVMLError:
        return None


class Calls:
    """Calls in the newest version that the opened driver has, which is found out once.

    Threads may share it: NVML may be called from several at once, and what has been found out here is replaced in one
    step. A thread that has still read what was there before finds out the same again.
    """

    def __init__(self) -> None:
        self._has_memory_v2 = True
        self._lists = (pynvml.nvmlDeviceGetComputeRunningProcesses, pynvml.nvmlDeviceGetGraphicsRunningProcesses)

    def memory(self, handle: c_void_p) -> pynvml._Memory:
        """Ask for version 2, and for version 1 only where the other is not to be had: its `used` is larger.

        Version 2 leaves out of `used` what the driver reserves for itself. A total of 0 is that of unified memory.
        """
        if self._has_memory_v2:
            try:
                return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
            except pynvml.NVMLError as error:
                if error.value not in _NO_SUCH_VERSION:
                    raise
                self._has_memory_v2 = error.value == pynvml.NVML_ERROR_NOT_SUPPORTED  # then it is this GPU alone
        return pynvml.nvmlDeviceGetMemoryInfo(handle)

    def listed(self, kind: int, handle: c_void_p) -> list[GpuProcess]:
        """Return the processes in one list, COMPUTE or GRAPHICS.

        :raises pynvml.NVMLError: Any failure, NOT_SUPPORTED included.
        """
        return [_process(process, kind) for process in self._process_list(kind, handle)]

    def _process_list(self, kind: int, handle: c_void_p) -> Iterable[pynvml._Process]:
        """Return the compute or the graphics list, of version 3 or, where the driver is older than R510, 2."""
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


def percent(number: int) -> int | None:
    """Return a percentage, None if it is garbage."""
    return number if number <= FULL else None


def is_in_mig_mode(handle: c_void_p) -> bool:
    """Return whether a GPU is divided into MIG devices, be it none.

    :raises pynvml.NVMLError: The driver knows the mode and does not report it.
    """
    try:
        mode = pynvml.nvmlDeviceGetMigMode(handle)
    except pynvml.NVMLError as error:
        if error.value in _NO_MIG:
            return False
        raise
    return mode[0] == pynvml.NVML_FEATURE_ENABLED


def mig_devices(handle: c_void_p) -> list[tuple[int, c_void_p]]:
    """Return numbers and handles of the MIG devices of a GPU in MIG mode.

    They change when the GPU is divided anew, and the numbers may have gaps.
    """
    count = quietly(lambda: pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0
    found = [(i, quietly(partial(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, i))) for i in range(count)]
    return [(number, device) for number, device in found if device is not None]


def name_instance(handle: c_void_p, entries: tuple[GpuProcess, ...]) -> tuple[GpuProcess, ...]:
    """Return the entries of a MIG device with its instance IDs where the driver left them out."""
    if all(entry.gpu_instance is not None for entry in entries):
        return entries
    gpu_instance = quietly(lambda: pynvml.nvmlDeviceGetGpuInstanceId(handle))
    compute_instance = quietly(lambda: pynvml.nvmlDeviceGetComputeInstanceId(handle))
    return tuple(
        entry._replace(gpu_instance=gpu_instance, compute_instance=compute_instance)
        if entry.gpu_instance is None
        else entry
        for entry in entries
    )


def merge(
    whole: tuple[GpuProcess, ...] | None, parts: list[tuple[GpuProcess, ...] | None]
) -> tuple[GpuProcess, ...] | None:
    """Return the processes of a GPU's own list and of its MIG devices' lists, each once for each instance.

    The own list has all processes if the driver gives it to this user. Without it all MIG devices have to be known.
    """
    if whole is None and (None in parts or not parts):
        return None
    entries = whole or ()
    for in_part in parts:
        with_instance = {entry.pid for entry in in_part or ()}
        kept = [e for e in entries if e.gpu_instance is not None or e.pid not in with_instance]
        entries = (*kept, *(in_part or ()))
    return without_doubles(entries)


def without_doubles(entries: Iterable[GpuProcess]) -> tuple[GpuProcess, ...]:
    """Keep one entry for each process and instance; the list that was read last may know more, or a later figure."""
    kept: dict[tuple[int, int | None, int | None], GpuProcess] = {}
    for entry in entries:
        key = (entry.pid, entry.gpu_instance, entry.compute_instance)
        known = kept.get(key, entry)
        kept[key] = known._replace(
            computes=known.computes or entry.computes,
            draws=known.draws or entry.draws,
            memory=known.memory if entry.memory is None else max(known.memory or 0, entry.memory),
        )
    return tuple(kept.values())


def _process(process: pynvml._Process, kind: int) -> GpuProcess:
    in_mig = process.gpuInstanceId != NOT_AVAILABLE
    return GpuProcess(
        process.pid,
        process.usedGpuMemory,
        computes=kind == COMPUTE,
        draws=kind == GRAPHICS,
        gpu_instance=process.gpuInstanceId if in_mig else None,
        compute_instance=process.computeInstanceId if in_mig else None,
    )


def in_bus_order(gpus: Iterable[T], pci_bus_id: Callable[[T], str | None]) -> list[T]:
    """Return GPUs in PCI bus order; one whose bus ID is unknown keeps the driver's place.

    The driver numbers its GPUs in that order too, but nvml.h promises nothing.
    """
    known = [(pci_bus_id(gpu), gpu) for gpu in gpus]
    in_order = iter(sorted(((_position(bus_id), gpu) for bus_id, gpu in known if bus_id), key=lambda found: found[0]))
    return [next(in_order)[1] if bus_id else gpu for bus_id, gpu in known]


def _position(pci_bus_id: str) -> tuple[int, ...]:
    """Return domain, bus and device as numbers; the function after the dot is always 0."""
    return tuple(int(part, 16) for part in pci_bus_id.partition('.')[0].split(':'))
