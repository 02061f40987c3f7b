"""The GPUs that the driver counts: opened, described and put in order. All readings go through these handles."""

from __future__ import annotations

from functools import partial

import pynvml

from gpu_tracker.gpus.model import Gpu
from gpu_tracker.gpus.nvidia.calls import is_in_mig_mode, mig_devices, quietly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from ctypes import c_void_p
    from typing import TypeVar

    from gpu_tracker.gpus.nvidia.calls import Calls

    T = TypeVar('T')

    Opened = tuple[Gpu, c_void_p | None, int]
    """A GPU, its handle, and the code with which the driver has refused it."""

_CORES_OF_MULTIPROCESSOR = {(8, 0): 64, (9, 0): 128, (10, 0): 128, (10, 3): 128, (12, 0): 128}
"""Compute capability -> CUDA cores of a multiprocessor, of the GPUs that can be divided: _ConvertSMVer2Cores in
helper_cuda.h of NVIDIA's samples."""


def open_gpus() -> list[Opened]:
    """Return all GPUs that the driver counts, in PCI bus order; one that cannot be opened keeps the driver's place.

    :raises pynvml.NVMLError: The driver does not count them.
    """
    found: list[Opened] = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            found.append((described(handle, Gpu(index)), handle, pynvml.NVML_SUCCESS))
        except pynvml.NVMLError as error:
            found.append((Gpu(index), None, error.value))
    placed = in_bus_order(found, lambda opened: opened[0].pci_bus_id)
    return [(gpu._replace(number=place), handle, code) for place, (gpu, handle, code) in enumerate(placed)]


def described(handle: c_void_p, gpu: Gpu) -> Gpu:
    """Return a GPU with what does not change while its driver is loaded; what is known of it already stays.

    :raises pynvml.NVMLError: It cannot be opened.
    """
    uuid = pynvml.nvmlDeviceGetUUID(handle) if gpu.uuid is None else gpu.uuid
    pci = quietly(lambda: pynvml.nvmlDeviceGetPciInfo(handle))
    return gpu._replace(
        uuid=uuid,
        name=gpu.name or quietly(lambda: pynvml.nvmlDeviceGetName(handle)),
        pci_bus_id=gpu.pci_bus_id or (None if pci is None else pci.busId),
        minor=quietly(lambda: pynvml.nvmlDeviceGetMinorNumber(handle)),
    )


def details(calls: Calls) -> list[Gpu]:
    """Return what all GPUs and their MIG devices are, in PCI bus order.

    :raises pynvml.NVMLError: The driver does not count them.
    """
    driver = quietly(pynvml.nvmlSystemGetDriverVersion)
    return [
        gpu._replace(driver=driver) if handle is None else _in_detail(calls, gpu._replace(driver=driver), handle)
        for gpu, handle, _ in open_gpus()
    ]


def _in_detail(calls: Calls, gpu: Gpu, handle: c_void_p) -> Gpu:
    gpu = gpu._replace(
        memory_total=_memory(calls, handle), cores=quietly(lambda: pynvml.nvmlDeviceGetNumGpuCores(handle)) or None
    )
    if not quietly(lambda: is_in_mig_mode(handle)):
        return gpu
    capability = quietly(lambda: pynvml.nvmlDeviceGetCudaComputeCapability(handle))
    cores = None if capability is None else _CORES_OF_MULTIPROCESSOR.get((capability[0], capability[1]))
    parts = [_mig_device(calls, number, part, gpu.driver, cores) for number, part in mig_devices(handle)]
    return gpu._replace(mig_devices=tuple(parts))


def _mig_device(
    calls: Calls, number: int, handle: c_void_p, driver: str | None, cores_of_multiprocessor: int | None
) -> Gpu:
    attributes = quietly(lambda: pynvml.nvmlDeviceGetAttributes_v2(handle))
    multiprocessors = 0 if attributes is None else attributes.multiprocessorCount
    return Gpu(
        number,
        quietly(partial(pynvml.nvmlDeviceGetUUID, handle)),
        quietly(partial(pynvml.nvmlDeviceGetName, handle)),
        driver=driver,
        memory_total=_memory(calls, handle),
        cores=multiprocessors * (cores_of_multiprocessor or 0) or None,
        gpu_instance=quietly(lambda: pynvml.nvmlDeviceGetGpuInstanceId(handle)),
        compute_instance=quietly(lambda: pynvml.nvmlDeviceGetComputeInstanceId(handle)),
    )


def _memory(calls: Calls, handle: c_void_p) -> int | None:
    memory = quietly(lambda: calls.memory(handle))
    return None if memory is None else memory.total or None  # 0: unified memory, the GPU has none of its own


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
