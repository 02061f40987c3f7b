"""One reading of all GPUs of the driver and of their MIG devices."""

from __future__ import annotations

from functools import partial

import pynvml

from gpu_tracker.gpus.model import Gpu, GpuProcess, GpuReading
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
from gpu_tracker.gpus.nvidia.devices import open_gpus
from gpu_tracker.gpus.nvidia.errors import problem_of
from gpu_tracker.gpus.nvidia.health import read_health

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from ctypes import c_void_p

    from gpu_tracker.gpus.nvidia.calls import Calls
    from gpu_tracker.gpus.nvidia.process_utilization import ProcessUtilization

_OUT_OF_REACH = {pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED}

_HOTTEST = 1000
"""Degrees Celsius; more is garbage."""

_MEGA = 1_000_000
_MILLI = 1000


def survey(
    calls: Calls, utilization_of: Mapping[str, ProcessUtilization], *, with_load: bool, with_sensors: bool
) -> list[GpuReading]:
    """Return all GPUs that the driver counts, in PCI bus order; one that cannot be read keeps the driver's place.

    :param utilization_of: By UUID, what reads how busy the processes of a GPU keep it.
    """
    return [
        GpuReading(gpu, problem_of(code))
        if handle is None
        else _whole_gpu(calls, utilization_of, gpu, handle, with_load=with_load, with_sensors=with_sensors)
        for gpu, handle, code in open_gpus()
    ]


def _whole_gpu(
    calls: Calls,
    utilization_of: Mapping[str, ProcessUtilization],
    gpu: Gpu,
    handle: c_void_p,
    *,
    with_load: bool,
    with_sensors: bool,
) -> GpuReading:
    reading = GpuReading(gpu)
    try:
        is_divided = is_in_mig_mode(handle)
        reading = _with_memory(calls, reading, handle, is_divided=is_divided, with_processes=with_load)
    except pynvml.NVMLError as error:
        return reading._replace(problem=problem_of(error.value))
    if is_divided:
        parts = tuple(_mig_device(calls, number, part, with_load=with_load) for number, part in mig_devices(handle))
        own = None if reading.processes is None else list(reading.processes)
        merged = merge(own, [None if part.processes is None else list(part.processes) for part in parts])
        reading = reading._replace(mig_devices=parts, processes=None if merged is None else tuple(merged))
    if not with_load:
        return reading
    if reading.processes is not None and not is_divided and gpu.uuid is not None:
        processes = utilization_of[gpu.uuid].added_to(list(reading.processes), handle)
        reading = reading._replace(processes=tuple(processes))
    reading = reading._replace(utilization=quietly(lambda: utilization(handle)))
    return _with_sensors(reading, handle) if with_sensors else reading


def _with_sensors(reading: GpuReading, handle: c_void_p) -> GpuReading:
    clock = _available(quietly(lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)))
    temperature = quietly(lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))
    return reading._replace(
        temperature=None if temperature is None or temperature > _HOTTEST else float(temperature),
        sm_clock=None if clock is None else clock * _MEGA,
        power=_watts(quietly(lambda: pynvml.nvmlDeviceGetPowerUsage(handle))),
        power_limit=_watts(quietly(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle))),
        health=read_health(handle),
    )


def _with_memory(
    calls: Calls, reading: GpuReading, handle: c_void_p, *, is_divided: bool = False, with_processes: bool
) -> GpuReading:
    """Add the memory, and the processes where they are wanted or where only they show whether the GPU is in use.

    :param is_divided: Whether this is a GPU in MIG mode: its own memory may be kept from users who can use its parts.
    :raises pynvml.NVMLError: The GPU cannot be read. What is asked only with processes never decides that, so that
        both kinds of reading agree.
    """
    try:
        memory = calls.memory(handle)
    except pynvml.NVMLError as error:
        is_unknown = is_divided or error.value == pynvml.NVML_ERROR_NOT_SUPPORTED
        if error.value in _OUT_OF_REACH or not is_unknown:
            raise
        memory = None
    if memory is not None and max(memory.used, memory.free, 1) <= memory.total:  # 0: it has no memory of its own
        gpu = reading.gpu._replace(memory_total=memory.total)
        reading = reading._replace(gpu=gpu, memory_used=memory.used, memory_free=memory.free)
    if with_processes or reading.memory_total is None:
        reading = reading._replace(processes=_processes(calls, reading, handle))
    return reading


def _processes(calls: Calls, reading: GpuReading, handle: c_void_p) -> tuple[GpuProcess, ...] | None:
    """Return the processes; None where the GPU, or a driver older than R450, does not list them, or not to this user.

    :raises pynvml.NVMLError: The GPU is out of reach, and reading its memory did not show that.
    """
    try:
        listed = calls.processes(handle)
    except pynvml.NVMLError as error:
        if error.value in _OUT_OF_REACH and reading.memory_total is None:
            raise
        return None
    return None if listed is None else tuple(without_doubles(listed))


def _mig_device(calls: Calls, number: int, handle: c_void_p, *, with_load: bool) -> GpuReading:
    """Read a MIG device, which has no sensors of its own."""
    try:
        gpu = Gpu(number, pynvml.nvmlDeviceGetUUID(handle), quietly(partial(pynvml.nvmlDeviceGetName, handle)))
        reading = _with_memory(calls, GpuReading(gpu), handle, with_processes=with_load)
    except pynvml.NVMLError as error:
        return GpuReading(Gpu(number), problem_of(error.value))
    if reading.processes is None:
        return reading
    return reading._replace(processes=tuple(name_instance(handle, list(reading.processes))))


def _watts(milliwatts: int | None) -> float | None:
    known = _available(milliwatts)
    return None if known is None else known / _MILLI


def _available(number: int | None) -> int | None:
    return None if number == NOT_AVAILABLE else number
