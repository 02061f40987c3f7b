"""The physical GPUs of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.gpus.driver import Driver, ask_all
from gpu_tracker.gpus.opening import CUDA_BACKENDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpu_tracker.gpus.backend import GpuBackend
    from gpu_tracker.gpus.model import Gpu

DRIVER_TIMEOUT = 30.0
"""Seconds that the drivers have to answer; to open one takes up to 3 s a GPU where nothing else keeps it loaded."""

_MIG = ' MIG '


class PhysicalGpu(NamedTuple):
    """A GPU, or a MIG device of one; None is what the driver does not report."""

    uuid: str | None
    """None where the driver knows of the GPU and cannot open it."""
    vendor: str
    model: str | None
    driver: str | None
    """The driver's version."""
    mig: str | None = None
    """The profile of a MIG device, such as ``1g.5gb``, or its name; None for a whole GPU."""
    cores: int | None = None
    """CUDA cores: how many threads execute at the same time."""
    memory: int | None = None
    """Bytes."""
    minor: int | None = None
    """The N of the device file ``/dev/nvidiaN``; that of the whole GPU for a MIG device."""
    gpu_instance: int | None = None
    """The ID of a MIG device's GPU instance."""
    compute_instance: int | None = None
    """The ID of a MIG device's compute instance."""


class HostGpu(NamedTuple):
    """A GPU of this machine with its MIG devices."""

    gpu: PhysicalGpu
    parts: tuple[PhysicalGpu, ...] | None = None
    """None: not in MIG mode."""


class HostGpus(NamedTuple):
    """The GPUs of this machine."""

    gpus: tuple[HostGpu, ...] = ()
    """In PCI bus order, one vendor after the other."""
    problem: str | None = None
    """Why a driver that is there reports nothing, in words; None: it works, or there is none."""

    @property
    def physical(self) -> tuple[PhysicalGpu, ...]:
        """All that a program can compute on: whole GPUs, and of those in MIG mode the MIG devices instead."""
        return tuple(device for gpu in self.gpus for device in (gpu.parts if gpu.parts is not None else (gpu.gpu,)))


def read_host_gpus(
    openers: Mapping[str, Callable[[], GpuBackend | None]] = CUDA_BACKENDS, timeout: float = DRIVER_TIMEOUT
) -> HostGpus:
    """Ask the drivers.

    :param openers: Vendor -> what opens its driver.
    :param timeout: Seconds to wait for their answer.
    """
    drivers = [Driver(vendor, opener) for vendor, opener in openers.items()]
    found, problems = ask_all(drivers, lambda backend: backend.details(), timeout)
    for driver in drivers:
        driver.close()
    gpus = tuple(_host_gpu(vendor, gpu) for vendor, details in found.items() for gpu in details or ())
    return HostGpus(gpus, ' '.join(map(str, problems.values())) or None)


def _host_gpu(vendor: str, gpu: Gpu) -> HostGpu:
    whole = PhysicalGpu(
        gpu.uuid, vendor, gpu.name, gpu.driver, cores=gpu.cores, memory=gpu.memory_total, minor=gpu.minor
    )
    if gpu.mig_devices is None:
        return HostGpu(whole)
    return HostGpu(whole, tuple(_part(whole, part) for part in gpu.mig_devices))


def _part(whole: PhysicalGpu, part: Gpu) -> PhysicalGpu:
    """Return a MIG device: the driver calls it as its GPU with ``MIG`` and its profile behind."""
    name = part.name or ''
    return PhysicalGpu(
        part.uuid,
        whole.vendor,
        whole.model,
        whole.driver,
        mig=name.rpartition(_MIG)[2] or f'MIG device {part.number}',
        cores=part.cores,
        memory=part.memory_total,
        minor=whole.minor,
        gpu_instance=part.gpu_instance,
        compute_instance=part.compute_instance,
    )
