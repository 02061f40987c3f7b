"""What the GPUs of the driver are: asked once, by who tells of them, and never by the sampler."""

from __future__ import annotations

from functools import partial

import pynvml

from gpu_tracker.gpus.details import DeviceDetails
from gpu_tracker.gpus.nvidia.calls import is_in_mig_mode, mig_devices, quietly
from gpu_tracker.gpus.nvidia.order import in_bus_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ctypes import c_void_p

    from gpu_tracker.gpus.nvidia.calls import Calls

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
        parts = [_mig_device(calls, number, part, driver, cores) for number, part in mig_devices(handle)]
        gpu = gpu._replace(mig_devices=tuple(parts))
    return gpu, None if pci is None else pci.busId


def _mig_device(
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
