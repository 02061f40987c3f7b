"""The order in which GPUs are numbered."""

from __future__ import annotations

from functools import partial

import pynvml

from gpu_tracker.gpus.nvidia.calls import (
    NOT_AVAILABLE,
    is_in_mig_mode,
    merge,
    mig_devices,
    name_instance,
    quietly,
    utilization,
    without_doubles,
)
from gpu_tracker.gpus.nvidia.errors import problem_of
from gpu_tracker.gpus.state import DeviceDetails, DeviceState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from ctypes import c_void_p
    from typing import TypeVar

    from gpu_tracker.gpus.nvidia.calls import Calls
    from gpu_tracker.gpus.reading import ProcessMemory

    T = TypeVar('T')


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


_OUT_OF_REACH = {pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED}

_HOTTEST = 1000
"""Degrees Celsius; more is garbage."""

_MEGA = 1_000_000
_MILLI = 1000


def survey(calls: Calls, *, with_load: bool, with_sensors: bool) -> list[DeviceState]:
    """Return all GPUs that the driver counts, in PCI bus order; one that cannot be read keeps the driver's place."""
    indices = range(pynvml.nvmlDeviceGetCount())
    found = [_whole_gpu(calls, index, with_load=with_load, with_sensors=with_sensors) for index in indices]
    placed = in_bus_order(found, lambda gpu: gpu.pci_bus_id)
    return [gpu._replace(number=index) for index, gpu in enumerate(placed)]


def _whole_gpu(calls: Calls, index: int, *, with_load: bool, with_sensors: bool) -> DeviceState:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = pynvml.nvmlDeviceGetUUID(handle)
    except pynvml.NVMLError as error:
        return DeviceState(index, problem=problem_of(error.value))
    pci = quietly(lambda: pynvml.nvmlDeviceGetPciInfo(handle))
    state = DeviceState(
        index,
        uuid,
        quietly(lambda: pynvml.nvmlDeviceGetName(handle)),
        None if pci is None else pci.busId,
        quietly(lambda: pynvml.nvmlDeviceGetMinorNumber(handle)),
    )
    try:
        is_divided = is_in_mig_mode(handle)
        state = _with_memory(calls, state, handle, is_divided=is_divided, with_processes=with_load)
    except pynvml.NVMLError as error:
        return state._replace(problem=problem_of(error.value))
    if is_divided:
        parts = _mig_devices(calls, handle, with_processes=with_load)
        state = state._replace(mig_devices=parts, processes=merge(state.processes, [part.processes for part in parts]))
    if not with_load:
        return state
    state = state._replace(utilization=quietly(lambda: utilization(handle)))
    return _with_sensors(state, handle) if with_sensors else state


def _with_sensors(state: DeviceState, handle: c_void_p) -> DeviceState:
    """Add what the sensors tell."""
    clock = _available(quietly(lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)))
    temperature = quietly(lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))
    return state._replace(
        temperature=None if temperature is None or temperature > _HOTTEST else float(temperature),
        sm_clock=None if clock is None else clock * _MEGA,
        power=_watts(quietly(lambda: pynvml.nvmlDeviceGetPowerUsage(handle))),
        power_limit=_watts(quietly(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle))),
    )


def _with_memory(
    calls: Calls, state: DeviceState, handle: c_void_p, *, is_divided: bool = False, with_processes: bool
) -> DeviceState:
    """Add the memory, and the processes where they are wanted or where only they tell whether the GPU is in use.

    :param is_divided: Whether this is a GPU in MIG mode: its own memory may be kept from users who can use its parts.
    :raises pynvml.NVMLError: The GPU cannot be read. What is asked only with processes never decides that, so that
        both ways of looking agree.
    """
    try:
        memory = calls.memory(handle)
    except pynvml.NVMLError as error:
        is_unknown = is_divided or error.value == pynvml.NVML_ERROR_NOT_SUPPORTED
        if error.value in _OUT_OF_REACH or not is_unknown:
            raise
        memory = None
    if memory is not None and max(memory.used, memory.free, 1) <= memory.total:  # 0: it has no memory of its own
        state = state._replace(memory_total=memory.total, memory_used=memory.used, memory_free=memory.free)
    if with_processes or state.memory_total is None:
        state = state._replace(processes=_processes(calls, state, handle))
    return state


def _processes(calls: Calls, state: DeviceState, handle: c_void_p) -> list[ProcessMemory] | None:
    """Return the processes; None where the GPU, or a driver older than R450, does not list them, or not to this user.

    :raises pynvml.NVMLError: The GPU is out of reach, and its memory did not tell that.
    """
    try:
        listed = calls.processes(handle)
    except pynvml.NVMLError as error:
        if error.value in _OUT_OF_REACH and state.memory_total is None:
            raise
        return None
    return None if listed is None else without_doubles(listed)


def _mig_devices(calls: Calls, gpu: c_void_p, *, with_processes: bool) -> tuple[DeviceState, ...]:
    return tuple(
        _mig_device(calls, number, handle, with_processes=with_processes) for number, handle in mig_devices(gpu)
    )


def _mig_device(calls: Calls, number: int, handle: c_void_p, *, with_processes: bool) -> DeviceState:
    """Look at a MIG device, which has no sensors of its own."""
    try:
        uuid = pynvml.nvmlDeviceGetUUID(handle)
        state = DeviceState(number, uuid, quietly(partial(pynvml.nvmlDeviceGetName, handle)))
        state = _with_memory(calls, state, handle, with_processes=with_processes)
    except pynvml.NVMLError as error:
        return DeviceState(number, problem=problem_of(error.value))
    if state.processes is not None:
        name_instance(handle, state.processes)
    return state


def _watts(milliwatts: int | None) -> float | None:
    known = _available(milliwatts)
    return None if known is None else known / _MILLI


def _available(number: int | None) -> int | None:
    return None if number == NOT_AVAILABLE else number


_CORES_OF_MULTIPROCESSOR = {(8, 0): 64, (9, 0): 128, (10, 0): 128, (10, 3): 128, (12, 0): 128}
"""Compute capability -> CUDA cores of a multiprocessor, of the GPUs that can be divided: _ConvertSMVer2Cores in
helper_cuda.h of NVIDIA's samples."""


def details(calls: Calls) -> list[DeviceDetails]:
    """Return all GPUs that the driver counts, in PCI bus order; one that cannot be opened keeps the driver's place.

    :raises pynvml.NVMLError: The driver does not count them.
    """
    driver = quietly(pynvml.nvmlSystemGetDriverVersion)
    found = [_gpu(calls, index, driver) for index in range(pynvml.nvmlDeviceGetCount())]
    placed = in_bus_order(found, lambda entry: entry[1])
    return [gpu._replace(number=place) for place, (gpu, _) in enumerate(placed)]


def _gpu(calls: Calls, index: int, driver: str | None) -> tuple[DeviceDetails, str | None]:
    """Return a GPU and its PCI bus ID."""
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = pynvml.nvmlDeviceGetUUID(handle)
    except pynvml.NVMLError:
        return DeviceDetails(index, driver=driver), None
    pci = quietly(lambda: pynvml.nvmlDeviceGetPciInfo(handle))
    gpu = DeviceDetails(
        index,
        uuid,
        quietly(lambda: pynvml.nvmlDeviceGetName(handle)),
        driver,
        minor=quietly(lambda: pynvml.nvmlDeviceGetMinorNumber(handle)),
        memory=_memory(calls, handle),
        cores=quietly(lambda: pynvml.nvmlDeviceGetNumGpuCores(handle)) or None,
    )
    if quietly(lambda: is_in_mig_mode(handle)):
        capability = quietly(lambda: pynvml.nvmlDeviceGetCudaComputeCapability(handle))
        cores = None if capability is None else _CORES_OF_MULTIPROCESSOR.get((capability[0], capability[1]))
        parts = [_mig_device_details(calls, number, part, driver, cores) for number, part in mig_devices(handle)]
        gpu = gpu._replace(mig_devices=tuple(parts))
    return gpu, None if pci is None else pci.busId


def _mig_device_details(
    calls: Calls, number: int, handle: c_void_p, driver: str | None, cores_of_multiprocessor: int | None
) -> DeviceDetails:
    attributes = quietly(lambda: pynvml.nvmlDeviceGetAttributes_v2(handle))
    multiprocessors = 0 if attributes is None else attributes.multiprocessorCount
    return DeviceDetails(
        number,
        quietly(partial(pynvml.nvmlDeviceGetUUID, handle)),
        quietly(partial(pynvml.nvmlDeviceGetName, handle)),
        driver,
        memory=_memory(calls, handle),
        cores=multiprocessors * (cores_of_multiprocessor or 0) or None,
        gpu_instance=quietly(lambda: pynvml.nvmlDeviceGetGpuInstanceId(handle)),
        compute_instance=quietly(lambda: pynvml.nvmlDeviceGetComputeInstanceId(handle)),
    )


def _memory(calls: Calls, handle: c_void_p) -> int | None:
    memory = quietly(lambda: calls.memory(handle))
    return None if memory is None else memory.total or None  # 0: unified memory, the GPU has none of its own
